#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lagom/cost_model/classifier.h"
#include "lagom/cost_model/train_task.h"
#include "lagom/cost_model/trainer.h"
#include "lagom/train/adamw.h"
#include "lagom/train/schedule.h"

namespace lagom::cost_model {

struct ClassTrainOptions {
  TrainTask task = TrainTask::kClassification;
  std::vector<std::string> train;  ///< Folders of edge lists (lagom/graph/edge_list.h).
  std::vector<std::string> valid;  ///< Empty: the last step's parameters are the result.
  int64_t label_depth = 1;         ///< Which folder below each of these is the label.
  std::vector<int64_t> seeds = {1};
  int64_t steps = 1000;
  int64_t graphs_per_step = 8;  ///< Gradients are averaged over them.
  int64_t eval_every = 100;     ///< Steps between validations, and between checkpoints.
  double weight_decay = 1e-4;
  ClassifierNetworkOptions model;
  SegmentOptions segments;
  train::AdamWOptions optimizer = {.beta2 = 0.999};
  train::ScheduleOptions schedule = {.final_share = 0};

  /// Throws std::invalid_argument naming the first field that is out of range.
  void validate() const;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("task", self.task);
    visit("train", self.train);
    visit("valid", self.valid);
    visit("label_depth", self.label_depth);
    visit("seeds", self.seeds);
    visit("steps", self.steps);
    visit("graphs_per_step", self.graphs_per_step);
    visit("eval_every", self.eval_every);
    visit("weight_decay", self.weight_decay);
    visit("model", self.model);
    visit("segments", self.segments);
    visit("optimizer", self.optimizer);
    visit("schedule", self.schedule);
  }
};

/// Trains a classifier into a folder, by cross-entropy; files as train_model's, the metric being
/// the accuracy on `valid`. Stops and resumes exactly.
RunResult train_classifier(const ClassTrainOptions& options, const std::vector<ClassGraph>& train,
                           const std::vector<ClassGraph>& valid,
                           const std::vector<std::string>& classes, int64_t seed,
                           const std::filesystem::path& folder, bool resume,
                           const StopCheck& stop = {});

}  // namespace lagom::cost_model

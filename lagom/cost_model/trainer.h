#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/cost_model/losses.h"
#include "lagom/cost_model/run_result.h"
#include "lagom/cost_model/segments.h"
#include "lagom/cost_model/train_task.h"
#include "lagom/cost_model/trained_model.h"
#include "lagom/cost_model/training_set.h"
#include "lagom/train/adamw.h"
#include "lagom/train/schedule.h"

/// The training loop of the cost model.
namespace lagom::cost_model {

/// What decides which parameters are kept; means over the validation graphs.
enum class Metric {
  kKendallTau,
  kOrderedPairAccuracy,
  kTop1Slowdown,
  kTop5Slowdown,
};
std::span<const std::string_view> option_names(Metric);
bool higher_is_better(Metric);
double metric_of(const rank::GraphMetrics& metrics, Metric metric);

struct TrainOptions {
  TrainTask task = TrainTask::kRanking;
  std::vector<std::string> train;  ///< Files (.graph, .npz) or folders with such below.
  std::vector<std::string> valid;  ///< Empty: the last step's parameters are the result.
  std::vector<int64_t> seeds = {1};
  int64_t steps = 10000;
  int64_t graphs_per_step = 1;  ///< Gradients are averaged over them.
  int64_t configs = 64;         ///< Of one graph at once.
  bool by_num_configs = false;  ///< SamplingOptions.
  int64_t eval_every = 500;     ///< Steps between validations, and between checkpoints.
  int64_t eval_configs = 1000;  ///< Of each validation graph, evenly from its rows; 0: all.
  int64_t patience = 0;  ///< Validations without a better one until a run stops; 0: none stops it.
  Metric metric = Metric::kKendallTau;
  double weight_decay = 1e-5;
  double average_decay =
      0;  ///< Of an average of the parameters that is evaluated and kept; 0: none.
  DataOptions data;
  SegmentOptions segments;
  ModelOptions model;
  LossOptions loss;
  train::AdamWOptions optimizer = {.beta2 = 0.999};
  train::ScheduleOptions schedule = {.final_share = 0};
  InferenceOptions inference;

  /// Throws std::invalid_argument or c10::ValueError naming the first field that is out of range.
  void validate() const;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("task", self.task);
    visit("train", self.train);
    visit("valid", self.valid);
    visit("seeds", self.seeds);
    visit("steps", self.steps);
    visit("graphs_per_step", self.graphs_per_step);
    visit("configs", self.configs);
    visit("by_num_configs", self.by_num_configs);
    visit("eval_every", self.eval_every);
    visit("eval_configs", self.eval_configs);
    visit("patience", self.patience);
    visit("metric", self.metric);
    visit("weight_decay", self.weight_decay);
    visit("average_decay", self.average_decay);
    visit("data", self.data);
    visit("segments", self.segments);
    visit("model", self.model);
    visit("loss", self.loss);
    visit("optimizer", self.optimizer);
    visit("schedule", self.schedule);
    visit("inference", self.inference);
  }
};

/// Opens files and the graphs below folders. Throws std::invalid_argument when there is none,
/// SystemError and FormatError.
std::vector<LabeledGraph> open_graphs(const std::vector<std::string>& paths);

/// Trains one network from one seed, into a folder:
/// - config.toml: the resolved options;
/// - log.jsonl (and TensorBoard events): a line per step and per validation;
/// - last.safetensors: the model with what resuming needs, written at every validation and at a
///   stop; best.safetensors: the model of the best validation.
/// Where graphs are cut, lines of steps also say what was met in the history (StaleReport), and
/// last.safetensors has the history; history.bin is the file of a mapped one.
/// A run that is stopped and resumed takes the very steps of one that was not, bit for bit, on as
/// many threads.
///
/// Throws std::runtime_error when a loss or gradient is not finite, naming step and graph; what was
/// saved stays.
RunResult train_model(const TrainOptions& options, const std::vector<LabeledGraph>& train,
                      const std::vector<LabeledGraph>& valid, int64_t seed,
                      const std::filesystem::path& folder, bool resume, const StopCheck& stop = {});

/// Metrics of one graph's rows, all of them or `limit` spread evenly. Throws FormatError for a
/// graph without labels or with fewer than two rows.
rank::GraphMetrics evaluate_graph(const TrainedModel& model, const LabeledGraph& graph,
                                  const PreparedGraph& prepared, int64_t limit,
                                  const InferenceOptions& inference);

}  // namespace lagom::cost_model

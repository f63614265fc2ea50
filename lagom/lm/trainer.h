#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "lagom/lm/data.h"
#include "lagom/lm/model.h"
#include "lagom/train/adamw.h"
#include "lagom/train/schedule.h"

namespace lagom::lm {

struct LmTrainOptions {
  std::string init;  ///< A dense checkpoint to begin with; `model` then only says how to route it.
  int64_t seed = 0;
  int64_t steps = 1000;       ///< Optimizer steps.
  int64_t batch = 8;          ///< Sequences per micro-batch.
  int64_t accumulate = 1;     ///< Micro-batches per step.
  double weight_decay = 0.1;  ///< Of matrices; norms, biases, routers and predictors have none.
  double router_rate = 1;     ///< Learning rate of routers, times the schedule's.
  double predictor_rate = 1;  ///< Likewise of predictors.
  /// Share of the steps over which the capacity falls from 1 to the model's, linearly.
  double capacity_warmup_share = 0;
  bool bfloat16 = false;           ///< Products of the blocks round their operands to bfloat16.
  bool checkpoint_blocks = false;  ///< Recompute blocks for the gradient: less memory, more time.
  int64_t log_every = 10;
  int64_t eval_every = 250;   ///< Steps between evaluations; 0: only at the end.
  int64_t eval_windows = 64;  ///< Windows of an evaluation; 0: all there are.
  int64_t save_every = 250;   ///< Steps between checkpoints; 0: only at the end.
  int64_t sample_every = 0;   ///< Steps between texts written to samples.txt; 0: none.
  std::string sample_prompt = "\n";
  train::ScheduleOptions schedule;
  train::AdamWOptions optimizer;
  DataOptions data;
  LmOptions model;

  /// Throws std::invalid_argument naming the first field that is out of range.
  void validate() const;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("init", self.init);
    visit("seed", self.seed);
    visit("steps", self.steps);
    visit("batch", self.batch);
    visit("accumulate", self.accumulate);
    visit("weight_decay", self.weight_decay);
    visit("router_rate", self.router_rate);
    visit("predictor_rate", self.predictor_rate);
    visit("capacity_warmup_share", self.capacity_warmup_share);
    visit("bfloat16", self.bfloat16);
    visit("checkpoint_blocks", self.checkpoint_blocks);
    visit("log_every", self.log_every);
    visit("eval_every", self.eval_every);
    visit("eval_windows", self.eval_windows);
    visit("save_every", self.save_every);
    visit("sample_every", self.sample_every);
    visit("sample_prompt", self.sample_prompt);
    visit("schedule", self.schedule);
    visit("optimizer", self.optimizer);
    visit("data", self.data);
    visit("model", self.model);
  }
};

/// What a step met.
struct LmStepReport {
  int64_t step = 0;  ///< Steps done.
  double loss = 0;   ///< Of the language model, top-k routing, nats per token.
  double predictor_loss = 0, predictor_accuracy = 0;
  double gradient_norm = 0, learning_rate = 0, capacity = 0;
};

/// Trains a language model into a run folder:
///   options.toml       the options, resolved
///   log.jsonl, events* numbers by step
///   checkpoint.safetensors  model, optimizer, step and data cursor: resuming gives the same bits
///   model.safetensors  the model alone, at the end
///   samples.txt        texts written along the way
class LmTrainer {
 public:
  /// With `resume` the folder's checkpoint goes on, if there is one.
  /// Throws std::invalid_argument and FormatError for options, data and checkpoints that do not
  /// fit.
  LmTrainer(const LmTrainOptions& options, const std::filesystem::path& folder, bool resume);
  ~LmTrainer();

  int64_t step() const;  ///< Steps done.
  const Model& model() const;

  /// One optimizer step. Throws std::runtime_error when loss or gradients are not finite: the
  /// checkpoint on disk is the last good state.
  LmStepReport train_step();

  /// All steps that are left, with logs, evaluations and checkpoints; saves and returns early when
  /// `stop` becomes true. Prints to stderr.
  void run(const std::function<bool()>& stop);

  void save() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lagom::lm

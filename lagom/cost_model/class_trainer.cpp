#include "lagom/cost_model/class_trainer.h"

#include <ATen/ATen.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "lagom/cost_model/segment_training.h"
#include "lagom/train/check_field.h"
#include "lagom/train/flat_parameters.h"
#include "lagom/train/run_log.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "lagom/util/options.h"
#include "lagom/util/random_stream.h"

namespace lagom::cost_model {
namespace {

namespace fs = std::filesystem;
using formats::Scalar;

constexpr int64_t kOnlyConfig[] = {0};

class ClassRun {
 public:
  ClassRun(const ClassTrainOptions& options, const std::vector<ClassGraph>& train,
           const std::vector<ClassGraph>& valid, const std::vector<std::string>& classes,
           int64_t seed, const fs::path& folder, bool resume)
      : options_(options),
        train_(train),
        valid_(valid),
        seed_(seed),
        folder_(folder),
        model_(options.model, options.segments, classes, options.label_depth,
               static_cast<uint64_t>(seed)),
        parameters_(parameter_groups(model_.network(), options.segments, options.weight_decay)),
        optimizer_(parameters_, options.optimizer) {
    if (options.segments.cuts()) begin_segments();
    if (resume) load();
  }

  RunResult go(const StopCheck& stop) {
    train::RunLog log(folder_, step_ + 1);
    train::Progress progress(step_, options_.steps);
    if (segments_) progress.note(segments_->description());
    if (segments_ && segments_->wants_fill() && step_ == 0) {
      for (size_t g = 0; g < train_.size(); ++g) segments_->fill(sample_of(g, {}), {});
    }
    bool is_saved = true;
    while (step_ < options_.steps) {
      if (stop && stop()) {
        if (!is_saved) save_last();
        return result(/*was_stopped=*/true);
      }
      take_step(log);
      is_saved = false;
      if (step_ % options_.eval_every == 0 || step_ == options_.steps) {
        validate(log);
        save_last();
        is_saved = true;
      }
      progress.update(step_, "loss " + std::to_string(loss_) + ", best " + std::to_string(best_));
    }
    return result(/*was_stopped=*/false);
  }

 private:
  RunResult result(bool was_stopped) const {
    return {.steps = step_,
            .best_metric = best_,
            .best_step = best_step_,
            .was_stopped = was_stopped,
            .last_loss = loss_};
  }

  void begin_segments() {
    std::vector<PreparedGraphPtr> graphs;
    for (const ClassGraph& graph : train_) graphs.push_back(graph.prepared);
    segments_.emplace(model_.network(), options_.segments, options_.steps, graphs,
                      std::vector<int64_t>(graphs.size(), 1), at::kFloat, folder_ / "history.bin");
  }

  /// Refers to `plan`.
  SegmentedSample sample_of(size_t number, const SegmentPlan& plan) const {
    const PreparedGraphPtr& graph = train_[number].prepared;
    return {.graph = static_cast<int64_t>(number),
            .configs = kOnlyConfig,
            .prepared = graph.get(),
            .plan = &plan,
            .whole = classifier_batch(graph),
            .batch_of = [&graph](int64_t segment) {
              return classifier_batch(graph->segments[static_cast<size_t>(segment)].graph);
            }};
  }

  at::Tensor logits_of(size_t number, int64_t index) {
    const PreparedGraphPtr& graph = train_[number].prepared;
    const ForwardContext context = {
        .is_training = true,
        .dropout_seed =
            static_cast<uint64_t>(seed_) * 0x9E3779B97F4A7C15ULL + static_cast<uint64_t>(index)};
    if (!segments_) return model_.network().forward(classifier_batch(graph), context);
    const SegmentPlan plan =
        plan_segments(std::ssize(graph->segments), options_.segments, seed_, index);
    return segments_->costs(sample_of(number, plan), context, step_);
  }

  void take_step(train::RunLog& log) {
    const auto start = std::chrono::steady_clock::now();
    if (segments_ && segments_->begins_finetuning(step_)) segments_->begin_finetuning();
    parameters_.zero_gradients();
    loss_ = 0;
    for (int64_t i = 0; i < options_.graphs_per_step; ++i) {
      const int64_t index = step_ * options_.graphs_per_step + i;
      const size_t number = place_in_rounds(train_.size(), seed_, index);
      const at::Tensor label = at::full({1}, train_[number].label, at::kLong);
      const at::Tensor loss = at::cross_entropy_loss(logits_of(number, index), label) /
                              static_cast<double>(options_.graphs_per_step);
      const auto value = loss.item<double>();
      if (!std::isfinite(value)) fail("the loss of " + train_[number].path);
      loss_ += value;
      loss.backward();
    }
    const double rate = train::learning_rate_at(options_.schedule, step_, options_.steps);
    const bool finetunes = segments_ && segments_->is_finetuning(step_);
    const train::AdamW::Report report = optimizer_.step(rate, finetunes ? "head" : "");
    if (!report.is_finite) fail("a gradient");
    ++step_;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::vector<Scalar> line = {{"loss", loss_},
                                {"learning_rate", rate},
                                {"gradient_norm", report.gradient_norms.at("all")}};
    if (segments_) segments_->report(line);
    line.push_back({"seconds", seconds.count()});
    log.add(step_, line);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("step " + std::to_string(step_ + 1) + ": " + what +
                             " is not finite; the last checkpoint in " + folder_.string() +
                             " is from before");
  }

  void validate(train::RunLog& log) {
    if (valid_.empty()) {
      model_.save(folder_ / "best.safetensors");
      return;
    }
    const double accuracy = evaluate_classifier(model_, valid_).accuracy();
    if (best_step_ == 0 || accuracy > best_) {
      best_ = accuracy;
      best_step_ = step_;
      model_.save(folder_ / "best.safetensors");
    }
    log.add(step_, std::vector<Scalar>{{"valid_accuracy", accuracy}});
  }

  void save_last() const {
    std::vector<tensor::NamedTensor> state = optimizer_.state();
    if (segments_) segments_->add_state(state);
    state.emplace_back("training.progress", at::tensor({static_cast<double>(step_), best_,
                                                        static_cast<double>(best_step_), loss_},
                                                       at::kDouble));
    model_.save(folder_ / "last.safetensors", state, {{"training", options_to_toml(options_)}});
  }

  void load() {
    const fs::path path = folder_ / "last.safetensors";
    const tensor::TensorFile file = tensor::load_tensors(path);
    const auto saved = file.metadata.find("training");
    if (saved == file.metadata.end() || saved->second != options_to_toml(options_)) {
      throw FormatError(path.string(), "training", "was begun with other options");
    }
    model_.load_parameters(file, path.string());
    const at::Tensor progress = file.find("training.progress");
    if (!progress.defined() || progress.numel() != 4) {
      throw FormatError(path.string(), "training.progress", "is missing");
    }
    try {
      optimizer_.load_state(file);
      if (segments_) segments_->load_state(file);
    } catch (const std::invalid_argument& e) {
      throw FormatError(path.string(), "", e.what());
    }
    const auto* values = progress.const_data_ptr<double>();
    step_ = static_cast<int64_t>(values[0]);
    best_ = values[1];
    best_step_ = static_cast<int64_t>(values[2]);
    loss_ = values[3];
  }

  ClassTrainOptions options_;
  const std::vector<ClassGraph>& train_;
  const std::vector<ClassGraph>& valid_;
  int64_t seed_;
  fs::path folder_;
  TrainedClassifier model_;
  train::FlatParameters parameters_;
  train::AdamW optimizer_;
  std::optional<SegmentTraining> segments_;
  int64_t step_ = 0, best_step_ = 0;
  double best_ = 0, loss_ = 0;
};

}  // namespace

void ClassTrainOptions::validate() const {
  const auto check = [](bool ok, const char* field, double found) {
    train::check_field(ok, field, "at least 1", found);
  };
  if (task != TrainTask::kClassification) {
    throw std::invalid_argument("task: expected \"classification\"");
  }
  check(label_depth >= 1, "label_depth", static_cast<double>(label_depth));
  check(!seeds.empty(), "seeds", 0);
  check(steps >= 1, "steps", static_cast<double>(steps));
  check(graphs_per_step >= 1, "graphs_per_step", static_cast<double>(graphs_per_step));
  check(eval_every >= 1, "eval_every", static_cast<double>(eval_every));
  train::check_field(weight_decay >= 0, "weight_decay", "a number from 0", weight_decay);
  model.validate();
  segments.validate();
  optimizer.validate();
  schedule.validate();
}

RunResult train_classifier(const ClassTrainOptions& options, const std::vector<ClassGraph>& train,
                           const std::vector<ClassGraph>& valid,
                           const std::vector<std::string>& classes, int64_t seed,
                           const fs::path& folder, bool resume, const StopCheck& stop) {
  options.validate();
  fs::create_directories(folder);
  const bool continues = resume && fs::exists(folder / "last.safetensors");
  ClassRun run(options, train, valid, classes, seed, folder, continues);
  if (!continues) write_file(folder / "config.toml", options_to_toml(options));
  return run.go(stop);
}

}  // namespace lagom::cost_model

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
    train::RunLog log(folder_, run_.steps + 1);
    train::Progress progress(run_.steps, options_.steps);
    if (segments_) progress.note(segments_->description());
    if (segments_ && segments_->wants_fill() && run_.steps == 0) {
      for (size_t g = 0; g < train_.size(); ++g) segments_->fill(sample_of(g, {}), {});
    }
    bool is_saved = true;
    while (run_.steps < options_.steps) {
      if (stop && stop()) {
        if (!is_saved) save_last();
        return result(/*was_stopped=*/true);
      }
      take_step(log);
      is_saved = false;
      if (run_.steps % options_.eval_every == 0 || run_.steps == options_.steps) {
        validate(log);
        save_last();
        is_saved = true;
      }
      progress.update(run_.steps, "loss " + std::to_string(run_.last_loss) + ", best " +
                                      std::to_string(run_.best_metric));
    }
    return result(/*was_stopped=*/false);
  }

 private:
  RunResult result(bool was_stopped) const {
    RunResult result = run_;
    result.was_stopped = was_stopped;
    return result;
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
    return segments_->costs(sample_of(number, plan), context, run_.steps);
  }

  void take_step(train::RunLog& log) {
    const auto start = std::chrono::steady_clock::now();
    if (segments_ && segments_->begins_finetuning(run_.steps)) segments_->begin_finetuning();
    parameters_.zero_gradients();
    run_.last_loss = 0;
    for (int64_t i = 0; i < options_.graphs_per_step; ++i) {
      const int64_t index = run_.steps * options_.graphs_per_step + i;
      const size_t number = place_in_rounds(train_.size(), seed_, index);
      const at::Tensor label = at::full({1}, train_[number].label, at::kLong);
      const at::Tensor loss = at::cross_entropy_loss(logits_of(number, index), label) /
                              static_cast<double>(options_.graphs_per_step);
      const auto value = loss.item<double>();
      if (!std::isfinite(value)) fail("the loss of " + train_[number].path);
      run_.last_loss += value;
      loss.backward();
    }
    const double rate = train::learning_rate_at(options_.schedule, run_.steps, options_.steps);
    const bool finetunes = segments_ && segments_->is_finetuning(run_.steps);
    const train::AdamW::Report report = optimizer_.step(rate, finetunes ? "head" : "");
    if (!report.is_finite) fail("a gradient");
    ++run_.steps;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::vector<Scalar> line = {{"loss", run_.last_loss},
                                {"learning_rate", rate},
                                {"gradient_norm", report.gradient_norms.at("all")}};
    if (segments_) segments_->report(line);
    line.push_back({"seconds", seconds.count()});
    log.add(run_.steps, line);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("step " + std::to_string(run_.steps + 1) + ": " + what +
                             " is not finite; the last checkpoint in " + folder_.string() +
                             " is from before");
  }

  void validate(train::RunLog& log) {
    if (valid_.empty()) {
      model_.save(folder_ / "best.safetensors");
      return;
    }
    const double accuracy = evaluate_classifier(model_, valid_).accuracy();
    if (run_.best_step == 0 || accuracy > run_.best_metric) {
      run_.best_metric = accuracy;
      run_.best_step = run_.steps;
      model_.save(folder_ / "best.safetensors");
    }
    log.add(run_.steps, std::vector<Scalar>{{"valid_accuracy", accuracy}});
  }

  void save_last() const {
    std::vector<tensor::NamedTensor> state = optimizer_.state();
    if (segments_) segments_->add_state(state);
    add_progress(run_, state);
    model_.save(folder_ / "last.safetensors", state, {{"training", options_to_toml(options_)}});
  }

  void load() {
    const fs::path path = folder_ / "last.safetensors";
    const tensor::TensorFile file = tensor::load_tensors(path);
    run_ = read_progress(file, path.string(), options_to_toml(options_));
    model_.load_parameters(file, path.string());
    try {
      optimizer_.load_state(file);
      if (segments_) segments_->load_state(file);
    } catch (const std::invalid_argument& e) {
      throw FormatError(path.string(), "", e.what());
    }
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
  RunResult run_;
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

#include "lagom/cost_model/trainer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>

#include "lagom/cost_model/segment_training.h"
#include "lagom/graph/collection.h"
#include "lagom/train/check_field.h"
#include "lagom/train/flat_parameters.h"
#include "lagom/train/run_log.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "lagom/util/options.h"

namespace lagom::cost_model {
namespace {

namespace fs = std::filesystem;
using formats::Scalar;

constexpr std::string_view kMetrics[] = {"kendall_tau", "ordered_pair_accuracy", "top1_slowdown",
                                         "top5_slowdown"};

/// One run: everything that changes from step to step.
class Run {
 public:
  Run(const TrainOptions& options, const std::vector<LabeledGraph>& train,
      const std::vector<LabeledGraph>& valid, int64_t seed, const fs::path& folder, bool resume)
      : options_(options),
        seed_(seed),
        folder_(folder),
        valid_sources_(valid),
        model_(options.model, options.data, options.segments,
               fit_normalization(train, options.data.transform), static_cast<uint64_t>(seed)),
        train_(prepare_graphs(train, model_.normalization(), options.data, options.segments)),
        valid_(prepare_graphs(valid, model_.normalization(), options.data, options.segments)),
        parameters_(parameter_groups(model_.network(), options.segments, options.weight_decay)),
        optimizer_(parameters_, options.optimizer) {
    std::set<std::string> devices;
    for (const LabeledGraph& graph : train) {
      if (!graph.device.empty()) devices.insert(graph.device);
    }
    model_.set_devices({devices.begin(), devices.end()});
    if (options.average_decay > 0) average_.emplace(parameters_, options.average_decay);
    if (options.segments.cuts()) begin_segments();
    if (resume) load();
  }

  RunResult go(const StopCheck& stop) {
    train::RunLog log(folder_, run_.steps + 1);
    train::Progress progress(run_.steps, options_.steps);
    BatchLoader loader(
        train_, model_.normalization(),
        {.configs = options_.configs, .by_num_configs = options_.by_num_configs, .seed = seed_},
        options_.segments, run_.steps * options_.graphs_per_step);
    if (segments_) progress.note(segments_->description());
    if (segments_ && segments_->wants_fill() && run_.steps == 0) fill_history();
    bool is_saved = true;
    while (run_.steps < options_.steps && !is_exhausted()) {
      if (stop && stop()) {
        if (!is_saved) save_last();
        return result(/*was_stopped=*/true);
      }
      take_step(loader, log);
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
  bool is_exhausted() const {
    return options_.patience > 0 && !valid_.empty() &&
           run_.steps - run_.best_step >= options_.patience * options_.eval_every &&
           run_.best_step > 0;
  }

  RunResult result(bool was_stopped) const {
    RunResult result = run_;
    result.was_stopped = was_stopped;
    return result;
  }

  void take_step(BatchLoader& loader, train::RunLog& log) {
    const auto start = std::chrono::steady_clock::now();
    if (segments_ && segments_->begins_finetuning(run_.steps)) begin_finetuning();
    parameters_.zero_gradients();
    run_.last_loss = 0;
    std::string ids;
    for (int64_t i = 0; i < options_.graphs_per_step; ++i) {
      const LoadedSample loaded = loader.next();
      const Batch& batch = loaded.batch;
      const auto index = static_cast<uint64_t>(run_.steps * options_.graphs_per_step + i);
      const ForwardContext context = {
          .is_training = true,
          .dropout_seed = static_cast<uint64_t>(seed_) * 0x9E3779B97F4A7C15ULL + index,
          .bf16_dots = options_.model.bf16_dots};
      const at::Tensor costs = segments_
                                   ? segments_->costs(segmented_sample(loaded), context, run_.steps)
                                   : model_.network().forward(batch, context);
      const at::Tensor loss =
          ranking_loss(costs, batch.runtimes, batch.uncertainties, options_.loss) /
          static_cast<double>(options_.graphs_per_step);
      const auto value = loss.item<double>();
      if (!std::isfinite(value)) fail("the loss", batch.graph->id);
      run_.last_loss += value;
      ids += (ids.empty() ? "" : ", ") + batch.graph->id;
      if (loss.requires_grad()) loss.backward();
    }
    const double rate = train::learning_rate_at(options_.schedule, run_.steps, options_.steps);
    const bool finetunes = segments_ && segments_->is_finetuning(run_.steps);
    const train::AdamW::Report report = optimizer_.step(rate, finetunes ? "head" : "");
    if (!report.is_finite) fail("a gradient", ids);
    if (average_) average_->update();
    ++run_.steps;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::vector<Scalar> line = {{"loss", run_.last_loss},
                                {"learning_rate", rate},
                                {"gradient_norm", report.gradient_norms.at("all")}};
    if (segments_) segments_->report(line);
    line.push_back({"seconds", seconds.count()});
    log.add(run_.steps, line);
  }

  /// Refers to `loaded`.
  SegmentedSample segmented_sample(const LoadedSample& loaded) const {
    const TrainingGraph& graph = train_[loaded.sample.graph];
    return {.graph = static_cast<int64_t>(loaded.sample.graph),
            .configs = loaded.sample.picks,
            .prepared = graph.prepared.get(),
            .plan = &loaded.plan,
            .whole = loaded.batch,
            .batch_of = [this, &loaded, &graph](int64_t segment) {
              const std::vector<int64_t>& sampled = loaded.plan.sampled;
              const auto found = std::find(sampled.begin(), sampled.end(), segment);
              if (found == sampled.end() || loaded.sampled.empty()) {
                return segment_batch(graph, loaded.sample.picks, segment, model_.normalization());
              }
              return loaded.sampled[static_cast<size_t>(found - sampled.begin())];
            }};
  }

  void begin_segments() {
    std::vector<PreparedGraphPtr> graphs;
    std::vector<int64_t> configs;
    for (const TrainingGraph& graph : train_) {
      graphs.push_back(graph.prepared);
      configs.push_back(static_cast<int64_t>(graph.source.labels->rows.size()));
    }
    segments_.emplace(model_.network(), options_.segments, options_.steps, graphs, configs,
                      at::kFloat, folder_ / "history.bin");
  }

  /// All of it, in one pass without gradients.
  void fill_history() {
    LoadedSample loaded;
    for (size_t g = 0; g < train_.size(); ++g) {
      const auto count = static_cast<int64_t>(train_[g].source.labels->rows.size());
      loaded.sample.graph = g;
      for (int64_t first = 0; first < count; first += options_.configs) {
        loaded.sample.picks.resize(static_cast<size_t>(std::min(count - first, options_.configs)));
        std::iota(loaded.sample.picks.begin(), loaded.sample.picks.end(), first);
        segments_->fill(segmented_sample(loaded), {.bf16_dots = options_.model.bf16_dots});
      }
    }
  }

  /// From here on the encoder stays as it is, and where there is an average, as that is.
  void begin_finetuning() {
    segments_->begin_finetuning();
    if (!average_) return;
    average_->swap();
    average_.emplace(parameters_, options_.average_decay);
  }

  [[noreturn]] void fail(const std::string& what, const std::string& graphs) const {
    throw std::runtime_error("step " + std::to_string(run_.steps + 1) + ", graph " + graphs + ": " +
                             what + " is not finite; the last checkpoint in " + folder_.string() +
                             " is from before");
  }

  void validate(train::RunLog& log) {
    if (valid_.empty()) {
      save_best();
      return;
    }
    if (average_) average_->swap();
    std::vector<rank::GraphMetrics> all;
    for (size_t i = 0; i < valid_.size(); ++i) {
      all.push_back(evaluate_graph(model_, valid_sources_[i], *valid_[i].prepared,
                                   options_.eval_configs, options_.inference));
    }
    const rank::GraphMetrics mean = rank::mean_of(all);
    const double metric = metric_of(mean, options_.metric);
    const bool is_better =
        run_.best_step == 0 ||
        (higher_is_better(options_.metric) ? metric > run_.best_metric : metric < run_.best_metric);
    if (is_better) {
      run_.best_metric = metric;
      run_.best_step = run_.steps;
      model_.save(folder_ / "best.safetensors");
    }
    if (average_) average_->swap();
    log.add(run_.steps,
            std::vector<Scalar>{{"valid_kendall_tau", mean.kendall_tau},
                                {"valid_ordered_pair_accuracy", mean.ordered_pair_accuracy},
                                {"valid_top1_slowdown", mean.top1_slowdown},
                                {"valid_top5_slowdown", mean.top5_slowdown},
                                {"valid_top10_slowdown", mean.top10_slowdown}});
  }

  void save_best() {
    if (average_) average_->swap();
    model_.save(folder_ / "best.safetensors");
    if (average_) average_->swap();
  }

  void save_last() const {
    std::vector<tensor::NamedTensor> state = optimizer_.state();
    if (average_) {
      for (const tensor::NamedTensor& each : average_->state()) state.push_back(each);
    }
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
      if (average_) average_->load_state(file);
      if (segments_) segments_->load_state(file);
    } catch (const std::invalid_argument& e) {
      throw FormatError(path.string(), "", e.what());
    }
  }

  TrainOptions options_;
  int64_t seed_;
  fs::path folder_;
  std::vector<LabeledGraph> valid_sources_;
  TrainedModel model_;
  std::vector<TrainingGraph> train_, valid_;
  train::FlatParameters parameters_;
  train::AdamW optimizer_;
  std::optional<train::ParameterAverage> average_;
  std::optional<SegmentTraining> segments_;
  RunResult run_;
};

}  // namespace

std::span<const std::string_view> option_names(Metric) {
  return kMetrics;
}

bool higher_is_better(Metric metric) {
  return metric == Metric::kKendallTau || metric == Metric::kOrderedPairAccuracy;
}

double metric_of(const rank::GraphMetrics& metrics, Metric metric) {
  switch (metric) {
    case Metric::kKendallTau:
      return metrics.kendall_tau;
    case Metric::kOrderedPairAccuracy:
      return metrics.ordered_pair_accuracy;
    case Metric::kTop1Slowdown:
      return metrics.top1_slowdown;
    case Metric::kTop5Slowdown:
      return metrics.top5_slowdown;
  }
  return 0;
}

void TrainOptions::validate() const {
  const auto check_from = [](const char* field, auto value, auto least) {
    train::check_field(value >= least, field, "at least " + std::to_string(least),
                       static_cast<double>(value));
  };
  check_from("seeds", seeds.size(), size_t{1});
  check_from("steps", steps, int64_t{1});
  check_from("graphs_per_step", graphs_per_step, int64_t{1});
  check_from("configs", configs, int64_t{2});
  check_from("eval_every", eval_every, int64_t{1});
  train::check_field(eval_configs == 0 || eval_configs >= 2, "eval_configs", "0 or at least 2",
                     static_cast<double>(eval_configs));
  check_from("patience", patience, int64_t{0});
  train::check_field(weight_decay >= 0, "weight_decay", "a number from 0", weight_decay);
  train::check_field(average_decay >= 0 && average_decay < 1, "average_decay", "from 0 to below 1",
                     average_decay);
  check_from("data.position_steps", data.position_steps, int64_t{0});
  check_from("data.link_hops", data.link_hops, int64_t{0});
  segments.validate();
  model.validate();
  loss.validate();
  optimizer.validate();
  schedule.validate();
}

std::vector<LabeledGraph> open_graphs(const std::vector<std::string>& paths) {
  std::vector<LabeledGraph> graphs;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) {
      graphs.push_back(open_graph(path));
      continue;
    }
    for (const char* ending : {".graph", ".npz"}) {
      for (const graph::GraphFile& file : graph::list_graphs(path, ending)) {
        graphs.push_back(open_graph(file.path));
      }
    }
  }
  if (graphs.empty()) throw std::invalid_argument("there are no graphs (.graph, .npz) to read");
  return graphs;
}

rank::GraphMetrics evaluate_graph(const TrainedModel& model, const LabeledGraph& graph,
                                  const PreparedGraph& prepared, int64_t limit,
                                  const InferenceOptions& inference) {
  if (!graph.labels) throw FormatError(graph.data->path, "", "has no runtimes to compare with");
  const int64_t all = graph.data->num_configs;
  const int64_t count = limit == 0 ? all : std::min(all, limit);
  std::vector<int64_t> rows;
  std::vector<double> runtimes;
  for (int64_t i = 0; i < count; ++i) {
    rows.push_back(all * i / count);
    runtimes.push_back(graph.labels->all_runtimes[static_cast<size_t>(rows.back())]);
  }
  const std::vector<double> costs = model.costs(*graph.data, prepared, rows, inference);
  try {
    return rank::graph_metrics(costs, runtimes);
  } catch (const std::invalid_argument& e) {
    throw FormatError(graph.data->path, "", e.what());
  }
}

RunResult train_model(const TrainOptions& options, const std::vector<LabeledGraph>& train,
                      const std::vector<LabeledGraph>& valid, int64_t seed, const fs::path& folder,
                      bool resume, const StopCheck& stop) {
  options.validate();
  fs::create_directories(folder);
  const bool continues = resume && fs::exists(folder / "last.safetensors");
  Run run(options, train, valid, seed, folder, continues);
  if (!continues) write_file(folder / "config.toml", options_to_toml(options));
  return run.go(stop);
}

}  // namespace lagom::cost_model

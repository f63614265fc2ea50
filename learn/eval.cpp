#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/common.h"
#include "cli/metrics_table.h"
#include "lagom/collect/baselines.h"
#include "lagom/cost_model/classifier.h"
#include "lagom/cost_model/trainer.h"
#include "lagom/rank/bootstrap.h"
#include "lagom/tensor/threads.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "learn/commands.h"
#include "learn/models.h"

namespace lagom::learn {
namespace {

using nlohmann::ordered_json;
using rank::GraphMetrics;

struct EvalArguments {
  std::string models;
  std::vector<std::string> data;
  std::string scores;
  bool seeds = false, baselines = false, json = false, whole = false;
  int threads = 0;
  int64_t seed = 1;
  cost_model::InferenceOptions inference;
};

/// Graphs with a ranking to compare with.
using Graphs = std::vector<cost_model::LabeledGraph>;

/// One ranker per seed, or one for all models together.
std::vector<cost_model::ModelRanker> make_rankers(const EvalArguments& args) {
  std::vector<cost_model::TrainedModel> models = load_models(args.models);
  for (cost_model::TrainedModel& model : models) {
    if (args.whole) model.ask_whole_graphs();
  }
  std::vector<cost_model::ModelRanker> rankers;
  if (!args.seeds) {
    rankers.emplace_back(std::move(models), args.inference);
    return rankers;
  }
  for (cost_model::TrainedModel& model : models) {
    std::vector<cost_model::TrainedModel> one;
    one.push_back(std::move(model));
    rankers.emplace_back(std::move(one), args.inference);
  }
  return rankers;
}

/// Leaves out what has nothing to rank, and writes the first ranker's scores by request.
Graphs write_scores(const EvalArguments& args, const Graphs& graphs,
                    const cost_model::ModelRanker& ranker) {
  Graphs comparable;
  std::string scores;
  for (const cost_model::LabeledGraph& graph : graphs) {
    if (!args.scores.empty()) {
      ordered_json line = {{"id", graph.data->id}, {"scores", ranker.costs(*graph.data)}};
      if (graph.labels) line["runtimes"] = graph.labels->all_runtimes;
      scores += line.dump() + "\n";
    } else if (!graph.labels) {
      throw FormatError(graph.data->path, "", "has no runtimes to compare with");
    }
    if (!graph.labels) continue;
    if (graph.data->num_configs < 2) {
      std::fprintf(stderr, "%s: one configuration, nothing to rank\n", graph.data->path.c_str());
      continue;
    }
    comparable.push_back(graph);
  }
  if (!args.scores.empty()) write_file(args.scores, scores);
  return comparable;
}

std::vector<GraphMetrics> evaluate_model(const Graphs& graphs,
                                         const cost_model::ModelRanker& ranker) {
  std::vector<GraphMetrics> run;
  for (const cost_model::LabeledGraph& graph : graphs) {
    run.push_back(rank::graph_metrics(ranker.costs(*graph.data), graph.labels->all_runtimes));
  }
  return run;
}

std::vector<GraphMetrics> evaluate_baseline(const Graphs& graphs, collect::BaselineKind kind,
                                            int64_t seed) {
  std::vector<GraphMetrics> run;
  for (const cost_model::LabeledGraph& graph : graphs) {
    collect::BaselineRanker ranker =
        collect::baseline_of_file(kind, graph.data->path, static_cast<uint64_t>(seed));
    const rank::ConfiguredGraph view{.name = graph.data->id,
                                     .num_configs = graph.data->num_configs};
    run.push_back(rank::graph_metrics(ranker.costs(view), graph.labels->all_runtimes));
  }
  return run;
}

/// Of a model of whole graphs' classes.
int evaluate_classes(const EvalArguments& args) {
  cost_model::TrainedClassifier model = cost_model::TrainedClassifier::load(args.models);
  if (args.whole) model.ask_whole_graphs();
  const auto graphs = cost_model::open_class_graphs(args.data, model.label_depth(), model.classes(),
                                                    model.segment_options());
  const cost_model::Confusion confusion = cost_model::evaluate_classifier(model, graphs);
  if (args.json) {
    cli::print_json({{"graphs", graphs.size()},
                     {"accuracy", confusion.accuracy()},
                     {"classes", model.classes()},
                     {"confusion", confusion.counts}});
    return 0;
  }
  std::printf("%-20s %8s %8s   taken for\n", "class", "graphs", "right");
  for (size_t row = 0; row < confusion.counts.size(); ++row) {
    const std::vector<int64_t>& counts = confusion.counts[row];
    const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    std::printf(
        "%-20s %8ld %7.1f%%  ", model.classes()[row].c_str(), static_cast<long>(all),
        all == 0 ? 0.0 : 100.0 * static_cast<double>(counts[row]) / static_cast<double>(all));
    for (size_t k = 0; k < counts.size(); ++k) {
      if (k != row && counts[k] > 0) {
        std::printf(" %s %ld", model.classes()[k].c_str(), static_cast<long>(counts[k]));
      }
    }
    std::printf("\n");
  }
  std::printf("accuracy %.4f of %zu graphs\n", confusion.accuracy(), graphs.size());
  return 0;
}

int evaluate(const EvalArguments& args) {
  tensor::set_num_threads(args.threads);
  if (args.models.find(',') == std::string::npos &&
      cost_model::TrainedClassifier::is_one(args.models)) {
    return evaluate_classes(args);
  }
  const std::vector<cost_model::ModelRanker> rankers = make_rankers(args);
  const Graphs graphs = write_scores(args, cost_model::open_graphs(args.data), rankers.front());
  if (graphs.empty()) {
    if (!args.scores.empty()) return 0;
    throw std::invalid_argument("no graph has configurations to rank");
  }
  std::vector<std::vector<GraphMetrics>> runs;
  for (const auto& ranker : rankers) runs.push_back(evaluate_model(graphs, ranker));
  const rank::MetricsSummary summary = rank::summarize(runs);

  ordered_json rows = ordered_json::array();
  if (!args.json) cli::print_metrics_header();
  for (size_t g = 0; g < graphs.size(); ++g) {
    std::vector<GraphMetrics> of_graph;
    for (const auto& run : runs) of_graph.push_back(run[g]);
    const GraphMetrics mean = rank::mean_of(of_graph);
    if (args.json) {
      rows.push_back({{"id", graphs[g].data->id}});
      rows.back().update(cli::metrics_to_json(mean));
    } else {
      cli::print_metrics_row(graphs[g].data->id, mean);
    }
  }
  ordered_json result = {{"graphs", std::move(rows)}};
  result.update(cli::summary_to_json(summary));
  if (!args.json) cli::print_summary("mean", summary);
  for (size_t k = 0; args.baselines && k < option_names(collect::BaselineKind{}).size(); ++k) {
    const std::string name(option_names(collect::BaselineKind{})[k]);
    const auto run = evaluate_baseline(graphs, static_cast<collect::BaselineKind>(k), args.seed);
    const rank::MetricsSummary baseline = rank::summarize({&run, 1});
    if (args.json) {
      result["baselines"][name] = cli::summary_to_json(baseline);
    } else {
      cli::print_summary(name, baseline);
    }
  }
  if (args.json) cli::print_json(result);
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("eval", "How well a cost model ranks configurations");
  auto args = std::make_shared<EvalArguments>();
  command->add_option("model", args->models, "Model file; several with commas between: their mean")
      ->required();
  command->add_flag("--seeds", args->seeds,
                    "The models are seeds of one recipe: each by itself, and the metrics' mean");
  command->add_flag("--baselines", args->baselines,
                    "Measured kernels: also a random order, the analytic cost and the number of "
                    "layout disagreements");
  command->add_option("--seed", args->seed, "Of the random order");
  command->add_option("data", args->data, "Graphs (.graph, .npz) or folders with such")->required();
  command->add_option("--scores", args->scores,
                      "Write lines for lagom submit and lagom eval --scores");
  command->add_option("--permutations", args->inference.permutations,
                      "Average over so many more orders of the configurations");
  command->add_option("--at-once", args->inference.compared_configs,
                      "Configurations that a comparing network sees together");
  command->add_flag("--whole", args->whole,
                    "Ask about whole graphs even where the model was trained on segments");
  command->add_option("--threads", args->threads, "0: one per CPU");
  command->add_flag("--json", args->json, "Machine-readable output");
  command->footer(
      "Below the means stand the ends of their 95 % intervals, by bootstrap over graphs and "
      "seeds.\n"
      "Example: lagom eval runs/ours/best.safetensors data/valid --baselines");
  command->callback([args, &chosen] { chosen = [args] { return evaluate(*args); }; });
}

}  // namespace lagom::learn

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/common.h"
#include "lagom/cost_model/trainer.h"
#include "lagom/rank/metrics.h"
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
  bool json = false;
  int threads = 0;
  cost_model::InferenceOptions inference;
};

ordered_json to_json(const GraphMetrics& m) {
  return {{"kendall_tau", m.kendall_tau},
          {"ordered_pair_accuracy", m.ordered_pair_accuracy},
          {"top1_slowdown", m.top1_slowdown},
          {"top5_slowdown", m.top5_slowdown},
          {"top10_slowdown", m.top10_slowdown}};
}

void print_row(const std::string& id, const GraphMetrics& m) {
  std::printf("%-48s %8.4f %8.4f %8.4f %8.4f %8.4f\n", id.c_str(), m.kendall_tau,
              m.ordered_pair_accuracy, m.top1_slowdown, m.top5_slowdown, m.top10_slowdown);
}

int evaluate(const EvalArguments& args) {
  tensor::set_num_threads(args.threads);
  std::vector<cost_model::TrainedModel> models = load_models(args.models);
  const cost_model::ModelRanker ranker(std::move(models), args.inference);
  std::vector<GraphMetrics> all;
  ordered_json graphs = ordered_json::array();
  std::string scores;
  if (!args.json) {
    std::printf("%-48s %8s %8s %8s %8s %8s\n", "graph", "tau", "opa", "top1", "top5", "top10");
  }
  for (const cost_model::LabeledGraph& graph : cost_model::open_graphs(args.data)) {
    const std::vector<double> costs = ranker.costs(*graph.data);
    ordered_json line = {{"id", graph.data->id}, {"scores", costs}};
    if (graph.labels) line["runtimes"] = graph.labels->all_runtimes;
    scores += line.dump() + "\n";
    if (!graph.labels) {
      if (args.scores.empty()) {
        throw FormatError(graph.data->path, "", "has no runtimes to compare with");
      }
      continue;
    }
    if (costs.size() < 2) {
      std::fprintf(stderr, "%s: one configuration, nothing to rank\n", graph.data->path.c_str());
      continue;
    }
    all.push_back(rank::graph_metrics(costs, graph.labels->all_runtimes));
    if (args.json) {
      ordered_json row = {{"id", graph.data->id}};
      row.update(to_json(all.back()));
      graphs.push_back(std::move(row));
    } else {
      print_row(graph.data->id, all.back());
    }
  }
  if (!args.scores.empty()) write_file(args.scores, scores);
  if (args.json) {
    cli::print_json({{"graphs", std::move(graphs)}, {"mean", to_json(rank::mean_of(all))}});
  } else {
    print_row("mean", rank::mean_of(all));
  }
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("eval", "How well a cost model ranks configurations");
  auto args = std::make_shared<EvalArguments>();
  command->add_option("model", args->models, "Model file; several with commas between: their mean")
      ->required();
  command->add_option("data", args->data, "Graphs (.graph, .npz) or folders with such")->required();
  command->add_option("--scores", args->scores,
                      "Write lines for lagom submit and lagom eval --scores");
  command->add_option("--permutations", args->inference.permutations,
                      "Average over so many more orders of the configurations");
  command->add_option("--at-once", args->inference.compared_configs,
                      "Configurations that a comparing network sees together");
  command->add_option("--threads", args->threads, "0: one per CPU");
  command->add_flag("--json", args->json, "Machine-readable output");
  command->footer("Example: lagom eval runs/ours/best.safetensors data/valid");
  command->callback([args, &chosen] { chosen = [args] { return evaluate(*args); }; });
}

}  // namespace lagom::learn

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/common.h"
#include "lagom/cost_model/graph_data.h"
#include "lagom/cost_model/trained_model.h"
#include "lagom/rank/metrics.h"
#include "lagom/tensor/threads.h"
#include "learn/commands.h"

namespace lagom::learn {
namespace {

using nlohmann::ordered_json;

struct RankArguments {
  std::vector<std::string> models;
  std::string file;
  int64_t top = 10;
  bool json = false;
  int threads = 0;
  cost_model::InferenceOptions inference;
};

int rank_file(const RankArguments& args) {
  tensor::set_num_threads(args.threads);
  std::vector<cost_model::TrainedModel> models;
  for (const std::string& path : args.models) {
    models.push_back(cost_model::TrainedModel::load(path));
  }
  const cost_model::ModelRanker ranker(std::move(models), args.inference);
  const cost_model::LabeledGraph graph = cost_model::open_graph(args.file);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<double> costs = ranker.costs(*graph.data);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const double each = seconds.count() / static_cast<double>(costs.size());

  const std::vector<int64_t> order = rank::order_by_score(costs);
  const auto count = std::min<int64_t>(args.top, static_cast<int64_t>(order.size()));
  ordered_json rows = ordered_json::array();
  if (!args.json) std::printf("%6s %10s %14s\n", "rank", "row", "cost");
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = order[static_cast<size_t>(i)];
    const double cost = costs[static_cast<size_t>(row)];
    if (args.json) {
      rows.push_back({{"row", row}, {"cost", cost}});
    } else {
      std::printf("%6ld %10ld %14.6g\n", static_cast<long>(i + 1), static_cast<long>(row), cost);
    }
  }
  if (args.json) {
    cli::print_json({{"file", args.file},
                     {"configurations", costs.size()},
                     {"seconds", seconds.count()},
                     {"seconds_per_configuration", each},
                     {"best", std::move(rows)}});
  } else {
    std::printf("%zu configurations in %s, %s each\n", costs.size(),
                cli::time_to_string(seconds.count()).c_str(), cli::time_to_string(each).c_str());
  }
  return 0;
}

}  // namespace

void add_rank(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("rank", "Rank a graph's configurations with a cost model");
  auto args = std::make_shared<RankArguments>();
  command->add_option("model", args->models, "Model file, several with commas: their mean")
      ->required()
      ->delimiter(',')
      ->expected(1);
  command->add_option("file", args->file, "Graph with configurations (.graph, .npz)")->required();
  command->add_option("--top", args->top, "Print so many of the fastest")
      ->check(CLI::PositiveNumber);
  command->add_option("--permutations", args->inference.permutations,
                      "Average over so many more orders of the configurations");
  command->add_option("--threads", args->threads, "0: one per CPU");
  command->add_flag("--json", args->json, "Machine-readable output");
  command->footer(
      "Costs have no unit and compare within one graph only; lower is faster.\n"
      "Example: lagom rank runs/ours/best.safetensors program.npz --top 5");
  command->callback([args, &chosen] { chosen = [args] { return rank_file(*args); }; });
}

}  // namespace lagom::learn

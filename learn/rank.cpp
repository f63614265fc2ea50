#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "cli/common.h"
#include "lagom/collect/program_graph.h"
#include "lagom/cost_model/graph_data.h"
#include "lagom/cost_model/trained_model.h"
#include "lagom/rank/metrics.h"
#include "lagom/tensor/threads.h"
#include "lagom/tune/space.h"
#include "learn/commands.h"
#include "learn/models.h"

namespace lagom::learn {
namespace {

using nlohmann::ordered_json;

struct RankArguments {
  std::string models, file;
  int64_t top = 10, samples = 1000, seed = 1;
  bool json = false;
  int threads = 0;
  cost_model::InferenceOptions inference;
};

/// Costs of a data file's configurations, or of sampled ones of a program, whose texts are kept.
struct Ranked {
  std::vector<double> costs;
  std::vector<std::string> configurations;  ///< Empty for data files.
  double seconds = 0;
};

template <typename F>
void timed(Ranked& ranked, F&& costs) {
  const auto start = std::chrono::steady_clock::now();
  ranked.costs = costs();
  ranked.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Ranked rank_program(const RankArguments& args, const cost_model::FeatureFormat& format,
                    cost_model::ModelRanker& ranker) {
  const hlo::Module module = cli::load_program(args.file);
  const tune::SearchSpace space(module, {});
  std::mt19937_64 random(static_cast<uint64_t>(args.seed));
  const auto configurations =
      collect::sample_configurations(space, args.samples, /*max_changes=*/8, random);
  const collect::ProgramGraph graph(args.file, module, configurations, encoding_of(format));
  Ranked ranked;
  timed(ranked, [&] { return ranker.costs(graph.view()); });
  for (const auto& configuration : configurations) {
    ranked.configurations.push_back(configuration.to_string());
  }
  return ranked;
}

int rank_file(const RankArguments& args) {
  tensor::set_num_threads(args.threads);
  std::vector<cost_model::TrainedModel> models = load_models(args.models);
  const cost_model::FeatureFormat format = models.front().normalization().format;
  cost_model::ModelRanker ranker(std::move(models), args.inference);
  const auto ending = std::filesystem::path(args.file).extension();
  Ranked ranked;
  if (ending == ".npz" || ending == graph::kGraphCacheEnding) {
    const cost_model::LabeledGraph graph = cost_model::open_graph(args.file);
    timed(ranked, [&] { return ranker.costs(*graph.data); });
  } else {
    ranked = rank_program(args, format, ranker);
  }
  const double each = ranked.seconds / static_cast<double>(ranked.costs.size());

  const std::vector<int64_t> order = rank::order_by_score(ranked.costs);
  const auto count = std::min<int64_t>(args.top, static_cast<int64_t>(order.size()));
  ordered_json rows = ordered_json::array();
  if (!args.json) std::printf("%6s %10s %14s\n", "rank", "row", "cost");
  for (int64_t i = 0; i < count; ++i) {
    const auto row = static_cast<size_t>(order[static_cast<size_t>(i)]);
    const std::string text = ranked.configurations.empty() ? "" : ranked.configurations[row];
    if (args.json) {
      rows.push_back({{"row", row}, {"cost", ranked.costs[row]}});
      if (!ranked.configurations.empty()) rows.back()["configuration"] = text;
    } else {
      std::printf("%6ld %10zu %14.6g\n", static_cast<long>(i + 1), row, ranked.costs[row]);
      std::printf("%s", text.c_str());
    }
  }
  if (args.json) {
    cli::print_json({{"file", args.file},
                     {"configurations", ranked.costs.size()},
                     {"seconds", ranked.seconds},
                     {"seconds_per_configuration", each},
                     {"best", std::move(rows)}});
  } else {
    std::printf("%zu configurations in %s, %s each\n", ranked.costs.size(),
                cli::time_to_string(ranked.seconds).c_str(), cli::time_to_string(each).c_str());
  }
  return 0;
}

}  // namespace

void add_rank(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("rank", "Rank a graph's configurations with a cost model");
  auto args = std::make_shared<RankArguments>();
  command->add_option("model", args->models, "Model file; several with commas between: their mean")
      ->required();
  command
      ->add_option("file", args->file,
                   "Graph with configurations (.graph, .npz), or an HLO program")
      ->required();
  command->add_option("--samples", args->samples, "Random configurations of a program to rank")
      ->check(CLI::PositiveNumber);
  command->add_option("--seed", args->seed, "Of the samples");
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

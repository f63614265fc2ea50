#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/metrics_table.h"
#include "lagom/rank/bootstrap.h"
#include "lagom/rank/metrics.h"
#include "lagom/rank/predictions.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"

namespace lagom::cli {
namespace {

using nlohmann::ordered_json;
using rank::GraphMetrics;

struct EvalArguments {
  std::string scores, out;
  bool json = false;
};

/// "layout:xla:random" for "layout:xla:random:resnet50"; empty for ids of another form.
std::string collection_of(const std::string& id) {
  const bool is_tile = id.starts_with("tile:");
  if (!is_tile && !id.starts_with("layout:")) return "";
  size_t at = id.find(':');
  for (int i = is_tile ? 1 : 0; i < 2 && at != std::string::npos; ++i) at = id.find(':', at + 1);
  return at == std::string::npos ? "" : id.substr(0, at);
}

int evaluate(const EvalArguments& args) {
  std::vector<GraphMetrics> all;
  std::map<std::string, std::vector<GraphMetrics>> collections;
  ordered_json graphs = ordered_json::array();
  if (!args.json) {
    print_metrics_header();
  }
  for (const rank::Predictions& p : rank::read_predictions(args.scores)) {
    if (p.runtimes.empty()) throw FormatError(args.scores, p.id, "has no runtimes to compare with");
    GraphMetrics metrics;
    try {
      metrics = rank::graph_metrics(p.scores, p.runtimes);
    } catch (const std::invalid_argument& e) {
      throw FormatError(args.scores, p.id, e.what());
    }
    all.push_back(metrics);
    if (const std::string name = collection_of(p.id); !name.empty()) {
      collections[name].push_back(metrics);
    }
    if (args.json) {
      ordered_json row = {{"id", p.id}};
      row.update(metrics_to_json(metrics));
      graphs.push_back(std::move(row));
    } else {
      print_metrics_row(p.id, metrics);
    }
  }
  std::map<std::string, double> scores;
  double sum = 0;
  for (const auto& [name, metrics] : collections) {
    scores[name] =
        name.starts_with("tile:") ? rank::tile_score(metrics) : rank::layout_score(metrics);
    sum += scores[name];
  }
  const rank::MetricsSummary summary = rank::summarize({&all, 1});
  if (args.json) {
    ordered_json result = {{"graphs", std::move(graphs)}};
    result.update(summary_to_json(summary));
    if (!scores.empty()) {
      result["collections"] = scores;
      result["competition_score"] = sum / static_cast<double>(scores.size());
    }
    print_json(result);
  } else {
    print_summary("mean", summary);
    for (const auto& [name, score] : scores) std::printf("%-48s %8.4f\n", name.c_str(), score);
    if (scores.size() > 1) {
      std::printf("%-48s %8.4f\n", "competition score", sum / static_cast<double>(scores.size()));
    }
  }
  return 0;
}

int submit(const EvalArguments& args) {
  write_file(args.out, rank::submission_csv(rank::read_predictions(args.scores)));
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("eval", "How well a model's scores rank configurations");
  auto args = std::make_shared<EvalArguments>();
  command
      ->add_option("--scores", args->scores,
                   R"(Lines {"id": "layout:xla:random:NAME", "scores": [...], "runtimes": [...]}; )"
                   "lower scores are faster")
      ->required();
  command->add_flag("--json", args->json, "Machine-readable output");
  command->footer(
      "Slowdowns: the best runtime among the top k over the best of all. Below the means stand "
      "the\n"
      "ends of their 95 % intervals, by bootstrap over the graphs.\n"
      "Example: lagom eval --scores scores.jsonl");
  command->callback([args, &chosen] { chosen = [args] { return evaluate(*args); }; });
}

void add_submit(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("submit", "Write the competition's CSV from a model's scores");
  auto args = std::make_shared<EvalArguments>();
  command->add_option("--scores", args->scores, R"(Lines {"id": "tile:xla:NAME", "scores": [...]})")
      ->required();
  command->add_option("--out", args->out, "CSV file")->required();
  command->footer("Example: lagom submit --scores scores.jsonl --out submission.csv");
  command->callback([args, &chosen] { chosen = [args] { return submit(*args); }; });
}

}  // namespace lagom::cli

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/common.h"
#include "lagom/lm/route_report.h"
#include "lagom/tensor/threads.h"
#include "lagom/util/file.h"
#include "learn/lm_commands.h"

namespace lagom::learn {
namespace {

using nlohmann::ordered_json;

struct RoutesArguments {
  std::string model, data, routing = "topk", html;
  int64_t windows = 64, batch = 8, map = 0;
  bool json = false, one_document = false;
  int threads = 0;
};

ordered_json json_of(const Correlation& c) {
  return {{"rho", c.rho}, {"low", c.interval.low}, {"high", c.interval.high}};
}

ordered_json json_of(const std::vector<lm::TokenGroup>& groups) {
  ordered_json rows = ordered_json::array();
  for (const lm::TokenGroup& group : groups) {
    rows.push_back({{"name", group.name},
                    {"count", group.count},
                    {"blocks", group.blocks},
                    {"entropy", group.entropy},
                    {"loss", group.loss}});
  }
  return rows;
}

ordered_json json_of(const lm::LayerRoutes& layer) {
  ordered_json row = {{"layer", layer.layer},
                      {"experts", layer.experts},
                      {"rate", layer.rate},
                      {"weights",
                       {{"low", layer.weights.low},
                        {"high", layer.weights.high},
                        {"chosen", layer.weights.chosen},
                        {"others", layer.weights.others}}},
                      {"threshold",
                       {{"mean", layer.threshold_mean},
                        {"deviation", layer.threshold_deviation},
                        {"low", layer.threshold_low},
                        {"high", layer.threshold_high}}},
                      {"rate_by_position", layer.rate_by_position},
                      {"rate_by_class", layer.rate_by_class},
                      {"weight_entropy", json_of(layer.weight_entropy)}};
  const lm::RoutingCounts& p = layer.predictor;
  if (p.total() > 0) {
    row["predictor"] = {{"true_positive", p.true_positive},
                        {"false_positive", p.false_positive},
                        {"false_negative", p.false_negative},
                        {"true_negative", p.true_negative},
                        {"accuracy", p.accuracy()},
                        {"precision", p.precision()},
                        {"recall", p.recall()},
                        {"majority", p.majority_accuracy()}};
  }
  return row;
}

ordered_json json_of(const lm::RouteAnalysis& analysis,
                     const std::vector<lm::RouteControl>& controls, const std::string& routing) {
  ordered_json layers = ordered_json::array(), others = ordered_json::array(),
               experts = ordered_json::array();
  for (const lm::ExpertRoutes& expert : analysis.experts) {
    experts.push_back({{"layer", expert.layer},
                       {"expert", expert.expert},
                       {"rate", expert.rate},
                       {"rate_by_class", expert.rate_by_class}});
  }
  for (const lm::LayerRoutes& layer : analysis.layers) layers.push_back(json_of(layer));
  for (const lm::RouteControl& control : controls) {
    others.push_back(
        {{"name", control.name}, {"loss", control.loss}, {"overlap", control.overlap}});
  }
  return {{"routing", routing},
          {"tokens", analysis.tokens},
          {"windows", analysis.windows},
          {"layers", layers},
          {"blocks_per_token", analysis.blocks_per_token},
          {"independent_blocks", analysis.independent_blocks},
          {"experts", std::move(experts)},
          {"overlap", analysis.overlap},
          {"blocks_entropy", json_of(analysis.blocks_entropy)},
          {"blocks_loss", json_of(analysis.blocks_loss)},
          {"classes", json_of(analysis.classes)},
          {"most", json_of(analysis.most)},
          {"least", json_of(analysis.least)},
          {"controls", others}};
}

int routes(const RoutesArguments& args) {
  tensor::set_num_threads(args.threads);
  const ModelAndText loaded(args.model, args.data);
  const lm::EvaluationOptions options = {
      .routing = choice_of<lm::Routing>("--routing", args.routing),
      .batch = args.batch,
      .max_windows = args.windows,
      .documents = !args.one_document};
  const lm::TokenRange& text = loaded.data.validation;
  const lm::RouteTable table =
      lm::record_routes(*loaded.model.model, text, *loaded.data.tokenizer, options);
  const lm::RouteAnalysis analysis = lm::analyze_routes(table, *loaded.data.tokenizer);
  std::vector<lm::RouteControl> controls;
  if (options.routing == lm::Routing::kTopK && table.num_windows() > 1 &&
      loaded.model.model->options().num_routed() > 0) {
    controls =
        lm::route_controls(*loaded.model.model, text, *loaded.data.tokenizer, options, table);
  }
  if (!args.html.empty()) {
    write_file(args.html, lm::routes_html(args.model + " on " + args.data, table, analysis,
                                          controls, *loaded.data.tokenizer, args.map));
  }
  if (args.json) {
    cli::print_json(json_of(analysis, controls, args.routing));
    return 0;
  }
  std::printf(
      "%lld tokens in %lld windows, routing %s. Window %lld, routed blocks below its text:\n",
      static_cast<long long>(analysis.tokens), static_cast<long long>(analysis.windows),
      args.routing.c_str(), static_cast<long long>(args.map));
  std::fputs(lm::route_map_text(table, *loaded.data.tokenizer, args.map).c_str(), stdout);
  std::fputs(lm::routes_text(analysis, controls).c_str(), stdout);
  return 0;
}

}  // namespace

void add_lm_routes(CLI::App& lm, Action& chosen) {
  auto* command = lm.add_subcommand("routes", "What the routers of a model learned");
  auto args = std::make_shared<RoutesArguments>();
  command->add_option("model", args->model, "A run's folder or a checkpoint")->required();
  command->add_option("data", args->data, "Text, .jsonl, or .bin token shard")->required();
  command->add_option("--routing", args->routing,
                      "topk (with controls), predictor, router, threshold or ema");
  command->add_option("--windows", args->windows, "Windows of seq_len tokens; 0: all")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--map", args->map, "The window whose map is shown, from 0")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--batch", args->batch, "Windows at a time")->check(CLI::PositiveNumber);
  command->add_flag("--one-document", args->one_document, "Ignore end-of-text tokens");
  command->add_option("--html", args->html, "Write a web page to this file");
  command->add_flag("--json", args->json, "Machine-readable output");
  command->add_option("--threads", args->threads, "0: one per CPU");
  command->footer("Example: lagom lm routes out/lm-demo some.txt --html routes.html");
  command->callback([args, &chosen] { chosen = [args] { return routes(*args); }; });
}

}  // namespace lagom::learn

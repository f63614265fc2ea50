#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/common.h"
#include "lagom/lm/evaluation.h"
#include "lagom/tensor/threads.h"
#include "learn/lm_commands.h"

namespace lagom::learn {
namespace {

using nlohmann::ordered_json;

struct EvalArguments {
  std::string model, data;
  std::vector<std::string> routings;
  double capacity = 0;
  bool hard_cap = false, json = false, one_document = false;
  int64_t windows = 0, batch = 8;
  int threads = 0;
};

/// Every rule that the model can follow.
std::vector<std::string> possible_routings(const lm::Model& model) {
  std::vector<std::string> names = {"topk"};
  const lm::LmOptions& options = model.options();
  if (options.num_routed() == 0) return names;
  if (options.routing.predictor) names.emplace_back("predictor");
  if (options.routing.aux_weight > 0) names.emplace_back("router");
  names.emplace_back("threshold");  // calibrated here when it is not yet
  names.emplace_back("ema");
  return names;
}

int evaluate(const EvalArguments& args) {
  tensor::set_num_threads(args.threads);
  const lm::LoadedModel loaded = lm::load_model(args.model);
  const auto tokenizer = lm::open_tokenizer(loaded.tokenizer, lm::checkpoint_path(args.model));
  lm::DataOptions data_options;
  data_options.train = args.data;
  data_options.tokenizer = loaded.tokenizer;
  if (loaded.tokenizer != "bytes") {
    data_options.tokenizer =
        (lm::checkpoint_path(args.model).parent_path() / loaded.tokenizer).string();
  }
  data_options.validation = args.data;
  const lm::LmData data = lm::open_data(data_options, std::filesystem::temp_directory_path());
  lm::EvaluationOptions options = {.capacity = args.capacity,
                                   .hard_cap = args.hard_cap,
                                   .batch = args.batch,
                                   .max_windows = args.windows,
                                   .documents = !args.one_document};
  ordered_json result = ordered_json::array();
  if (!args.json) {
    std::printf("%-10s %10s %10s %14s  %s\n", "routing", "loss", "perplexity", "bits per byte",
                "share of tokens in each routed block");
  }
  lm::Model& model = *loaded.model;
  for (const std::string& name : args.routings.empty() ? possible_routings(model) : args.routings) {
    options.routing = choice_of<lm::Routing>("--routing", name);
    if (options.routing == lm::Routing::kThreshold && model.calibrated_thresholds.numel() > 0 &&
        (args.capacity > 0 || model.calibrated_thresholds.isnan().any().item<bool>())) {
      lm::calibrate_thresholds(model, data.validation, *tokenizer, options);
    }
    const lm::Evaluation e = lm::evaluate(model, data.validation, *tokenizer, options);
    lm::RoutingCounts counts;
    for (const lm::RoutingCounts& layer : e.predictions) counts += layer;
    if (args.json) {
      ordered_json row = {
          {"routing", name},
          {"causal", options.routing != lm::Routing::kTopK || model.options().num_routed() == 0},
          {"tokens", e.tokens},
          {"loss", e.loss},
          {"bits_per_byte", e.bits_per_byte},
          {"rates", e.rates}};
      if (counts.total() > 0) {
        row["predictor"] = {{"accuracy", counts.accuracy()},
                            {"precision", counts.precision()},
                            {"recall", counts.recall()},
                            {"f1", counts.f1()},
                            {"realised_rate", counts.realised_rate()},
                            {"majority_accuracy", counts.majority_accuracy()}};
      }
      result.push_back(std::move(row));
      continue;
    }
    std::printf("%-10s %10.4f %10.3f %14.4f ", name.c_str(), e.loss, std::exp(e.loss),
                e.bits_per_byte);
    for (const double rate : e.rates) std::printf(" %.3f", rate);
    const bool looks_ahead =
        options.routing == lm::Routing::kTopK && model.options().num_routed() > 0;
    std::printf("%s\n", looks_ahead ? "  (looks ahead: not the loss of sampled text)" : "");
    if (counts.total() > 0) {
      std::printf(
          "  predictor: accuracy %.4f (majority %.4f), precision %.4f, recall %.4f, "
          "F1 %.4f, rate %.4f\n",
          counts.accuracy(), counts.majority_accuracy(), counts.precision(), counts.recall(),
          counts.f1(), counts.realised_rate());
    }
  }
  if (args.json) cli::print_json(result);
  return 0;
}

}  // namespace

void add_lm_eval(CLI::App& lm, Action& chosen) {
  auto* command = lm.add_subcommand("eval", "Loss of a model on a text, under each routing rule");
  auto args = std::make_shared<EvalArguments>();
  command->add_option("model", args->model, "A run's folder or a checkpoint")->required();
  command->add_option("data", args->data, "Text, .jsonl, or .bin token shard")->required();
  command->add_option("--routing", args->routings,
                      "topk, predictor, router, threshold, ema; default: all the model can follow");
  command->add_option("--capacity", args->capacity,
                      "Another share for top-k, hard cap and thresholds (calibrated anew)");
  command->add_flag("--hard-cap", args->hard_cap, "Causal rules never exceed the capacity");
  command->add_option("--windows", args->windows, "Only so many windows of seq_len tokens");
  command->add_option("--batch", args->batch, "Windows at a time")->check(CLI::PositiveNumber);
  command->add_flag("--one-document", args->one_document, "Ignore end-of-text tokens");
  command->add_flag("--json", args->json, "Machine-readable output");
  command->add_option("--threads", args->threads, "0: one per CPU");
  command->footer("Example: lagom lm eval out/lm-demo some.txt --windows 64");
  command->callback([args, &chosen] { chosen = [args] { return evaluate(*args); }; });
}

}  // namespace lagom::learn

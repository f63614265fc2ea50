#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/common.h"
#include "lagom/lm/dial.h"
#include "lagom/lm/evaluation.h"
#include "lagom/tensor/threads.h"
#include "learn/lm_commands.h"

namespace lagom::learn {
namespace {

using nlohmann::ordered_json;

struct EvalArguments {
  std::string model, data;
  std::vector<std::string> routings;
  std::vector<double> rates;
  double capacity = 0;
  bool hard_cap = false, json = false, one_document = false;
  int64_t windows = 0, batch = 8;
  int threads = 0;
};

bool has_nan(const at::Tensor& x) {
  return x.defined() && x.isnan().any().item<bool>();
}

/// Of each expert the share of tokens that it took, and how many met none.
void print_load(const lm::ExpertLoad& load, int64_t num_experts) {
  std::printf("  experts of block %lld:", static_cast<long long>(load.layer));
  const double tokens = static_cast<double>(std::max<int64_t>(1, load.tokens));
  for (size_t i = 0; i < load.taken.size(); ++i) {
    const bool real = static_cast<int64_t>(i) < num_experts;
    if (!real && load.taken[i] == 0) continue;  // no-ops are chosen only by tokens
    std::printf(" %s%.3f", real ? "" : "no-op ", static_cast<double>(load.taken[i]) / tokens);
  }
  std::printf("; imbalance %.2f, %.1f %% of %lld tokens met none\n", load.imbalance(num_experts),
              100 * static_cast<double>(load.untouched) / tokens,
              static_cast<long long>(load.tokens));
}

/// The predictors' answers as a line, if there are any.
void print_predictions(const char* whose, const std::vector<lm::RoutingCounts>& layers) {
  lm::RoutingCounts counts;
  for (const lm::RoutingCounts& layer : layers) counts += layer;
  if (counts.total() == 0) return;
  std::printf(
      "  %s: accuracy %.4f (majority %.4f), precision %.4f, recall %.4f, F1 %.4f, rate %.4f\n",
      whose, counts.accuracy(), counts.majority_accuracy(), counts.precision(), counts.recall(),
      counts.f1(), counts.realised_rate());
}

/// Every rule that the model can follow.
std::vector<std::string> possible_routings(const lm::Model& model) {
  std::vector<std::string> names = {"topk"};
  const lm::LmOptions& options = model.options();
  const bool experts_choose = model.ema_expert_thresholds.defined();
  if (options.num_routed() == 0 && !experts_choose) return names;
  if (options.routing.predictor) names.emplace_back("predictor");
  if (options.routing.aux_weight > 0 && !experts_choose) names.emplace_back("router");
  names.emplace_back("threshold");  // calibrated here when it is not yet
  if (!has_nan(model.ema_thresholds) && !has_nan(model.ema_expert_thresholds)) {
    names.emplace_back("ema");
  }
  return names;
}

/// Loss, speed and memory by how many tokens calibrated thresholds let in.
int evaluate_rates(const EvalArguments& args, lm::Model& model, const ModelAndText& loaded,
                   const lm::EvaluationOptions& options) {
  const std::vector<lm::DialPoint> points =
      lm::turn_dial(model, loaded.data.validation, *loaded.data.tokenizer, options, args.rates);
  if (args.json) {
    ordered_json rows = ordered_json::array();
    for (size_t i = 0; i < points.size(); ++i) {
      const lm::DialPoint& point = points[i];
      rows.push_back({{"rate", args.rates[i]},
                      {"share", point.share},
                      {"loss", point.evaluation.loss},
                      {"bits_per_byte", point.evaluation.bits_per_byte},
                      {"rates", point.evaluation.rates},
                      {"tokens_per_second", point.tokens_per_second},
                      {"kv_bytes", point.kv_bytes},
                      {"decoded_tokens", point.decoded_tokens}});
    }
    cli::print_json(rows);
    return 0;
  }
  std::printf("%6s %8s %10s %14s %10s %10s  %s\n", "rate", "share", "loss", "bits per byte",
              "tokens/s", "KV bytes", "share of tokens in each routed block");
  for (size_t i = 0; i < points.size(); ++i) {
    const lm::DialPoint& point = points[i];
    std::printf("%6g %8.4f %10.4f %14.4f %10.1f %10lld ", args.rates[i], point.share,
                point.evaluation.loss, point.evaluation.bits_per_byte, point.tokens_per_second,
                static_cast<long long>(point.kv_bytes));
    for (const double rate : point.evaluation.rates) std::printf(" %.3f", rate);
    std::printf("\n");
  }
  std::printf(
      "Thresholds were set on the first half of the windows, losses are of the second; speed and\n"
      "keys and values are of decoding one window of %lld tokens alone.\n",
      static_cast<long long>(points.front().decoded_tokens));
  return 0;
}

int evaluate(const EvalArguments& args) {
  tensor::set_num_threads(args.threads);
  const ModelAndText loaded(args.model, args.data);
  const text::Tokenizer& tokenizer = *loaded.data.tokenizer;
  lm::EvaluationOptions options = {.capacity = args.capacity,
                                   .hard_cap = args.hard_cap,
                                   .batch = args.batch,
                                   .max_windows = args.windows,
                                   .documents = !args.one_document};
  if (!args.rates.empty()) return evaluate_rates(args, *loaded.model.model, loaded, options);
  ordered_json result = ordered_json::array();
  if (!args.json) {
    std::printf("%-10s %10s %10s %14s  %s\n", "routing", "loss", "perplexity", "bits per byte",
                "share of tokens in each routed block");
  }
  lm::Model& model = *loaded.model.model;
  for (const std::string& name : args.routings.empty() ? possible_routings(model) : args.routings) {
    options.routing = choice_of<lm::Routing>("--routing", name);
    if (options.routing == lm::Routing::kThreshold &&
        (args.capacity > 0 || has_nan(model.calibrated_thresholds) ||
         has_nan(model.calibrated_expert_thresholds))) {
      lm::calibrate_thresholds(model, loaded.data.validation, tokenizer, options);
    }
    const lm::Evaluation e = lm::evaluate(model, loaded.data.validation, tokenizer, options);
    const bool looks_ahead =
        options.routing == lm::Routing::kTopK &&
        (model.options().num_routed() > 0 || model.ema_expert_thresholds.defined());
    if (args.json) {
      lm::RoutingCounts counts;
      for (const lm::RoutingCounts& layer : e.predictions) counts += layer;
      ordered_json row = {
          {"routing", name}, {"causal", !looks_ahead},           {"tokens", e.tokens},
          {"loss", e.loss},  {"bits_per_byte", e.bits_per_byte}, {"rates", e.rates}};
      if (counts.total() > 0) {
        row["predictor"] = {{"accuracy", counts.accuracy()},
                            {"precision", counts.precision()},
                            {"recall", counts.recall()},
                            {"f1", counts.f1()},
                            {"realised_rate", counts.realised_rate()},
                            {"majority_accuracy", counts.majority_accuracy()}};
      }
      for (const lm::ExpertLoad& load : e.experts) {
        row["experts"].push_back({{"layer", load.layer},
                                  {"tokens", load.tokens},
                                  {"taken", load.taken},
                                  {"untouched", load.untouched}});
      }
      result.push_back(std::move(row));
      continue;
    }
    std::printf("%-10s %10.4f %10.3f %14.4f ", name.c_str(), e.loss, std::exp(e.loss),
                e.bits_per_byte);
    for (const double rate : e.rates) std::printf(" %.3f", rate);
    std::printf("%s\n", looks_ahead ? "  (looks ahead: not the loss of sampled text)" : "");
    print_predictions("predictor", e.predictions);
    print_predictions("experts' predictors", e.expert_predictions);
    for (const lm::ExpertLoad& load : e.experts) print_load(load, model.options().experts.count);
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
  command
      ->add_option("--rates", args->rates,
                   "Calibrated thresholds that let in so many times the capacity, with decoding "
                   "speed and cache size, as 0.5,1,2")
      ->delimiter(',');
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

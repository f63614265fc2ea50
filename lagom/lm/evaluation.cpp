#include "lagom/lm/evaluation.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "lagom/lm/ops.h"

namespace lagom::lm {
namespace {

double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

ForwardResult forward(const Model& model, const LmBatch& batch, const EvaluationOptions& options) {
  return model.forward(batch.tokens, {.routing = options.routing,
                                      .capacity = options.capacity,
                                      .hard_cap = options.hard_cap,
                                      .segments = batch.segments});
}

/// Decisions against what top-k chose; both bool, of one shape.
RoutingCounts count_decisions(const at::Tensor& predicted, const at::Tensor& chosen) {
  const auto count = [](const at::Tensor& mask) { return mask.sum().item<int64_t>(); };
  RoutingCounts counts;
  counts.true_positive = count(predicted & chosen);
  counts.false_positive = count(predicted) - counts.true_positive;
  counts.false_negative = count(chosen) - counts.true_positive;
  counts.true_negative =
      predicted.numel() - counts.true_positive - counts.false_positive - counts.false_negative;
  return counts;
}

}  // namespace

double RoutingCounts::accuracy() const {
  return ratio(true_positive + true_negative, total());
}
double RoutingCounts::precision() const {
  return ratio(true_positive, true_positive + false_positive);
}
double RoutingCounts::recall() const {
  return ratio(true_positive, true_positive + false_negative);
}
double RoutingCounts::f1() const {
  return ratio(2 * true_positive, 2 * true_positive + false_positive + false_negative);
}
double RoutingCounts::realised_rate() const {
  return ratio(true_positive + false_positive, total());
}
double RoutingCounts::majority_accuracy() const {
  const double positive = ratio(true_positive + false_negative, total());
  return std::max(positive, 1 - positive);
}

RoutingCounts& RoutingCounts::operator+=(const RoutingCounts& other) {
  true_positive += other.true_positive;
  false_positive += other.false_positive;
  false_negative += other.false_negative;
  true_negative += other.true_negative;
  return *this;
}

RoutingCounts count_predictions(const RoutedLayer& layer) {
  return count_decisions(layer.predictor_logits.detach() > 0, layer.chosen);
}

RoutingCounts count_predictions(const ExpertLayer& layer) {
  const at::Tensor there = layer.present.unsqueeze(1);
  return count_decisions((layer.predictor_logits.detach() > 0).logical_and(there),
                         layer.chosen.narrow(1, 0, layer.predictor_logits.size(1)));
}

void for_each_window_batch(const Model& model, const TokenRange& range,
                           const text::Tokenizer& tokenizer, const EvaluationOptions& options,
                           const std::function<void(const LmBatch&)>& visit) {
  const int64_t length = std::min(model.options().seq_len, range.size() - 1);
  if (length < 1) {
    throw std::invalid_argument("the text has " + std::to_string(range.size()) +
                                " tokens: too few to evaluate");
  }
  int64_t windows = (range.size() - 1) / length;
  if (options.max_windows > 0) windows = std::min(windows, options.max_windows);
  for (int64_t first = 0; first < windows; first += options.batch) {
    std::vector<int64_t> begins;
    for (int64_t w = first; w < std::min(windows, first + options.batch); ++w) {
      begins.push_back(w * length);
    }
    visit(range.batch(begins, length, model.options().vocab_size,
                      options.documents ? tokenizer.end_of_text() : std::nullopt));
  }
}

Evaluation evaluate(const Model& model, const TokenRange& range, const text::Tokenizer& tokenizer,
                    const EvaluationOptions& options) {
  const at::NoGradGuard no_grad;
  Evaluation result;
  const auto routed = static_cast<size_t>(model.options().num_routed());
  const auto blocks = static_cast<size_t>(model.options().num_expert_blocks());
  std::vector<int64_t> entered(routed, 0);
  double nats = 0;
  int64_t bytes = 0;
  for_each_window_batch(model, range, tokenizer, options, [&](const LmBatch& batch) {
    const ForwardResult pass = forward(model, batch, options);
    const int64_t count = batch.targets.numel();
    const at::Tensor loss =
        next_token_loss(pass.hidden.flatten(0, 1), model.head(), batch.targets.flatten());
    nats += loss.item<double>() * static_cast<double>(count);
    result.tokens += count;
    const auto* target = batch.targets.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < count; ++i) {
      bytes += std::ssize(tokenizer.token_bytes(static_cast<int32_t>(target[i])));
    }
    for (size_t i = 0; i < routed; ++i) {
      const RoutedLayer& layer = pass.routed[i];
      entered[i] += layer.chosen.sum().item<int64_t>();
      if (options.routing != Routing::kTopK || !layer.predictor_logits.defined()) continue;
      result.predictions.resize(routed);
      result.predictions[i] += count_predictions(layer);
    }
    result.experts.resize(blocks);
    for (const ExpertLayer& layer : pass.experts) {
      const auto i = static_cast<size_t>(model.options().expert_block_index(layer.layer));
      result.experts[i] += count_load(layer, model.options().experts.count);
      if (options.routing != Routing::kTopK || !layer.predictor_logits.defined()) continue;
      result.expert_predictions.resize(blocks);
      result.expert_predictions[i] += count_predictions(layer);
    }
  });
  result.loss = nats / static_cast<double>(result.tokens);
  result.bits_per_byte =
      nats / std::numbers::ln2 / static_cast<double>(std::max<int64_t>(1, bytes));
  for (const int64_t count : entered) result.rates.push_back(ratio(count, result.tokens));
  return result;
}

void calibrate_thresholds(Model& model, const TokenRange& range, const text::Tokenizer& tokenizer,
                          const EvaluationOptions& options) {
  const bool experts_choose = model.calibrated_expert_thresholds.defined();
  const int64_t decisions =
      model.options().num_routed() + (experts_choose ? model.options().num_expert_blocks() : 0);
  if (decisions == 0) return;
  const at::NoGradGuard no_grad;
  const double share = options.capacity > 0 ? options.capacity : model.options().routed_share();
  EvaluationOptions pass = options;
  pass.routing = Routing::kTopK;
  // What a decision sees depends on those before it: each pass settles one more.
  for (int64_t settled = 0; settled < decisions; ++settled) {
    std::vector<ForwardResult> results;
    for_each_window_batch(model, range, tokenizer, options, [&](const LmBatch& batch) {
      ForwardResult& result = results.emplace_back(forward(model, batch, pass));
      result.hidden = at::Tensor();  // only the scores are needed
    });
    model.calibrate(results, share);
    pass.routing = Routing::kThreshold;
  }
}

}  // namespace lagom::lm

// Thresholds by which tokens enter routed blocks and meet experts under causal rules.

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "lagom/lm/model.h"
#include "lagom/lm/ops.h"
#include "lagom/lm/routing.h"

namespace lagom::lm {
namespace {

using at::Tensor;

/// A running mean that begins with its first value.
void follow(float& mean, float value, double decay) {
  const auto kept = static_cast<float>(decay);
  mean = std::isnan(mean) ? value : kept * mean + (1 - kept) * value;
}

/// The largest threshold that `share` of the scores exceed.
float threshold_of_share(std::span<const float> scores, double share) {
  TORCH_CHECK_VALUE(!scores.empty(), "Model: calibration needs text");
  const auto k = std::clamp<int64_t>(
      static_cast<int64_t>(std::llround(share * static_cast<double>(scores.size()))), 1,
      std::ssize(scores));
  if (k == std::ssize(scores)) return -std::numeric_limits<float>::infinity();
  // Tokens enter above the threshold: the next lower number lets the k-th in.
  return std::nextafter(top_k_threshold(scores, k), -std::numeric_limits<float>::infinity());
}

/// Probabilities of the real experts, expert by expert: [E, M].
Tensor expert_columns(const ExpertLayer& layer, int64_t experts) {
  return layer.probabilities.detach().narrow(1, 0, experts).t().contiguous();
}

}  // namespace

float Model::causal_threshold(Routing routing, int64_t index, double share) const {
  if (options_.routing.selection != Selection::kLearned) {
    return static_cast<float>(std::sqrt(2.0)) *
           at::erfinv(at::scalar_tensor(1 - 2 * share, at::kDouble)).item<float>();
  }
  TORCH_CHECK_VALUE(routing != Routing::kPredictor || options_.routing.predictor,
                    "Model: routing by predictor, but the model has none");
  if (routing == Routing::kPredictor || routing == Routing::kRouter) return 0;
  const Tensor& all = routing == Routing::kEma ? ema_thresholds : calibrated_thresholds;
  const float threshold = all[index].item<float>();
  TORCH_CHECK_VALUE(!std::isnan(threshold), "Model: routing by ",
                    routing == Routing::kEma ? "running" : "calibrated",
                    " thresholds, but the model has none");
  return threshold;
}

std::vector<float> Model::expert_thresholds(Routing routing, int64_t index) const {
  if (options_.experts.choice == ExpertChoice::kToken) return {};
  const auto experts = static_cast<size_t>(options_.experts.count);
  TORCH_CHECK_VALUE(routing != Routing::kRouter,
                    "Model: experts cannot be routed by the sign of router weights");
  if (routing == Routing::kPredictor) {
    TORCH_CHECK_VALUE(options_.routing.predictor,
                      "Model: routing by predictor, but the model has none");
    return std::vector<float>(experts, 0.0F);
  }
  const bool running = routing == Routing::kEma;
  const Tensor row =
      (running ? ema_expert_thresholds : calibrated_expert_thresholds)[index].contiguous();
  TORCH_CHECK_VALUE(!row.isnan().any().item<bool>(), "Model: routing by ",
                    running ? "running" : "calibrated",
                    " thresholds, but the model has none of its experts");
  const auto* data = row.const_data_ptr<float>();
  return {data, data + experts};
}

void Model::update_ema_thresholds(const ForwardResult& result, double capacity) {
  auto* thresholds = ema_thresholds.mutable_data_ptr<float>();
  for (size_t i = 0; i < result.routed.size(); ++i) {
    const Tensor scores = result.routed[i].scores.detach().contiguous();
    const int64_t k = options_.routed_tokens(scores.size(1), capacity);
    double sum = 0;
    for (int64_t b = 0; b < scores.size(0); ++b) sum += top_k_threshold(row_of(scores, b), k);
    const auto mean = static_cast<float>(sum / static_cast<double>(scores.size(0)));
    follow(thresholds[i], mean, options_.routing.ema_decay);
  }
  if (!ema_expert_thresholds.defined()) return;
  const int64_t experts = options_.experts.count;
  for (size_t i = 0; i < result.experts.size(); ++i) {
    const ExpertLayer& layer = result.experts[i];
    const Tensor columns = expert_columns(layer, experts);  // [E, M]
    const int64_t n = columns.size(1) / layer.batch;
    auto* row = ema_expert_thresholds[static_cast<int64_t>(i)].mutable_data_ptr<float>();
    for (int64_t e = 0; e < experts; ++e) {
      double sum = 0;
      for (int64_t b = 0; b < layer.batch; ++b) {
        sum += top_k_threshold(
            row_of(columns, e).subspan(static_cast<size_t>(b * n), static_cast<size_t>(n)),
            options_.expert_tokens(n));
      }
      follow(row[e], static_cast<float>(sum / static_cast<double>(layer.batch)),
             options_.routing.ema_decay);
    }
  }
}

void Model::calibrate(const std::vector<ForwardResult>& results, double share) {
  for (int64_t layer = 0; layer < options_.num_routed(); ++layer) {
    std::vector<float> scores;
    for (const ForwardResult& result : results) {
      const Tensor part = result.routed[static_cast<size_t>(layer)].scores.detach().contiguous();
      const auto* data = part.const_data_ptr<float>();
      scores.insert(scores.end(), data, data + part.numel());
    }
    calibrated_thresholds[layer].fill_(threshold_of_share(scores, share));
  }
  if (calibrated_expert_thresholds.defined()) calibrate_experts(results);
}

void Model::calibrate_experts(const std::vector<ForwardResult>& results) {
  std::map<int64_t, std::vector<Tensor>> columns;  // by layer: [E, tokens]
  for (const ForwardResult& result : results) {
    for (const ExpertLayer& layer : result.experts) {
      const Tensor there = layer.present.nonzero().squeeze(1);
      columns[layer.layer].push_back(
          expert_columns(layer, options_.experts.count).index_select(1, there));
    }
  }
  for (const auto& [layer, parts] : columns) {
    const Tensor scores = at::cat(parts, 1);
    auto* thresholds =
        calibrated_expert_thresholds[options_.expert_block_index(layer)].mutable_data_ptr<float>();
    for (int64_t e = 0; e < options_.experts.count && scores.size(1) > 0; ++e) {
      thresholds[e] = threshold_of_share(row_of(scores, e), options_.expert_share(layer));
    }
  }
}

}  // namespace lagom::lm

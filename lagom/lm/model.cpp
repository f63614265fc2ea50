#include "lagom/lm/model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "lagom/lm/ops.h"
#include "lagom/lm/routing.h"

namespace lagom::lm {
namespace {

using at::Tensor;

/// Which tokens of a batch enter a block, rows padded at their end to the longest.
struct Choice {
  int64_t count = 0;  ///< Tokens n per row, padding included.
  bool padded = false;
  Tensor positions;  ///< int64 [B, n], ascending; padding repeats position 0.
  Tensor ranks;      ///< int64 [B, n]: 0 .. n-1
  Tensor flat;       ///< int64 [B * n]: row * T + position
  Tensor present;    ///< float [B * n]: 0 for padding.
  Tensor chosen;     ///< bool [B, T]
};

Choice make_choice(const std::vector<std::vector<int64_t>>& rows, int64_t length) {
  const auto batch = static_cast<int64_t>(rows.size());
  Choice choice;
  for (const auto& row : rows) choice.count = std::max<int64_t>(choice.count, std::ssize(row));
  choice.positions = at::zeros({batch, choice.count}, at::kLong);
  choice.ranks = at::arange(choice.count, at::kLong).repeat({batch, 1});
  choice.present = at::zeros({batch * choice.count}, at::kFloat);
  choice.chosen = at::zeros({batch, length}, at::kBool);
  auto* positions = choice.positions.mutable_data_ptr<int64_t>();
  auto* present = choice.present.mutable_data_ptr<float>();
  auto* chosen = choice.chosen.mutable_data_ptr<bool>();
  for (int64_t b = 0; b < batch; ++b) {
    const auto& row = rows[static_cast<size_t>(b)];
    choice.padded = choice.padded || std::ssize(row) < choice.count;
    for (size_t i = 0; i < row.size(); ++i) {
      positions[b * choice.count + static_cast<int64_t>(i)] = row[i];
      present[b * choice.count + static_cast<int64_t>(i)] = 1;
      chosen[b * length + row[i]] = true;
    }
  }
  const Tensor offsets = at::arange(batch, at::kLong).unsqueeze(1) * length;
  choice.flat = (choice.positions + offsets).view(-1);
  return choice;
}

}  // namespace

ForwardResult Model::forward(const Tensor& tokens, const PassOptions& pass) const {
  TORCH_CHECK_VALUE(tokens.dim() == 2 && tokens.scalar_type() == at::kLong && tokens.numel() > 0,
                    "Model: expected tokens int64 [B, T], got ", tokens.scalar_type(), " ",
                    tokens.sizes());
  const int64_t batch = tokens.size(0), length = tokens.size(1);
  TORCH_CHECK_VALUE(length <= options_.seq_len, "Model: ", length,
                    " tokens are longer than seq_len ", options_.seq_len);
  ForwardResult result;
  const Tensor positions = at::arange(length, at::kLong).repeat({batch, 1});  // [B, T]
  Tensor x = at::embedding(embedding_, tokens);                               // [B, T, D]
  if (position_embedding_.defined()) x = x + position_embedding_.narrow(0, 0, length);
  const Tensor flat = at::arange(batch * length, at::kLong);
  const Tensor present = at::ones({batch * length}, at::kBool);
  for (int64_t layer = 0; layer < options_.num_layers; ++layer) {
    const Block& block = blocks_[static_cast<size_t>(layer)];
    if (block.router.defined()) {
      x = routed_block(block, layer, x, pass, result);
    } else {
      x = x +
          update(layer, x, {positions, pass.segments, pass.bfloat16}, flat, present, pass, result);
    }
  }
  result.hidden = apply_norm(x, norm_, options_);
  return result;
}

Tensor Model::update(int64_t layer, const Tensor& x, const TokenPlaces& places, const Tensor& flat,
                     const Tensor& present, const PassOptions& pass, ForwardResult& result) const {
  const Block& block = blocks_[static_cast<size_t>(layer)];
  if (block.experts.defined()) {
    const Tensor attended = block.attend(x, places, options_, rotary_);  // [B, n, D]
    const Tensor normed = apply_norm(x + attended, block.mlp_norm, options_, places.bfloat16);
    ExpertLayer& decided = result.experts.emplace_back(
        ExpertLayer{.layer = layer, .tokens = flat, .present = present});
    ExpertRule rule;
    rule.exact = pass.routing == Routing::kTopK;
    rule.by_probability = pass.routing != Routing::kPredictor;
    std::vector<float> thresholds;
    if (!rule.exact) {
      thresholds = expert_thresholds(pass.routing, options_.expert_block_index(layer));
    }
    rule.thresholds = thresholds;
    if (pass.hard_cap) rule.cap = options_.expert_share(layer);
    return add_experts(attended, normed, block.experts, options_, rule, decided);
  }
  return pass.checkpoint && x.requires_grad()
             ? block.checkpointed_update(x, places, options_, rotary_)
             : block.update(x, places, options_, rotary_);
}

Tensor Model::routed_block(const Block& block, int64_t layer, const Tensor& x,
                           const PassOptions& pass, ForwardResult& result) const {
  const RoutingOptions& routing = options_.routing;
  const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
  const Tensor stream = x.view({batch * length, width});

  RoutedLayer routed{.layer = layer};
  routed.scores = at::mv(stream, block.router).view({batch, length});
  if (block.predictor_in.weight.defined()) {
    routed.predictor_logits = block.predict(stream).view({batch, length});
  }
  // Random controls draw what is selected by, and with it maybe the gate.
  Tensor selection = routed.scores.detach();
  const bool causal = pass.routing != Routing::kTopK;
  if (routing.selection != Selection::kLearned) {
    selection = at::empty({batch, length}, at::kFloat);
    auto* draws = selection.mutable_data_ptr<float>();
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t t = 0; t < length; ++t) {
        draws[b * length + t] = random_score(pass.draw, layer, causal ? 0 : b, t);
      }
    }
    if (routing.selection == Selection::kGaussian) routed.scores = selection;
  }
  const size_t index = result.routed.size();
  if (!pass.selection_scores.empty()) selection = pass.selection_scores.at(index);

  const Choice choice =
      make_choice(choose(routed, selection, static_cast<int64_t>(index), pass), length);
  routed.chosen = choice.chosen;
  result.routed.push_back(routed);
  if (choice.count == 0) return x;

  const Tensor selected =
      stream.index_select(0, choice.flat).view({batch, choice.count, width});  // [B, n, D]
  TokenPlaces places{.bfloat16 = pass.bfloat16};
  places.positions =
      routing.positions == RoutedPositions::kOriginal ? choice.positions : choice.ranks;
  if (pass.segments.defined()) places.segments = pass.segments.gather(1, choice.positions);
  const Tensor delta =
      update(layer, selected, places, choice.flat, choice.present > 0, pass, result);
  Tensor scale = apply_gate(routing.gate,
                            routed.scores.reshape({-1}).index_select(0, choice.flat));  // [B * n]
  if (choice.padded) scale = scale.defined() ? scale * choice.present : choice.present;
  return add_rows(stream, delta.view({-1, width}), choice.flat, scale).view_as(x);
}

std::vector<std::vector<int64_t>> Model::choose(const RoutedLayer& routed, const Tensor& selection,
                                                int64_t index, const PassOptions& pass) const {
  const int64_t batch = selection.size(0), length = selection.size(1);
  std::vector<std::vector<int64_t>> rows(static_cast<size_t>(batch));
  if (pass.routing == Routing::kTopK) {
    const int64_t k = options_.routed_tokens(length, pass.capacity);
    for (int64_t b = 0; b < batch; ++b) {
      rows[static_cast<size_t>(b)] = top_k_positions(row_of(selection, b), k);
    }
    return rows;
  }
  const double share = pass.capacity > 0 ? pass.capacity : options_.routed_share();
  const float threshold = causal_threshold(pass.routing, index, share);
  const bool predicted =
      pass.routing == Routing::kPredictor && options_.routing.selection == Selection::kLearned;
  const Tensor scores = predicted ? routed.predictor_logits.detach().contiguous() : selection;
  for (int64_t b = 0; b < batch; ++b) {
    const auto row = row_of(scores, b);
    HardCap cap(pass.hard_cap ? share : 1.0);
    for (int64_t t = 0; t < length; ++t) {
      if (cap.admit(row[static_cast<size_t>(t)] > threshold, t)) {
        rows[static_cast<size_t>(b)].push_back(t);
      }
    }
  }
  return rows;
}

Tensor Model::logits(const Tensor& hidden) const {
  return at::linear(hidden, head());
}

Tensor apply_gate(Gate gate, const Tensor& scores) {
  switch (gate) {
    case Gate::kRaw:
      return scores;
    case Gate::kSigmoid:
      return at::sigmoid(scores);
    case Gate::kDoubleSigmoid:
      return 2 * at::sigmoid(scores);
    case Gate::kTanh:
      return at::tanh(scores);
    case Gate::kNone:
      break;
  }
  return {};
}

float apply_gate(Gate gate, float score) {
  switch (gate) {
    case Gate::kRaw:
      return score;
    case Gate::kSigmoid:
      return 1 / (1 + std::exp(-score));
    case Gate::kDoubleSigmoid:
      return 2 / (1 + std::exp(-score));
    case Gate::kTanh:
      return std::tanh(score);
    case Gate::kNone:
      break;
  }
  return 1;
}

RoutingLosses routing_losses(const ForwardResult& result, const LmOptions& options) {
  RoutingLosses losses;
  const auto count = static_cast<double>(result.routed.size());
  const auto add = [](Tensor& total, const Tensor& logits, const Tensor& target, double count) {
    const Tensor loss = at::binary_cross_entropy_with_logits(logits, target) / count;
    total = total.defined() ? total + loss : loss;
  };
  for (const RoutedLayer& layer : result.routed) {
    const Tensor target = layer.chosen.to(at::kFloat);
    if (layer.predictor_logits.defined())
      add(losses.predictor, layer.predictor_logits, target, count);
    if (options.routing.aux_weight > 0) add(losses.auxiliary, layer.scores, target, count);
  }
  const auto blocks = static_cast<double>(result.experts.size());
  for (const ExpertLayer& layer : result.experts) {
    if (layer.predictor_logits.defined()) {
      const Tensor target = layer.chosen.narrow(1, 0, options.experts.count).to(at::kFloat);
      add(losses.predictor, layer.predictor_logits, target, blocks);
    }
    if (options.experts.choice == ExpertChoice::kToken) {
      const Tensor loss = balance_loss(layer) / blocks;
      losses.balance = losses.balance.defined() ? losses.balance + loss : loss;
    }
  }
  return losses;
}

}  // namespace lagom::lm

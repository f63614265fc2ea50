#include "tests/lm/reference.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

namespace lagom::lm {
namespace {

using at::Tensor;

Tensor slow_norm(const Tensor& x, const NormWeights& norm, const LmOptions& o) {
  if (o.norm == Norm::kLayer) {
    const Tensor centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + o.norm_epsilon).sqrt() * norm.weight +
           norm.bias;
  }
  return x / (x.square().mean(-1, true) + o.norm_epsilon).sqrt() * norm.weight;
}

Tensor slow_linear(const Tensor& x, const Linear& linear) {
  const Tensor y = at::matmul(x, linear.weight.t());
  return linear.bias.defined() ? y + linear.bias : y;
}

/// x [B, T, heads, head_dim] turned by positions [B, T].
Tensor slow_rotary(const Tensor& x, const Tensor& positions, double theta) {
  const int64_t half = x.size(3) / 2;
  std::vector<Tensor> low, high;
  for (int64_t i = 0; i < half; ++i) {
    const double frequency =
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(2 * half));
    const Tensor angle = (positions.to(at::kDouble) * frequency).unsqueeze(-1);  // [B, T, 1]
    const Tensor c = at::cos(angle).to(x.scalar_type()), s = at::sin(angle).to(x.scalar_type());
    const Tensor a = x.select(3, i), b = x.select(3, i + half);
    low.push_back(a * c - b * s);
    high.push_back(b * c + a * s);
  }
  return at::cat({at::stack(low, 3), at::stack(high, 3)}, 3);
}

Tensor slow_activation(const Tensor& expanded, int64_t hidden, const LmOptions& o) {
  return o.activation == Activation::kGelu
             ? at::gelu(expanded, "tanh")
             : at::silu(expanded.narrow(2, 0, hidden)) * expanded.narrow(2, hidden, hidden);
}

/// Sum over the experts of mask * softmax * output; mask [B, T, E].
Tensor slow_experts(const ExpertWeights& weights, const Tensor& x, const Tensor& mask,
                    const LmOptions& o) {
  const Tensor p = at::softmax(at::matmul(x, weights.router.t()), -1);
  Tensor sum = at::zeros_like(x);
  for (int64_t e = 0; e < o.experts.count; ++e) {
    const Tensor hidden = slow_activation(at::matmul(x, weights.in[e].t()), o.expert_hidden(), o);
    const Tensor scale = mask.select(2, e) * p.select(2, e) *
                         (o.experts.scaled ? static_cast<double>(o.expert_choices()) : 1.0);
    sum = sum + scale.unsqueeze(-1) * at::matmul(hidden, weights.out[e].t());
  }
  return sum;
}

/// The block's update where tokens see only tokens of `visible` [B, T]. `experts`: which of them
/// each token meets, [B, T, E]; undefined in a block without.
Tensor slow_update(const Block& block, const Tensor& x, const Tensor& positions,
                   const Tensor& visible, const Tensor& segments, const Tensor& experts,
                   const LmOptions& o) {
  const int64_t batch = x.size(0), length = x.size(1), head_dim = o.head_dim();
  const Tensor qkv = slow_linear(slow_norm(x, block.attention_norm, o), block.qkv);
  const auto heads = [&](int64_t begin, int64_t count) {
    return qkv.narrow(2, begin * head_dim, count * head_dim).view({batch, length, count, head_dim});
  };
  Tensor q = heads(0, o.num_heads), k = heads(o.num_heads, o.kv_heads());
  Tensor v = heads(o.num_heads + o.kv_heads(), o.kv_heads());
  if (o.positions == Positions::kRotary) {
    q = slow_rotary(q, positions, o.rope_theta);
    k = slow_rotary(k, positions, o.rope_theta);
  }
  const int64_t repeats = o.num_heads / o.kv_heads();
  k = k.repeat_interleave(repeats, 2);
  v = v.repeat_interleave(repeats, 2);
  Tensor scores = at::einsum("bqhd,bkhd->bhqk", {q, k}) / std::sqrt(static_cast<double>(head_dim));
  Tensor allowed = at::ones({length, length}, at::kBool).tril().unsqueeze(0) &
                   visible.unsqueeze(1);  // [B, T, T]
  if (segments.defined()) allowed = allowed & (segments.unsqueeze(2) == segments.unsqueeze(1));
  // A token that sees nothing does not enter; its row only must not be NaN.
  allowed = allowed | at::eye(length, at::kBool).unsqueeze(0);
  scores = scores.masked_fill(~allowed.unsqueeze(1), -INFINITY);
  const Tensor attended = slow_linear(at::einsum("bhqk,bkhd->bqhd", {at::softmax(scores, -1), v})
                                          .reshape({batch, length, o.d_model}),
                                      block.attention_out);
  const Tensor normed = slow_norm(x + attended, block.mlp_norm, o);
  if (experts.defined()) return attended + slow_experts(block.experts, normed, experts, o);
  const Tensor hidden = slow_activation(slow_linear(normed, block.mlp_in), o.mlp_hidden(), o);
  return attended + slow_linear(hidden, block.mlp_out);
}

/// Which experts each token of the batch meets in a block, [B, T, E].
Tensor expert_mask(const std::vector<ExpertLayer>& layers, int64_t layer, int64_t batch,
                   int64_t length, const LmOptions& o) {
  if (!o.has_experts(layer)) return {};
  Tensor mask = at::zeros({batch * length, o.experts.count});
  for (const ExpertLayer& decided : layers) {
    if (decided.layer != layer) continue;
    const Tensor there = decided.present.nonzero().squeeze(1);
    mask.index_copy_(
        0, decided.tokens.index_select(0, there),
        decided.chosen.index_select(0, there).narrow(1, 0, o.experts.count).to(at::kFloat));
  }
  return mask.view({batch, length, o.experts.count});
}

}  // namespace

Tensor masked_reference(const Model& model, const Tensor& tokens, const std::vector<Tensor>& chosen,
                        const Tensor& segments, const std::vector<ExpertLayer>& experts) {
  const LmOptions& o = model.options();
  const int64_t batch = tokens.size(0), length = tokens.size(1);
  const Tensor positions = at::arange(length, at::kLong).repeat({batch, 1});
  Tensor x = model.embedding().index_select(0, tokens.view(-1)).view({batch, length, o.d_model});
  if (o.positions == Positions::kLearned) x = x + model.position_embedding().narrow(0, 0, length);
  size_t routed = 0;
  for (int64_t layer = 0; layer < o.num_layers; ++layer) {
    const Block& block = model.blocks()[static_cast<size_t>(layer)];
    const Tensor mask = expert_mask(experts, layer, batch, length, o);
    if (!block.router.defined()) {
      x = x +
          slow_update(block, x, positions, at::ones({batch, length}, at::kBool), segments, mask, o);
      continue;
    }
    const Tensor& enters = chosen[routed++];
    const Tensor ranks = enters.to(at::kLong).cumsum(1) - 1;
    const bool by_rank = o.routing.positions == RoutedPositions::kRank;
    const Tensor delta =
        slow_update(block, x, by_rank ? ranks.clamp_min(0) : positions, enters, segments, mask, o);
    const Tensor scores = at::matmul(x, block.router);
    Tensor scale = enters.to(at::kFloat);
    if (o.routing.gate == Gate::kRaw) scale = scale * scores;
    if (o.routing.gate == Gate::kSigmoid) scale = scale * at::sigmoid(scores);
    if (o.routing.gate == Gate::kDoubleSigmoid) scale = scale * 2 * at::sigmoid(scores);
    if (o.routing.gate == Gate::kTanh) scale = scale * at::tanh(scores);
    x = x + scale.unsqueeze(-1) * delta;
  }
  return slow_norm(x, model.norm(), o);
}

LmOptions small_options() {
  LmOptions options;
  options.vocab_size = 31;
  options.seq_len = 24;
  options.d_model = 32;
  options.num_layers = 4;
  options.num_heads = 4;
  options.routing.capacity = 0.25;
  return options;
}

LmOptions small_expert_options(ExpertChoice choice, bool staged) {
  LmOptions options = small_options();
  if (!staged) options.routing.every = 0;
  options.experts.count = 3;
  options.experts.no_ops = 1;
  options.experts.offset = 1;
  options.experts.choice = choice;
  options.experts.d_expert = 48;
  return options;
}

Tensor random_tokens(int64_t batch, int64_t length, int64_t vocab_size, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randint(vocab_size, {batch, length}, generator, at::kLong);
}

void enlarge_weights(Model& model, uint64_t seed) {
  const at::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (NamedTensor& parameter : model.parameters()) {
    parameter.value.add_(at::empty_like(parameter.value).normal_(0, 0.15, generator));
  }
}

double max_difference(const Tensor& a, const Tensor& b) {
  return (a - b).abs().max().item<double>();
}

}  // namespace lagom::lm

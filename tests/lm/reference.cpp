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

/// The block's update where tokens see only tokens of `visible` [B, T].
Tensor slow_update(const Block& block, const Tensor& x, const Tensor& positions,
                   const Tensor& visible, const Tensor& segments, const LmOptions& o) {
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
  const Tensor expanded = slow_linear(slow_norm(x + attended, block.mlp_norm, o), block.mlp_in);
  const Tensor hidden = o.activation == Activation::kGelu
                            ? at::gelu(expanded, "tanh")
                            : at::silu(expanded.narrow(2, 0, o.mlp_hidden())) *
                                  expanded.narrow(2, o.mlp_hidden(), o.mlp_hidden());
  return attended + slow_linear(hidden, block.mlp_out);
}

}  // namespace

Tensor masked_reference(const Model& model, const Tensor& tokens, const std::vector<Tensor>& chosen,
                        const Tensor& segments) {
  const LmOptions& o = model.options();
  const int64_t batch = tokens.size(0), length = tokens.size(1);
  const Tensor positions = at::arange(length, at::kLong).repeat({batch, 1});
  Tensor x = model.embedding().index_select(0, tokens.view(-1)).view({batch, length, o.d_model});
  if (o.positions == Positions::kLearned) x = x + model.position_embedding().narrow(0, 0, length);
  size_t routed = 0;
  for (const Block& block : model.blocks()) {
    if (!block.router.defined()) {
      x = x + slow_update(block, x, positions, at::ones({batch, length}, at::kBool), segments, o);
      continue;
    }
    const Tensor& enters = chosen[routed++];
    const Tensor ranks = enters.to(at::kLong).cumsum(1) - 1;
    const bool by_rank = o.routing.positions == RoutedPositions::kRank;
    const Tensor delta =
        slow_update(block, x, by_rank ? ranks.clamp_min(0) : positions, enters, segments, o);
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

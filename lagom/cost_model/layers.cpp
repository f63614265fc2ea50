#include "lagom/cost_model/layers.h"

#include <ATen/ATen.h>

#include <cmath>

#include "lagom/cost_model/fused.h"

namespace lagom::cost_model {

Linear::Linear(ParameterStore& store, const std::string& name, int64_t in, int64_t out,
               const LinearOptions& options) {
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  const double glorot = std::sqrt(6.0 / static_cast<double>(in + out));
  weight = store.uniform(name + ".weight", {out, in}, options.is_glorot ? glorot : bound);
  if (!options.has_bias) return;
  bias = options.is_glorot ? store.constant(name + ".bias", {out}, 0)
                           : store.uniform(name + ".bias", {out}, bound);
}

at::Tensor Linear::operator()(const at::Tensor& x, const ForwardContext& context) const {
  if (x.scalar_type() == at::kFloat) return fused_linear(x, weight, bias, context.bf16_dots);
  return at::linear(x, weight, bias);
}

at::Tensor activate(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return x.relu();
    case Activation::kLeakyRelu:
      return at::leaky_relu(x, 0.2);  // Keras' slope, of the official baselines
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kSilu:
      return at::silu(x);
  }
  return x;
}

Mlp::Mlp(ParameterStore& store, const std::string& name, const std::vector<int64_t>& widths,
         Activation activation, const LinearOptions& options)
    : activation_(activation) {
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    layers_.emplace_back(store, name + "." + std::to_string(i), widths[i], widths[i + 1], options);
  }
}

at::Tensor Mlp::operator()(at::Tensor x, const ForwardContext& context) const {
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (i > 0) x = activate(x, activation_);
    x = layers_[i](x, context);
  }
  return x;
}

at::Tensor instance_norm(const at::Tensor& x) {
  const auto [variance, mean] = at::var_mean(x, at::OptionalIntArrayRef({0}), /*correction=*/0,
                                             /*keepdim=*/true);  // [1, C, F]
  return (x - mean) * (variance + 1e-5).rsqrt();
}

ChannelAttention::ChannelAttention(ParameterStore& store, const std::string& name, int64_t width)
    : down(store, name + ".down", width, width / 8), up(store, name + ".up", width / 8, width) {}

at::Tensor ChannelAttention::operator()(const at::Tensor& x, const ForwardContext& context) const {
  return x * up(down(x, context).relu(), context).sigmoid();
}

CrossConfig::CrossConfig(ParameterStore& store, const std::string& name)
    : temperature(store.constant(name + ".temperature", {}, 0.5)) {}

at::Tensor CrossConfig::operator()(const at::Tensor& x) const {
  return at::cat({x, x * at::softmax(x / temperature, /*dim=*/1)}, /*dim=*/-1);  // [N, C, 2 F]
}

SageConv::SageConv(ParameterStore& store, const std::string& name, int64_t in, int64_t out)
    : neighbors(store, name + ".neighbors", in, out),
      self(store, name + ".self", in, out, {.has_bias = false}) {}

at::Tensor SageConv::operator()(const at::Tensor& x, const tensor::SegmentIndexPtr& index,
                                const ForwardContext& context) const {
  return neighbors(tensor::segment_mean(x, index), context) + self(x, context);
}

uint32_t dropout_seed(int64_t layer, const ForwardContext& context) {
  // Steps and layers far apart: neighbouring seeds would give the hash related streams.
  uint64_t seed = context.dropout_seed * 0x9E3779B97F4A7C15ULL + static_cast<uint64_t>(layer + 1);
  seed = (seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9ULL;
  return static_cast<uint32_t>(seed >> 32);
}

at::Tensor dropout(const at::Tensor& x, double share, int64_t layer,
                   const ForwardContext& context) {
  if (!context.is_training || share == 0) return x;
  return x * hash_dropout_factors(x, share, dropout_seed(layer, context));
}

at::Tensor l2_normalize(const at::Tensor& x) {
  // Below the root, so that the gradient of a row of zeros is finite.
  return x * (x.square().sum(-1, /*keepdim=*/true) + 1e-12).rsqrt();
}

}  // namespace lagom::cost_model

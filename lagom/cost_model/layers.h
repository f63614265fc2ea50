#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lagom/tensor/parameters.h"
#include "lagom/tensor/segment.h"

/// Layers over node-major activations x [N, C, F], with plain tensor operations. lagom/cost_model/
/// fused.h has the same for chains that need speed.
namespace lagom::cost_model {

using tensor::ParameterStore;

/// What a forward pass needs beside its input.
struct ForwardContext {
  bool is_training = false;   ///< Dropout on.
  uint64_t dropout_seed = 0;  ///< Of this step.
  bool bf16_dots = false;
};

struct LinearOptions {
  bool has_bias = true;
  bool is_glorot = false;  ///< Keras' initial values (Glorot uniform, no bias) instead of Torch's.
};

/// y = x W^T + b over the last dimension.
class Linear {
 public:
  Linear() = default;
  Linear(ParameterStore& store, const std::string& name, int64_t in, int64_t out,
         const LinearOptions& options = {});

  at::Tensor operator()(const at::Tensor& x, const ForwardContext& context) const;

  at::Tensor weight;  ///< [out, in]
  at::Tensor bias;    ///< [out]; undefined without
};

/// Linear layers with an activation between, none behind the last.
enum class Activation { kRelu, kLeakyRelu, kGelu, kSilu };
at::Tensor activate(const at::Tensor& x, Activation activation);

class Mlp {
 public:
  Mlp() = default;
  /// widths: input, hidden..., output.
  Mlp(ParameterStore& store, const std::string& name, const std::vector<int64_t>& widths,
      Activation activation, const LinearOptions& options = {});
  at::Tensor operator()(at::Tensor x, const ForwardContext& context) const;

 private:
  std::vector<Linear> layers_;
  Activation activation_ = Activation::kRelu;
};

/// x - mean over nodes, divided by the deviation over nodes (biased, eps 1e-5), of each
/// configuration and channel. x: [N, C, F].
at::Tensor instance_norm(const at::Tensor& x);

/// Squeeze-excite of each node's channels: x * sigmoid(W2 relu(W1 x + b1) + b2), W1 to an eighth.
class ChannelAttention {
 public:
  ChannelAttention() = default;
  ChannelAttention(ParameterStore& store, const std::string& name, int64_t width);
  at::Tensor operator()(const at::Tensor& x, const ForwardContext& context) const;

  Linear down, up;
};

/// Compares configurations inside the network: concat(x, x * softmax over C of x / T) on channels,
/// [N, C, F] to [N, C, 2 F], T learned. A score then depends on the other configurations of its
/// batch.
class CrossConfig {
 public:
  CrossConfig() = default;
  CrossConfig(ParameterStore& store, const std::string& name);
  at::Tensor operator()(const at::Tensor& x) const;

  at::Tensor temperature;  ///< []
};

/// Wl mean over the segment + b + Wr x (Hamilton et al. 2017, arXiv 1706.02216).
class SageConv {
 public:
  SageConv() = default;
  SageConv(ParameterStore& store, const std::string& name, int64_t in, int64_t out);
  at::Tensor operator()(const at::Tensor& x, const tensor::SegmentIndexPtr& index,
                        const ForwardContext& context) const;

  Linear neighbors, self;
};

/// Zeroes a share of the values and scales the others up; the values are chosen by a hash of seed,
/// layer and place, so the same whatever the number of threads.
at::Tensor dropout(const at::Tensor& x, double share, int64_t layer, const ForwardContext& context);

/// The hash's seed of a step's layer.
uint32_t dropout_seed(int64_t layer, const ForwardContext& context);

/// x / |x| over the last dimension, 0 for rows of zeros.
at::Tensor l2_normalize(const at::Tensor& x);

}  // namespace lagom::cost_model

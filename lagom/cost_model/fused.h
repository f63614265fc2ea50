#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "lagom/tensor/segment.h"

/// Chains of the networks' operations as one operation each, with hand-written gradients, for float
/// activations [N, C, K]. They equal the plain operations (lagom/cost_model/layers.h) to rounding,
/// never make a second tensor of that size, and keep only their inputs for the backward.
namespace lagom::cost_model {

struct FusedTailOptions {
  bool has_norm = false;
  double dropout = 0;
  uint32_t dropout_seed = 0;
  bool bf16_dots = false;
};

/// Parameters of channel attention and the temperature of cross-configuration attention; nullopt
/// where a block has none.
struct FusedTailParameters {
  std::optional<at::Tensor> down, down_bias, up, up_bias, temperature;
};

/// See BlockTail. residual: [N, C, out] or undefined.
at::Tensor fused_block_tail(const at::Tensor& x, const at::Tensor& residual,
                            const FusedTailParameters& parameters, const FusedTailOptions& options);

/// self n(x) + neighbors mean over segments of n(x) + bias; n is the instance norm where asked for.
at::Tensor fused_sage(const at::Tensor& x, const tensor::SegmentIndexPtr& index,
                      const at::Tensor& neighbors, const at::Tensor& self, const at::Tensor& bias,
                      bool has_norm, bool bf16_dots);

/// x W^T + b; x [..., in], bias undefined for none. The same bits for any number of threads, which
/// a BLAS that divides the work by itself does not give.
at::Tensor fused_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        bool bf16_dots);

/// (x - mean over nodes) / deviation over nodes. [N, C, K]
at::Tensor fused_instance_norm(const at::Tensor& x);

/// The factors of dropout for a tensor of x's shape: 0, or 1 / (1 - share). By a hash of seed and
/// place, the same as the fused operations'.
at::Tensor hash_dropout_factors(const at::Tensor& x, double share, uint32_t seed);

}  // namespace lagom::cost_model

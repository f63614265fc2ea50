#pragma once

// Differentiable operations of the model: fused kernels where a chain of ATen's would go over
// memory several times. On the CPU, any strides in (made contiguous), autograd throughout. float32;
// where a layer's activations may be bfloat16 (rms_norm's result, gelu_tanh, swiglu, attention),
// sums are float32 still.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "lagom/lm/options.h"

namespace lagom::lm {

/// x / rms(x) * weight over the last dimension. x: [..., D], weight: [D]. Returns bfloat16 on
/// request.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                    bool bfloat16 = false);

/// GELU in its tanh form, element-wise.
at::Tensor gelu_tanh(const at::Tensor& x);

/// silu(gate) * up. gate_up: [..., 2 H], gate first. Returns [..., H].
at::Tensor swiglu(const at::Tensor& gate_up);

/// x with scale[i] * update[i] added to row indices[i]: the routed block's scatter.
/// x: [N, D]; update: [k, D]; indices: int64 [k], which may repeat; scale: [k], undefined for 1.
at::Tensor add_rows(const at::Tensor& x, const at::Tensor& update, const at::Tensor& indices,
                    const at::Tensor& scale);

/// Products of several linear layers at once: rows offsets[e] .. offsets[e + 1] - 1 of x meet
/// weight[e]. x: [P, in]; weight: [E, out, in], x's dtype; offsets: E + 1 ascending, the first 0,
/// the last P. Returns [P, out].
at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& weight,
                          const std::vector<int64_t>& offsets);

/// What attention needs beside its input.
struct AttentionPlaces {
  at::Tensor positions;  ///< int64 [B, T]: what rotary embedding turns by; undefined: no turning.
  at::Tensor segments;   ///< int64 [B, T]: document of each token, ascending; undefined: one.
  at::Tensor cosines, sines;  ///< [positions, head_dim / 2]
  int64_t num_heads = 1, num_kv_heads = 1, head_dim = 0;
};

/// Rotary embedding of queries and keys, and causal attention scaled by 1 / sqrt(head_dim).
/// qkv: [B, T, (H + 2 K) head_dim], queries then keys then values, as a linear layer just made it:
/// it is overwritten. Returns [B, T, H head_dim].
///
/// Rotary embedding turns element i and i + head_dim / 2 of a head by position * theta^(-2 i /
/// head_dim). Up to 1024 tokens the probabilities are kept and products go by blocks of queries
/// that leave out the keys behind them; beyond, ATen's flash attention keeps none.
at::Tensor causal_attention(const at::Tensor& qkv, const AttentionPlaces& places);

/// A row of a contiguous float32 matrix.
std::span<const float> row_of(const at::Tensor& x, int64_t row);

/// Mean cross-entropy in nats of the next tokens, computed a chunk of rows at a time: logits and
/// their gradient share memory, and never stand whole.
/// hidden: [N, D]; head: [V, D]; targets: int64 [N] in [0, V), or -1 for rows that do not count.
at::Tensor next_token_loss(const at::Tensor& hidden, const at::Tensor& head,
                           const at::Tensor& targets);

}  // namespace lagom::lm

#pragma once

#include <cstdint>
#include <vector>

#include "lagom/tensor/dots.h"
#include "lagom/tensor/segment.h"

/// Loops behind lagom/cost_model/fused.h, over plain float pointers.
///
/// Activations are [N, C, K], node-major. A kernel walks over tiles of a few nodes that stay in the
/// second-level cache and does there all that one node's values need: normalising, both products of
/// channel attention, softmax over configurations, activation. What the backward needs is computed
/// again from the input instead of being kept. Nodes are dealt to a fixed number of parts, each
/// with gradients of its own that are added in order: results do not depend on the threads.
namespace lagom::cost_model {

/// Mean and 1 / deviation of each of `width` columns over `rows` rows (biased variance, eps 1e-5).
struct ColumnNorm {
  std::vector<float> mean, inverse;
};
ColumnNorm column_norm(const float* x, int64_t rows, int64_t width);
/// out = (x - mean) * inverse
void normalize(const float* x, int64_t rows, int64_t width, const ColumnNorm& norm, float* out);
/// In place: gradients of the normalised values become those of x.
void normalize_backward(const float* x, int64_t rows, int64_t width, const ColumnNorm& norm,
                        float* grad);

/// Zeroes values of a flat array by a hash of seed and place and scales the others up.
struct HashDropout {
  float share = 0;
  uint32_t seed = 0;
};
/// The factors of places [0, count).
void dropout_factors(const HashDropout& dropout, int64_t count, float* out);

struct TailShape {
  int64_t nodes = 0, configs = 0, width = 0;  ///< N, C, K of the input.
  bool has_cross = false;                     ///< The result is [N, C, 2 K] then.
  float temperature = 1;
  HashDropout dropout;
  tensor::DotPrecision precision = tensor::DotPrecision::kFloat;

  int64_t out_width() const { return has_cross ? 2 * width : width; }
};
/// Channel attention's parameters or, in the backward, their gradients; null without attention.
struct TailWeights {
  const float *down = nullptr, *down_bias = nullptr;  ///< [hidden, K], [hidden]
  const float *up = nullptr, *up_bias = nullptr;      ///< [K, hidden], [K]
  int64_t hidden = 0;
};
struct TailGradients {
  std::vector<float> down, down_bias, up, up_bias;
  float temperature = 0;
};
/// See BlockTail. norm: null without one; residual: [N, C, out] or null.
void block_tail_forward(const TailShape& shape, const TailWeights& weights, const float* x,
                        const ColumnNorm* norm, const float* residual, float* out);
/// grad: [N, C, out], rows of nodes `grad_stride` values apart (0: one row for all). Writes
/// gradients of x and, where not null, of the residual.
TailGradients block_tail_backward(const TailShape& shape, const TailWeights& weights,
                                  const float* x, const ColumnNorm* norm, const float* residual,
                                  const float* grad, int64_t grad_stride, float* grad_x,
                                  float* grad_residual);

struct ConvShape {
  int64_t nodes = 0, configs = 0, in = 0, out = 0;
  tensor::DotPrecision precision = tensor::DotPrecision::kFloat;
};
/// out = neighbors(mean over the segment of n(x)) + bias + self(n(x)), n the instance norm, or
/// nothing when norm is null. Without an index only self and bias: a linear layer.
void sage_forward(const ConvShape& shape, const tensor::SegmentIndex* index, const float* neighbors,
                  const float* self, const float* bias, const float* x, const ColumnNorm* norm,
                  float* out);
struct ConvGradients {
  std::vector<float> neighbors, self, bias;
};
/// grad_x may be null: only the weights' gradients.
ConvGradients sage_backward(const ConvShape& shape, const tensor::SegmentIndex* index,
                            const float* neighbors, const float* self, const float* x,
                            const ColumnNorm* norm, const float* grad, float* grad_x);

}  // namespace lagom::cost_model

#include "lagom/cost_model/fused_detail.h"
#include "lagom/cost_model/fused_math.h"
#include "lagom/cost_model/fused_vector.h"

namespace lagom::cost_model {
namespace {

using namespace detail;
using tensor::WeightDots;

struct Dropout {
  uint32_t threshold, seed;
  float scale;
};
Dropout prepared(const HashDropout& dropout) {
  return {static_cast<uint32_t>(dropout.share * 16777216.0F), dropout.seed,
          1 / (1 - dropout.share)};
}

LAGOM_CLONES void bias_relu(float* h, int64_t rows, int64_t width, const float* bias) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < width; ++k) {
      const float v = h[r * width + k] + bias[k];
      h[r * width + k] = v > 0 ? v : 0;
    }
  }
}

/// Logits become gates.
LAGOM_CLONES void bias_sigmoid_anywhere(float* g, int64_t rows, int64_t width, const float* bias) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < width; ++k) {
      g[r * width + k] = fast_sigmoid(g[r * width + k] + bias[k]);
    }
  }
}

void bias_sigmoid(float* g, int64_t rows, int64_t width, const float* bias) {
  has_vector_kernels() ? vector_bias_sigmoid(g, rows, width, bias)
                       : bias_sigmoid_anywhere(g, rows, width, bias);
}

/// v = z * gate + residual; gate and residual may be null. A loop each: a choice inside one keeps
/// compilers from vector code.
LAGOM_CLONES void preactivation(const float* __restrict z, const float* __restrict gate,
                                const float* __restrict residual, int64_t count,
                                float* __restrict v) {
  if (gate != nullptr && residual != nullptr) {
    for (int64_t i = 0; i < count; ++i) v[i] = z[i] * gate[i] + residual[i];
  } else if (gate != nullptr) {
    for (int64_t i = 0; i < count; ++i) v[i] = z[i] * gate[i];
  } else if (residual != nullptr) {
    for (int64_t i = 0; i < count; ++i) v[i] = z[i] + residual[i];
  } else {
    for (int64_t i = 0; i < count; ++i) v[i] = z[i];
  }
}

LAGOM_CLONES void gelu_in_place(float* v, int64_t count) {
  for (int64_t i = 0; i < count; ++i) v[i] = fast_gelu(v[i]);
}

/// Preactivations become their gradients.
LAGOM_CLONES void gelu_backward_in_place(float* __restrict v, const float* __restrict grad,
                                         int64_t count) {
  for (int64_t i = 0; i < count; ++i) v[i] = grad[i] * fast_gelu_slope(v[i]);
}

LAGOM_CLONES void apply_dropout(float* x, int64_t count, uint32_t place, const Dropout& dropout) {
  const float scale = dropout.scale;
  const uint32_t seed = dropout.seed, threshold = dropout.threshold;
  for (int64_t i = 0; i < count; ++i) {
    x[i] *= scale * hash_keeps(place + static_cast<uint32_t>(i), seed, threshold);
  }
}

/// out = dropout(gelu(z * gate + residual))
void activate_rows(const float* z, const float* gate, const float* residual, int64_t count,
                   uint32_t place, const Dropout& dropout, float* out) {
  if (has_vector_kernels()) {
    vector_gelu(z, gate, residual, count, out);
  } else {
    preactivation(z, gate, residual, count, out);
    gelu_in_place(out, count);
  }
  if (dropout.threshold != 0) apply_dropout(out, count, place, dropout);
}

/// d = gradient of z * gate + residual.
void activate_rows_backward(const float* z, const float* gate, const float* residual,
                            const float* grad, int64_t count, uint32_t place,
                            const Dropout& dropout, float* d) {
  if (has_vector_kernels()) {
    vector_gelu_backward(z, gate, residual, grad, count, d);
  } else {
    preactivation(z, gate, residual, count, d);
    gelu_backward_in_place(d, grad, count);
  }
  if (dropout.threshold != 0) apply_dropout(d, count, place, dropout);
}

LAGOM_CLONES void multiply_into(const float* __restrict a, const float* __restrict b, int64_t count,
                                float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) out[i] = a[i] * b[i];
}

/// As vector_exp_row.
LAGOM_CLONES void exp_row(const float* __restrict u, float scale, const float* __restrict largest,
                          int64_t width, float* __restrict a, float* __restrict sum) {
  for (int64_t k = 0; k < width; ++k) {
    const float e = fast_exp(u[k] * scale - largest[k]);
    a[k] = e;
    sum[k] += e;
  }
}

/// Softmax over the configurations of one node: a [C, K] of u [C, K].
LAGOM_CLONES void softmax_over_configs(const float* __restrict u, int64_t configs, int64_t width,
                                       float temperature, float* __restrict a,
                                       float* __restrict largest, float* __restrict sum) {
  const float inverse = 1 / temperature;
  for (int64_t k = 0; k < width; ++k) largest[k] = u[k] * inverse;
  for (int64_t c = 1; c < configs; ++c) {
    for (int64_t k = 0; k < width; ++k) {
      const float s = u[c * width + k] * inverse;
      largest[k] = s > largest[k] ? s : largest[k];
    }
  }
  for (int64_t k = 0; k < width; ++k) sum[k] = 0;
  const auto exps = has_vector_kernels() ? vector_exp_row : exp_row;
  for (int64_t c = 0; c < configs; ++c) {
    exps(u + c * width, inverse, largest, width, a + c * width, sum);
  }
  for (int64_t k = 0; k < width; ++k) sum[k] = 1 / sum[k];
  for (int64_t c = 0; c < configs; ++c) {
    for (int64_t k = 0; k < width; ++k) a[c * width + k] *= sum[k];
  }
}

/// du of one node from the gradients d [C, 2 K] of concat(u, u * a); the temperature's is returned.
LAGOM_CLONES float softmax_backward(const float* __restrict u, const float* __restrict a,
                                    const float* __restrict d, int64_t configs, int64_t width,
                                    float temperature, float* __restrict du,
                                    float* __restrict dots) {
  const float inverse = 1 / temperature;
  for (int64_t k = 0; k < width; ++k) dots[k] = 0;
  for (int64_t c = 0; c < configs; ++c) {
    for (int64_t k = 0; k < width; ++k) {
      dots[k] += a[c * width + k] * d[(2 * c + 1) * width + k] * u[c * width + k];
    }
  }
  float change = 0;
  for (int64_t c = 0; c < configs; ++c) {
    float row = 0;
    for (int64_t k = 0; k < width; ++k) {
      const float second = d[(2 * c + 1) * width + k], value = u[c * width + k];
      const float ds = a[c * width + k] * (second * value - dots[k]);
      du[c * width + k] = d[2 * c * width + k] + second * a[c * width + k] + ds * inverse;
      row += ds * value;
    }
    change += row;
  }
  return -change * inverse * inverse;
}

/// From du: dz = du * gate, dp = du * z * gate * (1 - gate), the logits' gradient.
LAGOM_CLONES void gate_backward(const float* __restrict du, const float* __restrict z,
                                const float* __restrict gate, int64_t count, float* __restrict dz,
                                float* __restrict dp) {
  for (int64_t i = 0; i < count; ++i) {
    dz[i] = du[i] * gate[i];
    dp[i] = du[i] * z[i] * gate[i] * (1 - gate[i]);
  }
}

LAGOM_CLONES void mask_where_zero(float* __restrict grad, const float* __restrict value,
                                  int64_t count) {
  for (int64_t i = 0; i < count; ++i) grad[i] = value[i] > 0 ? grad[i] : 0;
}

LAGOM_CLONES void concat_rows(const float* __restrict u, const float* __restrict a, int64_t rows,
                              int64_t width, float* __restrict out) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < width; ++k) {
      out[2 * r * width + k] = u[r * width + k];
      out[(2 * r + 1) * width + k] = u[r * width + k] * a[r * width + k];
    }
  }
}

/// What a tail's forward computes of a tile and its backward computes again.
struct TailTile {
  const float* z;        ///< [rows, K], normalised.
  const float* hidden;   ///< [rows, hidden] behind the ReLU; null without attention, as the gate.
  const float* gate;     ///< [rows, K]
  const float* u;        ///< [rows, K] = z * gate; only with cross-configuration attention.
  const float* softmax;  ///< [rows, K]; likewise.
};

struct TailDots {
  TailDots(const TailShape& shape, const TailWeights& w)
      : down(w.down, w.hidden, shape.width, shape.precision),
        up(w.up, shape.width, w.hidden, shape.precision) {}
  WeightDots down, up;
};

TailTile run_tail(const TailShape& shape, const TailWeights& w, const TailDots& dots,
                  const float* x, int64_t nodes, const ColumnNorm* norm) {
  const int64_t k = shape.width, rows = nodes * shape.configs;
  TailTile tile = {.z = normalized(x, nodes, shape.configs * k, norm, 0)};
  if (w.down != nullptr) {
    float* h = scratch(1, rows * w.hidden);
    dots.down.forward(tile.z, rows, h, /*adds=*/false);
    bias_relu(h, rows, w.hidden, w.down_bias);
    float* g = scratch(2, rows * k);
    dots.up.forward(h, rows, g, /*adds=*/false);
    bias_sigmoid(g, rows, k, w.up_bias);
    tile.hidden = h;
    tile.gate = g;
  }
  if (shape.has_cross) {
    const float* u = tile.z;
    if (tile.gate != nullptr) {
      float* product = scratch(3, rows * k);
      multiply_into(tile.z, tile.gate, rows * k, product);
      u = product;
    }
    float* a = scratch(4, rows * k);
    float* columns = scratch(5, 2 * k);
    for (int64_t n = 0; n < nodes; ++n) {
      softmax_over_configs(u + n * shape.configs * k, shape.configs, k, shape.temperature,
                           a + n * shape.configs * k, columns, columns + k);
    }
    tile.u = u;
    tile.softmax = a;
  }
  return tile;
}

}  // namespace

void dropout_factors(const HashDropout& dropout, int64_t count, float* out) {
  const Dropout d = prepared(dropout);
  for (int64_t i = 0; i < count; ++i) {
    out[i] = d.scale * hash_keeps(static_cast<uint32_t>(i), d.seed, d.threshold);
  }
}

void block_tail_forward(const TailShape& shape, const TailWeights& weights, const float* x,
                        const ColumnNorm* norm, const float* residual, float* out) {
  const TailDots dots(shape, weights);
  const Dropout dropout = prepared(shape.dropout);
  const int64_t c = shape.configs, k = shape.width, out_row = c * shape.out_width();
  for_each_tile(shape.nodes, c, [&](int64_t, int64_t first, int64_t nodes) {
    const TailTile tile = run_tail(shape, weights, dots, x + first * c * k, nodes, norm);
    const float* u = tile.z;
    const float* gate = tile.gate;
    if (shape.has_cross) {
      float* both = scratch(6, nodes * out_row);
      concat_rows(tile.u, tile.softmax, nodes * c, k, both);
      u = both;
      gate = nullptr;
    }
    for (int64_t n = 0; n < nodes; ++n) {
      const int64_t in_tile = n * out_row, place = (first + n) * out_row;
      activate_rows(u + in_tile, gate == nullptr ? nullptr : gate + in_tile,
                    residual == nullptr ? nullptr : residual + place, out_row,
                    static_cast<uint32_t>(place), dropout, out + place);
    }
  });
}

TailGradients block_tail_backward(const TailShape& shape, const TailWeights& weights,
                                  const float* x, const ColumnNorm* norm, const float* residual,
                                  const float* grad, int64_t grad_stride, float* grad_x,
                                  float* grad_residual) {
  const TailDots dots(shape, weights);
  const Dropout dropout = prepared(shape.dropout);
  const int64_t c = shape.configs, k = shape.width, out_row = c * shape.out_width();
  const auto hidden = static_cast<size_t>(weights.hidden), width = static_cast<size_t>(k);
  std::vector<TailGradients> parts(static_cast<size_t>(num_parts(shape.nodes, c)));
  if (weights.down != nullptr) {
    for (TailGradients& part : parts) {
      part.down.assign(hidden * width, 0);
      part.up.assign(hidden * width, 0);
      part.down_bias.assign(hidden, 0);
      part.up_bias.assign(width, 0);
    }
  }
  for_each_tile(shape.nodes, c, [&](int64_t number, int64_t first, int64_t nodes) {
    TailGradients& part = parts[static_cast<size_t>(number)];
    const int64_t rows = nodes * c;
    const TailTile tile = run_tail(shape, weights, dots, x + first * c * k, nodes, norm);
    const float* u = tile.z;
    const float* gate = tile.gate;
    if (shape.has_cross) {
      float* both = scratch(6, nodes * out_row);
      concat_rows(tile.u, tile.softmax, rows, k, both);
      u = both;
      gate = nullptr;
    }
    float* d =
        grad_residual != nullptr ? grad_residual + first * out_row : scratch(7, nodes * out_row);
    for (int64_t n = 0; n < nodes; ++n) {
      const int64_t at = n * out_row;
      activate_rows_backward(u + at, gate == nullptr ? nullptr : gate + at,
                             residual == nullptr ? nullptr : residual + first * out_row + at,
                             grad + (first + n) * grad_stride, out_row,
                             static_cast<uint32_t>((first + n) * out_row), dropout, d + at);
    }
    const float* du = d;
    if (shape.has_cross) {
      float* to = scratch(8, rows * k);
      float* columns = scratch(5, 2 * k);
      for (int64_t n = 0; n < nodes; ++n) {
        const int64_t at = n * c * k;
        part.temperature += softmax_backward(tile.u + at, tile.softmax + at, d + n * out_row, c, k,
                                             shape.temperature, to + at, columns);
      }
      du = to;
    }
    float* dz = grad_x + first * c * k;
    if (weights.down == nullptr) {
      std::copy_n(du, rows * k, dz);
      return;
    }
    float* dp = scratch(9, rows * k);
    gate_backward(du, tile.z, tile.gate, rows * k, dz, dp);
    add_column_sums(dp, rows, k, part.up_bias.data());
    dots.up.weight_gradient(dp, tile.hidden, rows, part.up.data());
    float* dh = scratch(3, rows * std::max(k, weights.hidden));  // u is not needed any more
    dots.up.input_gradient(dp, rows, dh, /*adds=*/false);
    mask_where_zero(dh, tile.hidden, rows * weights.hidden);
    add_column_sums(dh, rows, weights.hidden, part.down_bias.data());
    dots.down.weight_gradient(dh, tile.z, rows, part.down.data());
    dots.down.input_gradient(dh, rows, dz, /*adds=*/true);
  });
  if (norm != nullptr) normalize_backward(x, shape.nodes, c * k, *norm, grad_x);
  TailGradients sum;
  for (const TailGradients& part : parts) {
    add_to(sum.down, part.down);
    add_to(sum.down_bias, part.down_bias);
    add_to(sum.up, part.up);
    add_to(sum.up_bias, part.up_bias);
    sum.temperature += part.temperature;
  }
  return sum;
}

}  // namespace lagom::cost_model

#pragma once

// Element-wise chains of the model as single passes over memory: plain loops over float32 arrays,
// one thread each; callers split the rows. Row-major; a `row` has `width` elements. Where a
// function also takes uint16_t, those are the bits of bfloat16 numbers; sums are float32 either
// way.

#include <cstdint>

namespace lagom::lm::kernels {

/// y = x / sqrt(mean(x^2) + epsilon) * weight, per row; inverse_rms [rows] is kept for the
/// gradient.
void rms_norm(const float* x, const float* weight, int64_t rows, int64_t width, float epsilon,
              float* y, float* inverse_rms);
void rms_norm(const float* x, const float* weight, int64_t rows, int64_t width, float epsilon,
              uint16_t* y, float* inverse_rms);

/// Gradient of rms_norm: grad_x = (set, not added) and grad_weight += (summed over the rows).
void rms_norm_gradient(const float* grad_y, const float* x, const float* weight,
                       const float* inverse_rms, int64_t rows, int64_t width, float* grad_x,
                       float* grad_weight);
void rms_norm_gradient(const uint16_t* grad_y, const float* x, const float* weight,
                       const float* inverse_rms, int64_t rows, int64_t width, float* grad_x,
                       float* grad_weight);

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, per row.
void layer_norm(const float* x, const float* weight, const float* bias, int64_t rows, int64_t width,
                float epsilon, float* y);

/// y = gelu(x), the tanh form: x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)).
void gelu(const float* x, int64_t count, float* y);
void gelu(const uint16_t* x, int64_t count, uint16_t* y);
void gelu_gradient(const float* grad_y, const float* x, int64_t count, float* grad_x);
void gelu_gradient(const uint16_t* grad_y, const uint16_t* x, int64_t count, uint16_t* grad_x);

/// gate_up [rows, 2 width] holds gate | up; y [rows, width] = silu(gate) * up.
void swiglu(const float* gate_up, int64_t rows, int64_t width, float* y);
void swiglu(const uint16_t* gate_up, int64_t rows, int64_t width, uint16_t* y);
void swiglu_gradient(const float* grad_y, const float* gate_up, int64_t rows, int64_t width,
                     float* grad_gate_up);
void swiglu_gradient(const uint16_t* grad_y, const uint16_t* gate_up, int64_t rows, int64_t width,
                     uint16_t* grad_gate_up);

/// Rotates heads in place: a row holds `row_width` values, of which the first heads * head_dim are
/// heads; element i and i + head_dim / 2 of a head turn by position * theta^(-2 i / head_dim).
/// cosines, sines [positions, head_dim / 2]; row_positions [rows]. `inverse` turns back.
void rotate(float* x, const int64_t* row_positions, const float* cosines, const float* sines,
            int64_t rows, int64_t row_width, int64_t heads, int64_t head_dim, bool inverse);
void rotate(uint16_t* x, const int64_t* row_positions, const float* cosines, const float* sines,
            int64_t rows, int64_t row_width, int64_t heads, int64_t head_dim, bool inverse);

/// Rows of attention scores become probabilities: row r of `rows` sees columns [first[r], begin +
/// r] and has `columns` of them; what it does not see becomes 0. Scores are multiplied with
/// `scale`. A null `first` is 0.
void causal_softmax(float* scores, int64_t rows, int64_t columns, int64_t begin,
                    const int64_t* first, float scale);
/// Gradients of probabilities become those of the scores: p * (g - sum(p * g)) * scale.
void softmax_gradient(const float* probabilities, int64_t rows, int64_t columns, float scale,
                      float* gradients);

/// Both for one row of bfloat16 scores: it sees columns [first, seen) of at most
/// kLongestKeptRow; those up to `columns` become 0.
inline constexpr int64_t kLongestKeptRow = 1024;
void causal_softmax(uint16_t* scores, int64_t seen, int64_t columns, int64_t first, float scale);
void softmax_gradient(const uint16_t* probabilities, int64_t columns, float scale,
                      uint16_t* gradients);

/// Cross-entropy of one row of logits in nats, which become its gradient times `scale`:
/// (softmax - one_hot(target)) * scale.
float cross_entropy_in_place(float* logits, int64_t width, int64_t target, float scale);

/// out[indices[i], :] += scale[i] * update[i, :]
void add_rows(const float* update, const float* scale, const int64_t* indices, int64_t count,
              int64_t width, float* out);
/// The gradients of add_rows: grad_update[i, :] = scale[i] * grad_out[indices[i], :] and
/// grad_scale[i] = grad_out[indices[i], :] . update[i, :].
void add_rows_gradient(const float* grad_out, const float* update, const float* scale,
                       const int64_t* indices, int64_t count, int64_t width, float* grad_update,
                       float* grad_scale);

}  // namespace lagom::lm::kernels

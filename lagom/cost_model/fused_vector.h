#pragma once

#include <cstdint>

/// The element-wise loops of fused_tail.cpp for CPUs with AVX-512, several times faster than what
/// compilers make of fused_math.h: no division, steps of exp that wait less for one another. The
/// caller asks `has_vector_kernels()` first.
namespace lagom::cost_model::detail {

bool has_vector_kernels();

/// g [rows, width] = sigmoid(g + bias)
void vector_bias_sigmoid(float* g, int64_t rows, int64_t width, const float* bias);

/// out = gelu(z * gate + residual); gate and residual may be null.
void vector_gelu(const float* z, const float* gate, const float* residual, int64_t count,
                 float* out);
/// d = grad * gelu'(z * gate + residual)
void vector_gelu_backward(const float* z, const float* gate, const float* residual,
                          const float* grad, int64_t count, float* d);

/// a = exp(scale u - largest), added to `sum`; all [width].
void vector_exp_row(const float* u, float scale, const float* largest, int64_t width, float* a,
                    float* sum);

}  // namespace lagom::cost_model::detail

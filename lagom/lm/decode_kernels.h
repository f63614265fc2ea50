#pragma once

// Products for decoding: few tokens, every weight read once. Plain loops on one thread; callers
// split the output rows.

#include <cstdint>
#include <span>
#include <string_view>

namespace lagom::lm {

/// How a decoder keeps its matrices.
enum class WeightFormat {
  kFloat32,
  kBfloat16,  ///< Rounded to nearest even.
  kInt8       ///< A scale per output row: the largest magnitude is 127.
};
std::span<const std::string_view> option_names(WeightFormat);

namespace kernels {

/// y[t, o] = weight[o, :] . x[t, :] + bias[o] for o in [begin, end); bias may be null.
/// x: [count, in]; y: [count, out], rows `out` apart; weights row-major, rows `in` apart.
void multiply_f32(const float* weight, const float* bias, const float* x, int64_t count, int64_t in,
                  int64_t out, int64_t begin, int64_t end, float* y);
void multiply_bf16(const uint16_t* weight, const float* bias, const float* x, int64_t count,
                   int64_t in, int64_t out, int64_t begin, int64_t end, float* y);
void multiply_i8(const int8_t* weight, const float* scales, const float* bias, const float* x,
                 int64_t count, int64_t in, int64_t out, int64_t begin, int64_t end, float* y);

/// One query head against its cache: softmax(q . keys / sqrt(head_dim)) values.
/// keys, values: `length` rows `stride` apart, beginning at the head's first column;
/// scratch: `length` floats.
void attend(const float* query, const float* keys, const float* values, int64_t length,
            int64_t stride, int64_t head_dim, float* scratch, float* out);

float dot(const float* a, const float* b, int64_t count);
/// out[i] += a[i]
void add(const float* a, int64_t count, float* out);
/// out[i] += scale * (a[i] + b[i])
void add_scaled_sum(const float* a, const float* b, float scale, int64_t count, float* out);

}  // namespace kernels
}  // namespace lagom::lm

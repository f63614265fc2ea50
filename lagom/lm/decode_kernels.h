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

/// How many weights share a word of 32 bits.
constexpr int64_t values_per_word(WeightFormat format) {
  return format == WeightFormat::kInt8 ? 4 : format == WeightFormat::kBfloat16 ? 2 : 1;
}

namespace kernels {

/// y[t, o] = weight[o, :] . x[t, :] + bias[o] for o in [begin, end); bias may be null.
/// x: [count, in]; y: [count, out], rows `out` apart; weights row-major, rows `in` apart.
void multiply_f32(const float* weight, const float* bias, const float* x, int64_t count, int64_t in,
                  int64_t out, int64_t begin, int64_t end, float* y);

// bfloat16 and int8 weights are packed so that a product reads them from end to end: by groups of
// 32 rows, and in a group by columns, as many at once as share a word. Word 32 s + r of a group
// holds, lowest first, columns n s, n s + 1, ... of its row r, n being values_per_word. Rows and
// columns beyond the matrix are 0.

inline constexpr int64_t kGroupRows = 32;
constexpr int64_t num_groups(int64_t out) {
  return (out + kGroupRows - 1) / kGroupRows;
}
constexpr int64_t words_per_group(WeightFormat format, int64_t in) {
  return (in + values_per_word(format) - 1) / values_per_word(format) * kGroupRows;
}

/// Packs the groups [begin, end) of weight [out, in] into `words`, where all groups have a place.
/// bfloat16: rounded to nearest even; int8: halves away from zero, scales [out].
void pack_bf16(const float* weight, int64_t in, int64_t out, int64_t begin, int64_t end,
               uint32_t* words);
void pack_i8(const float* weight, int64_t in, int64_t out, int64_t begin, int64_t end,
             uint32_t* words, float* scales);

/// As multiply_f32, for the rows of the groups [begin, end). Where the machine has AVX512-VNNI,
/// int8 products round each token to multiples of its peak / min(32767, 2^31 / (127 in)): at most
/// 2^-16 of the peak up to in = 516, 2^-13.4 at 3072.
void multiply_bf16(const uint32_t* words, const float* bias, const float* x, int64_t count,
                   int64_t in, int64_t out, int64_t begin, int64_t end, float* y);
void multiply_i8(const uint32_t* words, const float* scales, const float* bias, const float* x,
                 int64_t count, int64_t in, int64_t out, int64_t begin, int64_t end, float* y);

// Prompts are long enough for arithmetic to be what counts: AVX512_BF16 multiplies packed bfloat16
// weights as they are with tokens rounded to bfloat16, sums in float32, at twice the rate.

/// Whether this machine can; multiply_rounded does nothing where it cannot.
bool has_rounded_products();
/// Words from one rounded token to the next: some more than it has, so that tokens of a power of
/// two do not fall on one set of the cache.
constexpr int64_t rounded_stride(int64_t in) {
  return (in + 31) / 32 * 16 + 16;
}
/// Rounds x [count, in], rows x_stride apart, to nearest even: words [count, rounded_stride(in)] of
/// two columns each.
void round_tokens(const float* x, int64_t x_stride, int64_t count, int64_t in, uint32_t* words);
/// Packs rounded tokens as the rows of a weight [count, in], as pack_bf16 does.
void pack_rounded(const uint32_t* rounded, int64_t count, int64_t in, uint32_t* words);
/// Packs the columns of x [count, width], rows x_stride apart, as the rows of a weight
/// [width, count].
void pack_columns(const float* x, int64_t x_stride, int64_t count, int64_t width, uint32_t* words);

/// y[t, o] = weight[o, :] . x[t, :] + bias[o]
struct RoundedProduct {
  const uint32_t* words = nullptr;  ///< A packed weight, its groups `group_words` apart.
  int64_t group_words = 0;
  const float* bias = nullptr;  ///< May be null.
  const uint32_t* x = nullptr;  ///< Rounded tokens, `x_stride` words apart.
  int64_t x_stride = 0;
  int64_t count = 0, in = 0, out = 0;  ///< `in` may be less than the weight was packed with.
  float* y = nullptr;                  ///< Rows `y_stride` apart.
  int64_t y_stride = 0;
};
/// The rows of the groups [begin, end).
void multiply_rounded(const RoundedProduct& p, int64_t begin, int64_t end);

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

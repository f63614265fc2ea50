#include "lagom/lm/decode_kernels.h"

#include <algorithm>
#include <cmath>

#include "lagom/lm/simd.h"

namespace lagom::lm::kernels {
namespace {

using simd::Floats;
using simd::kWidth;

// One loader per weight format: whole vectors, and a part at the row's end.
struct F32 {
  using Element = float;
  static LAGOM_INLINE Floats load(const float* p) { return simd::load(p); }
  static LAGOM_INLINE Floats load_part(const float* p, int64_t n) { return simd::load_part(p, n); }
};

struct Bf16 {
  using Element = uint16_t;
  static LAGOM_INLINE Floats load(const uint16_t* p) { return simd::load(p); }
  static LAGOM_INLINE Floats load_part(const uint16_t* p, int64_t n) {
    return simd::load_part(p, n);
  }
};

struct I8 {
  using Element = int8_t;
  static LAGOM_INLINE Floats load(const int8_t* p) {
    simd::Bytes bytes;
    std::memcpy(&bytes, p, sizeof bytes);
    return __builtin_convertvector(bytes, Floats);
  }
  static LAGOM_INLINE Floats load_part(const int8_t* p, int64_t n) {
    simd::Bytes bytes{};
    std::memcpy(&bytes, p, static_cast<size_t>(n));
    return __builtin_convertvector(bytes, Floats);
  }
};

/// kRows weight rows with kTokens tokens: the sums stay in registers.
template <typename Format, int kRows, int kTokens>
LAGOM_INLINE void tile(const typename Format::Element* weight, const float* scales,
                       const float* bias, const float* x, int64_t in, int64_t out, int64_t row,
                       float* y) {
  Floats sums[kRows][kTokens] = {};
  int64_t i = 0;
  for (; i + kWidth <= in; i += kWidth) {
    Floats w[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) w[r] = Format::load(weight + r * in + i);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const Floats v = simd::load(x + t * in + i);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums[r][t] += w[r] * v;
    }
  }
  if (i < in) {
    for (int r = 0; r < kRows; ++r) {
      const Floats w = Format::load_part(weight + r * in + i, in - i);
      for (int t = 0; t < kTokens; ++t) sums[r][t] += w * simd::load_part(x + t * in + i, in - i);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const float scale = scales ? scales[row + r] : 1.0F;
    const float shift = bias ? bias[row + r] : 0.0F;
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      y[t * out + row + r] = simd::sum(sums[r][t]) * scale + shift;
    }
  }
}

template <typename Format, int kTokens>
LAGOM_INLINE void rows_of(const typename Format::Element* weight, const float* scales,
                          const float* bias, const float* x, int64_t in, int64_t out, int64_t begin,
                          int64_t end, float* y) {
  constexpr int kRows = 4;
  int64_t row = begin;
  for (; row + kRows <= end; row += kRows) {
    tile<Format, kRows, kTokens>(weight + row * in, scales, bias, x, in, out, row, y);
  }
  for (; row < end; ++row) {
    tile<Format, 1, kTokens>(weight + row * in, scales, bias, x, in, out, row, y);
  }
}

/// Weight rows in blocks that stay in the first-level cache while all tokens pass over them.
template <typename Format>
LAGOM_INLINE void multiply(const typename Format::Element* weight, const float* scales,
                           const float* bias, const float* x, int64_t count, int64_t in,
                           int64_t out, int64_t begin, int64_t end, float* y) {
  constexpr int64_t kBlockBytes = 16384;
  const int64_t row_bytes = in * static_cast<int64_t>(sizeof(typename Format::Element));
  const int64_t block =
      count <= 4 ? end - begin : std::max<int64_t>(4, kBlockBytes / row_bytes / 4 * 4);
  for (int64_t row = begin; row < end; row += block) {
    const int64_t stop = std::min(end, row + block);
    int64_t t = 0;
    for (; t + 4 <= count; t += 4) {
      rows_of<Format, 4>(weight, scales, bias, x + t * in, in, out, row, stop, y + t * out);
    }
    for (; t + 2 <= count; t += 2) {
      rows_of<Format, 2>(weight, scales, bias, x + t * in, in, out, row, stop, y + t * out);
    }
    for (; t < count; ++t) {
      rows_of<Format, 1>(weight, scales, bias, x + t * in, in, out, row, stop, y + t * out);
    }
  }
}

}  // namespace

LAGOM_CLONES
void multiply_f32(const float* weight, const float* bias, const float* x, int64_t count, int64_t in,
                  int64_t out, int64_t begin, int64_t end, float* y) {
  multiply<F32>(weight, nullptr, bias, x, count, in, out, begin, end, y);
}

LAGOM_CLONES
void multiply_bf16(const uint16_t* weight, const float* bias, const float* x, int64_t count,
                   int64_t in, int64_t out, int64_t begin, int64_t end, float* y) {
  multiply<Bf16>(weight, nullptr, bias, x, count, in, out, begin, end, y);
}

LAGOM_CLONES
void multiply_i8(const int8_t* weight, const float* scales, const float* bias, const float* x,
                 int64_t count, int64_t in, int64_t out, int64_t begin, int64_t end, float* y) {
  multiply<I8>(weight, scales, bias, x, count, in, out, begin, end, y);
}

LAGOM_CLONES
float dot(const float* a, const float* b, int64_t count) {
  Floats total{};
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) total += simd::load(a + i) * simd::load(b + i);
  if (i < count) total += simd::load_part(a + i, count - i) * simd::load_part(b + i, count - i);
  return simd::sum(total);
}

LAGOM_CLONES
void attend(const float* query, const float* keys, const float* values, int64_t length,
            int64_t stride, int64_t head_dim, float* scratch, float* out) {
  const float scale = 1 / std::sqrt(static_cast<float>(head_dim));
  float peak = -INFINITY;
  for (int64_t j = 0; j < length; ++j) {
    const float* key = keys + j * stride;
    Floats total{};
    int64_t i = 0;
    for (; i + kWidth <= head_dim; i += kWidth)
      total += simd::load(query + i) * simd::load(key + i);
    if (i < head_dim) {
      total += simd::load_part(query + i, head_dim - i) * simd::load_part(key + i, head_dim - i);
    }
    scratch[j] = simd::sum(total) * scale;
    peak = std::max(peak, scratch[j]);
  }
  Floats sums{};
  int64_t j = 0;
  for (; j < length; j += kWidth) {
    const int64_t n = std::min(kWidth, length - j);
    const Floats e = simd::exp(simd::load_part(scratch + j, n) - peak);
    simd::store_part(scratch + j, e, n);
    sums += simd::load_part(scratch + j, n);
  }
  const float inverse = 1 / simd::sum(sums);
  std::fill_n(out, head_dim, 0.0F);
  for (j = 0; j < length; ++j) {
    const float* value = values + j * stride;
    const float weight = scratch[j] * inverse;
    int64_t i = 0;
    for (; i + kWidth <= head_dim; i += kWidth) {
      simd::store(out + i, simd::load(out + i) + weight * simd::load(value + i));
    }
    for (; i < head_dim; ++i) out[i] += weight * value[i];
  }
}

LAGOM_CLONES
void add(const float* a, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] += a[i];
}

LAGOM_CLONES
void add_scaled_sum(const float* a, const float* b, float scale, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] += scale * (a[i] + b[i]);
}

}  // namespace lagom::lm::kernels

#include "lagom/lm/decode_kernels.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lagom/lm/simd.h"

namespace lagom::lm::kernels {
namespace {

using simd::Floats;
using simd::kWidth;

// Weights come 64 bytes at a time, as words of 32 bits that hold one float or, side by side, two
// bfloat16 or four int8: part p of each word together makes 16 floats. The values they meet are put
// into that order beforehand (`pack`), so that no weight is moved between lanes.

struct F32 {
  using Element = float;
  using Raw = Floats;
  static constexpr int kParts = 1;
  static LAGOM_INLINE Floats part(Raw raw, int) { return raw; }
  static LAGOM_INLINE float value(float weight) { return weight; }
};

struct Bf16 {
  using Element = uint16_t;
  using Raw = simd::Words;
  static constexpr int kParts = 2;
  static LAGOM_INLINE Floats part(Raw raw, int p) {
    return reinterpret_cast<Floats>(p == 0 ? raw << 16 : raw & 0xFFFF0000U);
  }
  static LAGOM_INLINE float value(uint16_t weight) {
    const uint32_t bits = static_cast<uint32_t>(weight) << 16;
    float result;
    std::memcpy(&result, &bits, sizeof result);
    return result;
  }
};

struct I8 {
  using Element = int8_t;
  using Raw = simd::Ints;
  static constexpr int kParts = 4;
  static LAGOM_INLINE Floats part(Raw raw, int p) {
    return __builtin_convertvector(raw << (24 - 8 * p) >> 24, Floats);
  }
  static LAGOM_INLINE float value(int8_t weight) { return weight; }
};

/// x with each step's values in the order of Format's parts; what is left over stays in place.
template <typename Format>
LAGOM_INLINE const float* pack(const float* x, int64_t count, int64_t in,
                               std::vector<float>& packed) {
  constexpr int64_t kStep = kWidth * Format::kParts;
  if (Format::kParts == 1) return x;
  packed.assign(x, x + count * in);
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t i = 0; i + kStep <= in; i += kStep) {
      for (int64_t k = 0; k < kStep; ++k) {
        packed[static_cast<size_t>(t * in + i + k % Format::kParts * kWidth + k / Format::kParts)] =
            x[t * in + i + k];
      }
    }
  }
  return packed.data();
}

/// kRows weight rows with kTokens tokens: the sums stay in registers.
template <typename Format, int kRows, int kTokens>
LAGOM_INLINE void tile(const typename Format::Element* weight, const float* scales,
                       const float* bias, const float* x, int64_t in, int64_t out, int64_t row,
                       float* y) {
  constexpr int64_t kStep = kWidth * Format::kParts;
  Floats sums[kRows][kTokens] = {};
  int64_t i = 0;
  for (; i + kStep <= in; i += kStep) {
    typename Format::Raw raw[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) std::memcpy(&raw[r], weight + r * in + i, sizeof raw[r]);
#pragma GCC unroll 4
    for (int p = 0; p < Format::kParts; ++p) {
      Floats w[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) w[r] = Format::part(raw[r], p);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        const Floats v = simd::load(x + t * in + i + p * kWidth);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) sums[r][t] += w[r] * v;
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const float scale = scales ? scales[row + r] : 1.0F;
    const float shift = bias ? bias[row + r] : 0.0F;
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      float total = simd::sum(sums[r][t]);
      for (int64_t k = i; k < in; ++k) total += Format::value(weight[r * in + k]) * x[t * in + k];
      y[t * out + row + r] = total * scale + shift;
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
  thread_local std::vector<float> packed;
  x = pack<Format>(x, count, in, packed);
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

#include "lagom/lm/decode_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <vector>

#include "lagom/lm/simd.h"
#include "lagom/util/bfloat16.h"

namespace lagom::lm::kernels {
namespace {

using simd::Floats;
using simd::kWidth;

constexpr int64_t kBf16Parts = values_per_word(WeightFormat::kBfloat16);
constexpr int64_t kI8Parts = values_per_word(WeightFormat::kInt8);

/// The arguments of a product.
struct Product {
  WeightFormat format;
  const void* weight;
  const float *scales, *bias, *x;
  int64_t count, in, out, begin, end;
  float* y;
};

// What is read must come in one stream: with four rows of 1.5 KB read side by side, the prefetcher
// of a Zen 4 core reached 12 GB/s of 32. Products know how wide registers are (vectors that take
// several are kept in memory, and cost a tenfold): as many tokens at once as their sums fit.

template <int kBytes>
struct Vectors {
  static constexpr int64_t kLanes = kBytes / 4;
  typedef float Floats __attribute__((vector_size(kBytes)));
  typedef uint32_t Words __attribute__((vector_size(kBytes)));
  typedef int32_t Ints __attribute__((vector_size(kBytes)));

  template <typename Vector>
  static LAGOM_INLINE Vector load(const void* p) {
    Vector v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static LAGOM_INLINE float sum(Floats v) {
    if constexpr (kBytes == 16) {
      float lanes[4];
      std::memcpy(lanes, &v, sizeof v);
      return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
    } else {
      typename Vectors<kBytes / 2>::Floats halves[2];
      std::memcpy(halves, &v, sizeof v);
      return Vectors<kBytes / 2>::sum(halves[0] + halves[1]);
    }
  }
};

template <int kBytes>
struct Bf16 {
  using Weights = Vectors<kBytes>;
  static constexpr int64_t kParts = kBf16Parts;
  static LAGOM_INLINE typename Weights::Floats part(typename Weights::Words raw, int p) {
    return reinterpret_cast<typename Weights::Floats>(p == 0 ? raw << 16 : raw & 0xFFFF0000U);
  }
};

template <int kBytes>
struct I8 {
  using Weights = Vectors<kBytes>;
  static constexpr int64_t kParts = kI8Parts;
  static LAGOM_INLINE typename Weights::Floats part(typename Weights::Words raw, int p) {
    using Ints = typename Weights::Ints;
    return __builtin_convertvector(reinterpret_cast<Ints>(raw << (24 - 8 * p)) >> 24,
                                   typename Weights::Floats);
  }
};

/// y = totals * scales + bias for `count` tokens from `first` on.
LAGOM_INLINE void store_group(const Product& p, int64_t group, int64_t first,
                              const float (*totals)[kGroupRows], int64_t count) {
  const int64_t row = group * kGroupRows, rows = std::min(kGroupRows, p.out - row);
#pragma GCC unroll 1
  for (int64_t t = 0; t < count; ++t) {
    float* y = p.y + (first + t) * p.out + row;
    for (int64_t r = 0; r < rows; ++r) {
      y[r] = totals[t][r] * (p.scales ? p.scales[row + r] : 1) + (p.bias ? p.bias[row + r] : 0);
    }
  }
}

/// A group of packed rows with kTokens tokens, from token `first` on: a row in each lane.
template <typename Format, int kTokens>
LAGOM_INLINE void packed_group(const Product& p, int64_t group, int64_t first) {
  using Weights = typename Format::Weights;
  using Floats = typename Weights::Floats;
  constexpr int kVectors = kGroupRows / Weights::kLanes;
  const int64_t steps = (p.in + Format::kParts - 1) / Format::kParts;
  const int64_t stride = steps * Format::kParts;
  const auto* words = static_cast<const uint32_t*>(p.weight) + group * steps * kGroupRows;
  const float* x = p.x + first * stride;
  Floats sums[kVectors][kTokens] = {};
  for (int64_t step = 0; step < steps; ++step, words += kGroupRows, x += Format::kParts) {
    typename Weights::Words raw[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      raw[v] = Weights::template load<typename Weights::Words>(words + v * Weights::kLanes);
    }
#pragma GCC unroll 4
    for (int part = 0; part < Format::kParts; ++part) {
      Floats w[kVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) w[v] = Format::part(raw[v], part);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        const float value = x[t * stride + part];
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) sums[v][t] += w[v] * value;
      }
    }
  }
  float totals[kTokens][kGroupRows];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      std::memcpy(totals[t] + v * Weights::kLanes, &sums[v][t], sizeof sums[v][t]);
    }
  }
  store_group(p, group, first, totals, kTokens);
}

template <typename Format>
LAGOM_INLINE void multiply_packed(Product p) {
  constexpr int64_t kLanes = Format::Weights::kLanes;
  const int64_t stride = (p.in + Format::kParts - 1) / Format::kParts * Format::kParts;
  thread_local std::vector<float> padded;
  if (stride != p.in) {
    padded.assign(static_cast<size_t>(p.count * stride), 0.0F);
    for (int64_t t = 0; t < p.count; ++t) {
      std::copy_n(p.x + t * p.in, p.in, padded.data() + t * stride);
    }
    p.x = padded.data();
  }
  for (int64_t group = p.begin; group < p.end; ++group) {
    int64_t t = 0;
    if constexpr (kLanes == 16) {  // 32 registers
      for (; t + 8 <= p.count; t += 8) packed_group<Format, 8>(p, group, t);
      for (; t + 4 <= p.count; t += 4) packed_group<Format, 4>(p, group, t);
    }
    if constexpr (kLanes >= 8) {
      for (; t + 2 <= p.count; t += 2) packed_group<Format, 2>(p, group, t);
    }
    for (; t < p.count; ++t) packed_group<Format, 1>(p, group, t);
  }
}

/// One float32 row with one token.
template <int kBytes>
LAGOM_INLINE float row_product(const float* weight, const float* x, int64_t in) {
  using V = Vectors<kBytes>;
  using Floats = typename V::Floats;
  constexpr int kSums = 4;
  Floats sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums * V::kLanes <= in; i += kSums * V::kLanes) {
#pragma GCC unroll 4
    for (int k = 0; k < kSums; ++k) {
      sums[k] += V::template load<Floats>(weight + i + k * V::kLanes) *
                 V::template load<Floats>(x + i + k * V::kLanes);
    }
  }
  float total = V::sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; i < in; ++i) total += weight[i] * x[i];
  return total;
}

/// Four float32 rows with kTokens tokens, while the cache is told, in order, of the rows after
/// them.
template <int kBytes, int kTokens>
LAGOM_INLINE void four_rows(const Product& p, int64_t row, int64_t first) {
  using V = Vectors<kBytes>;
  using Floats = typename V::Floats;
  constexpr int kRows = 4;
  const float* weight = static_cast<const float*>(p.weight) + row * p.in;
  const float* ahead = weight + kRows * p.in;
  const float* x = p.x + first * p.in;
  Floats sums[kRows][kTokens] = {};
  int64_t i = 0;
  for (; i + V::kLanes <= p.in; i += V::kLanes, ahead += kRows * V::kLanes) {
#pragma GCC unroll 4
    for (int line = 0; line < kRows * kBytes / 64; ++line) {
      __builtin_prefetch(ahead + line * 16, /*write=*/0, /*locality=*/2);
    }
    Floats w[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) w[r] = V::template load<Floats>(weight + r * p.in + i);
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      const Floats v = V::template load<Floats>(x + t * p.in + i);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sums[r][t] += w[r] * v;
    }
  }
  float totals[kTokens][kRows];
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) totals[t][r] = V::sum(sums[r][t]);
  }
#pragma GCC unroll 1
  for (int t = 0; t < kTokens; ++t) {
    for (int r = 0; r < kRows; ++r) {
      float total = totals[t][r];
      for (int64_t k = i; k < p.in; ++k) total += weight[r * p.in + k] * x[t * p.in + k];
      p.y[(first + t) * p.out + row + r] = total + (p.bias ? p.bias[row + r] : 0);
    }
  }
}

template <int kBytes>
LAGOM_INLINE void multiply_rows(const Product& p) {
  int64_t row = p.begin;
  for (; p.count > 1 && row + 4 <= p.end; row += 4) {
    int64_t t = 0;
    if constexpr (kBytes == 64) {  // 32 registers
      for (; t + 4 <= p.count; t += 4) four_rows<kBytes, 4>(p, row, t);
    }
    for (; t + 2 <= p.count; t += 2) four_rows<kBytes, 2>(p, row, t);
    if (t < p.count) four_rows<kBytes, 1>(p, row, t);
  }
  for (; row < p.end; ++row) {
    const float* weight = static_cast<const float*>(p.weight) + row * p.in;
    for (int64_t t = 0; t < p.count; ++t) {
      p.y[t * p.out + row] =
          row_product<kBytes>(weight, p.x + t * p.in, p.in) + (p.bias ? p.bias[row] : 0);
    }
  }
}

template <int kBytes>
LAGOM_INLINE void multiply_with(const Product& p) {
  switch (p.format) {
    case WeightFormat::kFloat32:
      return multiply_rows<kBytes>(p);
    case WeightFormat::kBfloat16:
      return multiply_packed<Bf16<kBytes>>(p);
    case WeightFormat::kInt8:
      return multiply_packed<I8<kBytes>>(p);
  }
}

#ifdef LAGOM_HAS_CLONES
// With VNNI, int8 weights meet tokens of 16-bit integers: exact sums at twice the rate of floats.
#define LAGOM_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

/// Tokens as multiples of a scale each, the largest as far from 0 as sums over `in` weights allow;
/// of four neighbours the first and third come first, which meet the even bytes of a word.
struct Integers {
  std::vector<int16_t> values;  ///< [count, stride]
  std::vector<float> scales;    ///< NaN for a token with a value that is not finite.
};

LAGOM_VNNI void to_integers(const Product& p, int64_t stride, Integers& out) {
  const float largest = std::min(32767.0F, 2147483520.0F / static_cast<float>(127 * p.in));
  out.values.assign(static_cast<size_t>(p.count * stride), 0);
  out.scales.resize(static_cast<size_t>(p.count));
  for (int64_t t = 0; t < p.count; ++t) {
    const float* x = p.x + t * p.in;
    const auto load = [&](int64_t i) LAGOM_VNNI {
      const int64_t left = std::min<int64_t>(16, p.in - i);
      return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << left) - 1), x + i);
    };
    __m512 peaks = _mm512_setzero_ps(), total = peaks;
    for (int64_t i = 0; i < p.in; i += 16) {
      const __m512 size = _mm512_abs_ps(load(i));
      peaks = _mm512_max_ps(peaks, size);
      total = _mm512_add_ps(total, size);
    }
    const float peak = _mm512_reduce_max_ps(peaks);
    const bool is_finite = std::isfinite(_mm512_reduce_add_ps(total));
    out.scales[static_cast<size_t>(t)] = is_finite ? peak / largest : NAN;
    if (!is_finite || peak == 0) continue;
    const __m512 inverse = _mm512_set1_ps(largest / peak);
    int16_t* to = out.values.data() + t * stride;
    for (int64_t i = 0; i < p.in; i += 16) {
      __m256i v = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(_mm512_mul_ps(load(i), inverse)));
      v = _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(v, 0xD8), 0xD8);
      const int64_t left = std::min<int64_t>(16, stride - i);
      _mm256_mask_storeu_epi16(to + i, static_cast<__mmask16>((1U << left) - 1), v);
    }
  }
}

template <int kTokens>
LAGOM_VNNI void integer_group(const Product& p, const Integers& x, int64_t group, int64_t first) {
  const int64_t steps = (p.in + kI8Parts - 1) / kI8Parts, stride = steps * kI8Parts;
  const auto* words = static_cast<const uint32_t*>(p.weight) + group * steps * kGroupRows;
  const int16_t* values = x.values.data() + first * stride;
  __m512i sums[2][kTokens];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) sums[0][t] = sums[1][t] = _mm512_setzero_si512();
  for (int64_t step = 0; step < steps; ++step, words += kGroupRows, values += kI8Parts) {
    __m512i even[2], odd[2];
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      const __m512i raw = _mm512_loadu_si512(words + v * kWidth);
      even[v] = _mm512_srai_epi16(_mm512_slli_epi16(raw, 8), 8);
      odd[v] = _mm512_srai_epi16(raw, 8);
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      int32_t pairs[2];
      std::memcpy(pairs, values + t * stride, sizeof pairs);
      const __m512i a = _mm512_set1_epi32(pairs[0]), b = _mm512_set1_epi32(pairs[1]);
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        sums[v][t] = _mm512_dpwssd_epi32(_mm512_dpwssd_epi32(sums[v][t], even[v], a), odd[v], b);
      }
    }
  }
  float totals[kTokens][kGroupRows];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const __m512 scale = _mm512_set1_ps(x.scales[static_cast<size_t>(first + t)]);
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      _mm512_storeu_ps(totals[t] + v * kWidth,
                       _mm512_mul_ps(_mm512_cvtepi32_ps(sums[v][t]), scale));
    }
  }
  store_group(p, group, first, totals, kTokens);
}

void multiply_integers(const Product& p) {
  thread_local Integers x;
  to_integers(p, (p.in + kI8Parts - 1) / kI8Parts * kI8Parts, x);
  for (int64_t group = p.begin; group < p.end; ++group) {
    int64_t t = 0;
    for (; t + 8 <= p.count; t += 8) integer_group<8>(p, x, group, t);
    for (; t + 4 <= p.count; t += 4) integer_group<4>(p, x, group, t);
    for (; t + 2 <= p.count; t += 2) integer_group<2>(p, x, group, t);
    for (; t < p.count; ++t) integer_group<1>(p, x, group, t);
  }
}
#endif

#ifdef LAGOM_HAS_CLONES
__attribute__((target("arch=x86-64-v4"))) void multiply(const Product& p) {
  multiply_with<64>(p);
}
__attribute__((target("arch=x86-64-v3"))) void multiply(const Product& p) {
  multiply_with<32>(p);
}
__attribute__((target("default")))
#endif
void multiply(const Product& p) {
  multiply_with<16>(p);
}

/// Words of `parts` values of a row each, the rows of a group side by side; zeros beyond the
/// matrix. word(row, column): that of the values from `column` on.
template <typename Word>
LAGOM_INLINE void pack(int64_t in, int64_t out, int64_t parts, int64_t begin, int64_t end,
                       uint32_t* words, Word word) {
  const int64_t steps = (in + parts - 1) / parts;
  for (int64_t row = begin * kGroupRows; row < end * kGroupRows; ++row) {
    uint32_t* to = words + row / kGroupRows * steps * kGroupRows + row % kGroupRows;
    for (int64_t step = 0; step < steps; ++step) {
      to[step * kGroupRows] = row < out ? word(row, step * parts) : 0;
    }
  }
}

}  // namespace

LAGOM_CLONES
void pack_bf16(const float* weight, int64_t in, int64_t out, int64_t begin, int64_t end,
               uint32_t* words) {
  pack(in, out, kBf16Parts, begin, end, words, [&](int64_t row, int64_t column) {
    const uint32_t low = to_bfloat16(weight[row * in + column]);
    return column + 1 < in
               ? low | static_cast<uint32_t>(to_bfloat16(weight[row * in + column + 1])) << 16
               : low;
  });
}

LAGOM_CLONES
void pack_i8(const float* weight, int64_t in, int64_t out, int64_t begin, int64_t end,
             uint32_t* words, float* scales) {
  for (int64_t row = begin * kGroupRows; row < std::min(out, end * kGroupRows); ++row) {
    float peak = 0;
    for (int64_t i = 0; i < in; ++i) peak = std::max(peak, std::abs(weight[row * in + i]));
    scales[row] = peak > 0 ? peak / 127 : 1;
  }
  pack(in, out, kI8Parts, begin, end, words, [&](int64_t row, int64_t column) {
    uint32_t word = 0;
    for (int64_t p = 0; p < std::min(kI8Parts, in - column); ++p) {
      const float value = std::round(weight[row * in + column + p] / scales[row]);
      word |= static_cast<uint32_t>(static_cast<uint8_t>(static_cast<int8_t>(value))) << (8 * p);
    }
    return word;
  });
}

void multiply_f32(const float* weight, const float* bias, const float* x, int64_t count, int64_t in,
                  int64_t out, int64_t begin, int64_t end, float* y) {
  multiply({WeightFormat::kFloat32, weight, nullptr, bias, x, count, in, out, begin, end, y});
}

void multiply_bf16(const uint32_t* words, const float* bias, const float* x, int64_t count,
                   int64_t in, int64_t out, int64_t begin, int64_t end, float* y) {
  multiply({WeightFormat::kBfloat16, words, nullptr, bias, x, count, in, out, begin, end, y});
}

void multiply_i8(const uint32_t* words, const float* scales, const float* bias, const float* x,
                 int64_t count, int64_t in, int64_t out, int64_t begin, int64_t end, float* y) {
  const Product p = {WeightFormat::kInt8, words, scales, bias, x, count, in, out, begin, end, y};
#ifdef LAGOM_HAS_CLONES
  static const bool has_vnni = __builtin_cpu_supports("avx512vnni") &&
                               __builtin_cpu_supports("avx512bw") &&
                               __builtin_cpu_supports("avx512dq");
  if (has_vnni) return multiply_integers(p);
#endif
  multiply(p);
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

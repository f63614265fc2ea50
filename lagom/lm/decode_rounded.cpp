#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>

#include "lagom/lm/decode_kernels.h"
#include "lagom/lm/simd.h"
#include "lagom/util/bfloat16.h"

namespace lagom::lm::kernels {
namespace {

#ifdef LAGOM_HAS_CLONES
#define LAGOM_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

constexpr int64_t kTileTokens = 12;

/// A group of packed rows with kTokens tokens: each instruction adds two products to 16 sums, which
/// are all in registers.
template <int kTokens>
LAGOM_AVX512_BF16 void rounded_group(const RoundedProduct& p, int64_t group, int64_t first) {
  const int64_t steps = (p.in + 1) / 2, row = group * kGroupRows;
  const uint32_t* words = p.words + group * p.group_words;
  const uint32_t* x = p.x + first * p.x_stride;
  __m512 low[kTokens], high[kTokens];
#pragma GCC unroll 12
  for (int t = 0; t < kTokens; ++t) low[t] = high[t] = _mm512_setzero_ps();
  for (int64_t step = 0; step < steps; ++step, words += kGroupRows, ++x) {
    const auto a = reinterpret_cast<__m512bh>(_mm512_loadu_si512(words));
    const auto b = reinterpret_cast<__m512bh>(_mm512_loadu_si512(words + 16));
#pragma GCC unroll 12
    for (int t = 0; t < kTokens; ++t) {
      const auto pair =
          reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(x[t * p.x_stride])));
      low[t] = _mm512_dpbf16_ps(low[t], a, pair);
      high[t] = _mm512_dpbf16_ps(high[t], b, pair);
    }
  }
  const uint32_t rows = p.out - row < kGroupRows ? (1U << (p.out - row)) - 1 : 0xFFFFFFFFU;
  const auto low_rows = static_cast<__mmask16>(rows),
             high_rows = static_cast<__mmask16>(rows >> 16);
  __m512 bias[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  if (p.bias) {
    bias[0] = _mm512_maskz_loadu_ps(low_rows, p.bias + row);
    bias[1] = _mm512_maskz_loadu_ps(high_rows, p.bias + row + 16);
  }
  float* y = p.y + first * p.y_stride + row;
#pragma GCC unroll 12
  for (int t = 0; t < kTokens; ++t, y += p.y_stride) {
    _mm512_mask_storeu_ps(y, low_rows, _mm512_add_ps(low[t], bias[0]));
    _mm512_mask_storeu_ps(y + 16, high_rows, _mm512_add_ps(high[t], bias[1]));
  }
}
#endif

}  // namespace

bool has_rounded_products() {
#ifdef LAGOM_HAS_CLONES
  static const bool has = __builtin_cpu_supports("avx512bf16") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  return has;
#else
  return false;
#endif
}

LAGOM_CLONES
void round_tokens(const float* x, int64_t x_stride, int64_t count, int64_t in, uint32_t* words) {
  constexpr int64_t kWidth = simd::kWidth;
  for (int64_t t = 0; t < count; ++t, x += x_stride, words += rounded_stride(in)) {
    auto* to = reinterpret_cast<uint16_t*>(words);
    int64_t i = 0;
    for (; i + kWidth <= in; i += kWidth) simd::store(to + i, simd::load(x + i));
    if (i < in) simd::store(to + i, simd::load_part(x + i, in - i));
  }
}

LAGOM_CLONES
void pack_rounded(const uint32_t* rounded, int64_t count, int64_t in, uint32_t* words) {
  const int64_t stride = rounded_stride(in), steps = (in + 1) / 2;
  for (int64_t row = 0; row < num_groups(count) * kGroupRows; ++row) {
    const uint32_t* from = rounded + row * stride;
    uint32_t* to = words + row / kGroupRows * steps * kGroupRows + row % kGroupRows;
    for (int64_t step = 0; step < steps; ++step) {
      to[step * kGroupRows] = row < count ? from[step] : 0;
    }
  }
}

LAGOM_CLONES
void pack_columns(const float* x, int64_t x_stride, int64_t count, int64_t width, uint32_t* words) {
  const int64_t steps = (count + 1) / 2;
  for (int64_t group = 0; group < num_groups(width); ++group) {
    const int64_t column = group * kGroupRows, columns = std::min(kGroupRows, width - column);
    for (int64_t step = 0; step < steps; ++step, words += kGroupRows) {
      const float* low = x + 2 * step * x_stride + column;
      const bool has_high = 2 * step + 1 < count;
      const float* high = has_high ? low + x_stride : low;
      for (int64_t r = 0; r < columns; ++r) {
        const uint32_t upper = has_high ? static_cast<uint32_t>(to_bfloat16(high[r])) << 16 : 0;
        words[r] = to_bfloat16(low[r]) | upper;
      }
      std::fill(words + columns, words + kGroupRows, 0U);
    }
  }
}

#ifdef LAGOM_HAS_CLONES
void multiply_rounded(const RoundedProduct& p, int64_t begin, int64_t end) {
  // So many tokens at a time that they stay in a core's cache while the rows go by.
  constexpr int64_t kCachedWords = 65536;
  const int64_t at_once =
      std::max<int64_t>(1, kCachedWords / p.x_stride / kTileTokens) * kTileTokens;
  for (int64_t first = 0; first < p.count; first += at_once) {
    const int64_t last = std::min(p.count, first + at_once);
    for (int64_t group = begin; group < end; ++group) {
      int64_t t = first;
      for (; t + kTileTokens <= last; t += kTileTokens) rounded_group<kTileTokens>(p, group, t);
      for (; t + 4 <= last; t += 4) rounded_group<4>(p, group, t);
      for (; t < last; ++t) rounded_group<1>(p, group, t);
    }
  }
}
#else
void multiply_rounded(const RoundedProduct&, int64_t, int64_t) {}
#endif

}  // namespace lagom::lm::kernels

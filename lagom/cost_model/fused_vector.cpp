#include "lagom/cost_model/fused_vector.h"

// g++ 12 takes the undefined registers inside its own intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#include <algorithm>

namespace lagom::cost_model::detail {
namespace {

#define LAGOM_AVX512 __attribute__((target("avx512f,avx512dq")))
#define LAGOM_AVX512_INLINE LAGOM_AVX512 [[gnu::always_inline]] inline

LAGOM_AVX512_INLINE __m512 all(float value) {
  return _mm512_set1_ps(value);
}

/// As fast_exp.
LAGOM_AVX512_INLINE __m512 exp(__m512 x) {
  x = _mm512_min_ps(all(88.0F), _mm512_max_ps(all(-87.0F), x));  // in this order NaN stays
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, all(1.44269504F)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, all(0.693359375F), x);
  r = _mm512_fmadd_ps(n, all(2.12194440e-4F), r);
  const __m512 square = _mm512_mul_ps(r, r);
  const __m512 high = _mm512_fmadd_ps(all(1.9875691500e-4F), r, all(1.3981999507e-3F));
  const __m512 middle = _mm512_fmadd_ps(all(8.3334519073e-3F), r, all(4.1665795894e-2F));
  const __m512 low = _mm512_fmadd_ps(all(1.6666665459e-1F), r, all(5.0000001201e-1F));
  __m512 p = _mm512_fmadd_ps(_mm512_fmadd_ps(high, square, middle), square, low);
  p = _mm512_fmadd_ps(p, square, _mm512_add_ps(r, all(1.0F)));
  return _mm512_scalef_ps(p, n);
}

/// To 2^-23: one step of Newton's from 2^-14.
LAGOM_AVX512_INLINE __m512 reciprocal(__m512 x) {
  const __m512 y = _mm512_rcp14_ps(x);
  return _mm512_mul_ps(y, _mm512_fnmadd_ps(x, y, all(2.0F)));
}

/// As Normal; `tail` is the probability of more than |x|.
struct NormalTail {
  __m512 density, tail;
};
LAGOM_AVX512_INLINE NormalTail normal_tail(__m512 x) {
  const __m512 density = exp(_mm512_mul_ps(_mm512_mul_ps(x, all(-0.5F)), x));
  const __m512 t =
      reciprocal(_mm512_fmadd_ps(_mm512_abs_ps(x), all(0.3275911F * 0.707106781F), all(1.0F)));
  const __m512 square = _mm512_mul_ps(t, t);
  const __m512 high = _mm512_fmadd_ps(all(1.061405429F), t, all(-1.453152027F));
  const __m512 middle = _mm512_fmadd_ps(all(1.421413741F), t, all(-0.284496736F));
  __m512 p = _mm512_fmadd_ps(high, square, middle);
  p = _mm512_fmadd_ps(p, t, all(0.254829592F));
  const __m512 half = _mm512_mul_ps(_mm512_mul_ps(all(0.5F), t), density);
  return {density, _mm512_mul_ps(half, p)};
}

/// 1 - tail where x >= 0 (or NaN, which then stays), tail elsewhere.
LAGOM_AVX512_INLINE __m512 probability(__m512 x, __m512 tail) {
  const __mmask16 is_upper = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NLT_UQ);
  return _mm512_mask_sub_ps(tail, is_upper, all(1.0F), tail);
}

/// Lanes of the 16 from place i that lie below `count`.
LAGOM_AVX512_INLINE __mmask16 lanes(int64_t i, int64_t count) {
  return static_cast<__mmask16>((1U << std::min<int64_t>(16, count - i)) - 1);
}

template <bool kGate, bool kResidual>
LAGOM_AVX512_INLINE __m512 preactivation(__mmask16 mask, const float* z, const float* gate,
                                         const float* residual, int64_t i) {
  __m512 v = _mm512_maskz_loadu_ps(mask, z + i);
  if constexpr (kGate) v = _mm512_mul_ps(v, _mm512_maskz_loadu_ps(mask, gate + i));
  if constexpr (kResidual) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, residual + i));
  return v;
}

template <bool kGate, bool kResidual>
LAGOM_AVX512 void gelu(const float* z, const float* gate, const float* residual, int64_t count,
                       float* out) {
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 mask = lanes(i, count);
    const __m512 v = preactivation<kGate, kResidual>(mask, z, gate, residual, i);
    const __m512 p = probability(v, normal_tail(v).tail);
    _mm512_mask_storeu_ps(out + i, mask, _mm512_mul_ps(v, p));
  }
}

template <bool kGate, bool kResidual>
LAGOM_AVX512 void gelu_backward(const float* z, const float* gate, const float* residual,
                                const float* grad, int64_t count, float* d) {
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 mask = lanes(i, count);
    const __m512 v = preactivation<kGate, kResidual>(mask, z, gate, residual, i);
    const NormalTail normal = normal_tail(v);
    const __m512 slope = _mm512_fmadd_ps(_mm512_mul_ps(v, normal.density), all(0.398942280F),
                                         probability(v, normal.tail));
    _mm512_mask_storeu_ps(d + i, mask, _mm512_mul_ps(slope, _mm512_maskz_loadu_ps(mask, grad + i)));
  }
}

}  // namespace

bool has_vector_kernels() {
  static const bool kHas = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
  return kHas;
}

LAGOM_AVX512 void vector_bias_sigmoid(float* g, int64_t rows, int64_t width, const float* bias) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = g + r * width;
    for (int64_t i = 0; i < width; i += 16) {
      const __mmask16 mask = lanes(i, width);
      const __m512 x = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, row + i),
                                     _mm512_maskz_loadu_ps(mask, bias + i));
      const __m512 e = exp(_mm512_sub_ps(_mm512_setzero_ps(), x));
      _mm512_mask_storeu_ps(row + i, mask, reciprocal(_mm512_add_ps(all(1.0F), e)));
    }
  }
}

void vector_gelu(const float* z, const float* gate, const float* residual, int64_t count,
                 float* out) {
  const auto run = gate != nullptr ? (residual != nullptr ? gelu<true, true> : gelu<true, false>)
                                   : (residual != nullptr ? gelu<false, true> : gelu<false, false>);
  run(z, gate, residual, count, out);
}

void vector_gelu_backward(const float* z, const float* gate, const float* residual,
                          const float* grad, int64_t count, float* d) {
  const auto run =
      gate != nullptr
          ? (residual != nullptr ? gelu_backward<true, true> : gelu_backward<true, false>)
          : (residual != nullptr ? gelu_backward<false, true> : gelu_backward<false, false>);
  run(z, gate, residual, grad, count, d);
}

LAGOM_AVX512 void vector_exp_row(const float* u, float scale, const float* largest, int64_t width,
                                 float* a, float* sum) {
  for (int64_t i = 0; i < width; i += 16) {
    const __mmask16 mask = lanes(i, width);
    const __m512 e = exp(_mm512_fmsub_ps(_mm512_maskz_loadu_ps(mask, u + i), all(scale),
                                         _mm512_maskz_loadu_ps(mask, largest + i)));
    _mm512_mask_storeu_ps(a + i, mask, e);
    _mm512_mask_storeu_ps(sum + i, mask, _mm512_add_ps(_mm512_maskz_loadu_ps(mask, sum + i), e));
  }
}

}  // namespace lagom::cost_model::detail

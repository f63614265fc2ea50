#include "lagom/tensor/dots.h"

// g++ 12 takes the undefined registers inside its own intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "lagom/util/bfloat16.h"

extern "C" void sgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c, const int* ldc);
extern "C" int MKL_Set_Num_Threads_Local(int num_threads);

namespace lagom::tensor {
namespace {

constexpr int kAccumulators = 24;  // of the 32 registers: 6 rows of 64 columns, 12 of 32

/// Columns of a panel of a matrix with n.
constexpr int64_t panel_width(int64_t n) {
  return n <= 32 ? 32 : 64;
}

/// MKL divides a product among its threads, and its bits depend on how: while this lives, the
/// calling thread's products run on it alone.
struct OneThread {
  OneThread() : before(MKL_Set_Num_Threads_Local(1)) {}
  ~OneThread() { MKL_Set_Num_Threads_Local(before); }
  int before;
};

/// c [m, n] = a b (+ c), all row-major; a is [m, k] or, transposed, [k, m]; b is [k, n] or [n, k].
void gemm(bool transposed_a, bool transposed_b, int64_t m, int64_t n, int64_t k, const float* a,
          const float* b, bool adds, float* c) {
  const OneThread one_thread;
  // Fortran sees the transposes of all three: c^T = b^T a^T.
  const int fm = static_cast<int>(n), fn = static_cast<int>(m), fk = static_cast<int>(k);
  const int lda = static_cast<int>(transposed_b ? k : n),
            ldb = static_cast<int>(transposed_a ? m : k);
  const float one = 1, beta = adds ? 1 : 0;
  sgemm_(transposed_b ? "T" : "N", transposed_a ? "T" : "N", &fm, &fn, &fk, &one, b, &lda, a, &ldb,
         &beta, c, &fm);
}

float rounded(float value) {
  const uint32_t bits = static_cast<uint32_t>(to_bfloat16(value)) << 16;
  float out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

/// Panels of b [k, n] given by `at(k, n)`, zeros behind its end.
template <typename At>
std::vector<uint32_t> pack(DotPrecision precision, int64_t k, int64_t n, At at) {
  const bool is_float = precision == DotPrecision::kFloat;
  const int64_t depth = is_float ? k : (k + 1) / 2, width = panel_width(n);
  std::vector<uint32_t> out(static_cast<size_t>((n + width - 1) / width * depth * width), 0);
  for (int64_t j = 0; j < n; ++j) {
    uint32_t* column = out.data() + j / width * depth * width + j % width;
    for (int64_t i = 0; i < k; ++i) {
      if (is_float) {
        column[i * width] = std::bit_cast<uint32_t>(at(i, j));
      } else {
        column[i / 2 * width] |= static_cast<uint32_t>(to_bfloat16(at(i, j))) << (i % 2 * 16);
      }
    }
  }
  return out;
}

#define LAGOM_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

/// Rows [rows, width] of float to pairs along the row, [rows, (width + 1) / 2].
LAGOM_BF16 void to_pairs_along_rows(const float* x, int64_t rows, int64_t width, uint32_t* out) {
  const int64_t pairs = (width + 1) / 2;
  for (int64_t r = 0; r < rows; ++r) {
    auto* to = reinterpret_cast<uint16_t*>(out + r * pairs);
    int64_t c = 0;
    for (; c + 16 <= width; c += 16) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + c),
                          (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + r * width + c)));
    }
    for (; c < width; ++c) to[c] = to_bfloat16(x[r * width + c]);
    if (width % 2 == 1) to[width] = 0;
  }
}

/// Rows 2 i and 2 i + 1 interleaved: [(rows + 1) / 2, stride] pairs, columns past `width` zero.
LAGOM_BF16 void to_pairs_of_rows(const float* x, int64_t rows, int64_t width, int64_t stride,
                                 uint32_t* out) {
  for (int64_t i = 0; i < (rows + 1) / 2; ++i) {
    const float* low = x + 2 * i * width;
    const bool has_high = 2 * i + 1 < rows;
    for (int64_t c = 0; c < stride; c += 16) {
      const auto mask = static_cast<__mmask16>(c + 16 <= width ? 0xffff
                                               : c >= width    ? 0
                                                               : (1 << (width - c)) - 1);
      const __m512 a = _mm512_maskz_loadu_ps(mask, low + c);
      const __m512 b =
          has_high ? _mm512_maskz_loadu_ps(mask, low + width + c) : _mm512_setzero_ps();
      const __m512i pa = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(a));
      const __m512i pb = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(b));
      _mm512_storeu_si512(out + i * stride + c, _mm512_or_si512(pa, _mm512_slli_epi32(pb, 16)));
    }
  }
}

/// sums + a b: of 16 floats, or of 16 pairs of bfloat16.
template <DotPrecision kPrecision>
LAGOM_BF16 [[gnu::always_inline]] inline __m512 multiply_add(__m512 sums, __m512i a, __m512i b) {
  if constexpr (kPrecision == DotPrecision::kFloat) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sums);
  } else {
    return _mm512_dpbf16_ps(sums, (__m512bh)a, (__m512bh)b);
  }
}

/// kCount rows of c, one panel wide: c[r, 0..columns) = sum over p of a[r, p] b[p, ...], where a
/// value is a float or a pair of bfloat16.
template <DotPrecision kPrecision, int kVectors, int kCount>
LAGOM_BF16 void multiply_rows(const uint32_t* a, int64_t row_stride, int64_t pair_stride,
                              const uint32_t* panel, int64_t panel_stride, int64_t pairs, float* c,
                              int64_t ldc, int64_t columns, bool adds) {
  __m512 sums[kCount][kVectors];
#pragma GCC unroll 12
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) sums[r][j] = _mm512_setzero_ps();
  }
  for (int64_t p = 0; p < pairs; ++p) {
    const uint32_t* row = panel + p * panel_stride;
    __m512i b[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) b[j] = _mm512_loadu_si512(row + 16 * j);
#pragma GCC unroll 12
    for (int r = 0; r < kCount; ++r) {
      const __m512i value =
          _mm512_set1_epi32(static_cast<int>(a[r * row_stride + p * pair_stride]));
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j)
        sums[r][j] = multiply_add<kPrecision>(sums[r][j], value, b[j]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      const int64_t left = columns - 16 * j;
      if (left <= 0) continue;
      const auto mask = static_cast<__mmask16>(left >= 16 ? 0xffff : (1 << left) - 1);
      float* to = c + r * ldc + 16 * j;
      __m512 value = sums[r][j];
      if (adds) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, to));
      _mm512_mask_storeu_ps(to, mask, value);
    }
  }
}

/// Panel j begins at data + j * panel_step, its rows lie `stride` values apart.
struct Panels {
  const uint32_t* data;
  int64_t panel_step, stride;
};

/// c [m, n] (+)= a b; a value is a float or a pair of bfloat16.
template <DotPrecision kPrecision, int kVectors>
void multiply_panels(const uint32_t* a, int64_t row_stride, int64_t depth_stride, const Panels& b,
                     int64_t m, int64_t n, int64_t depth, bool adds, float* c) {
  constexpr int64_t kWidth = 16 * kVectors;
  constexpr int kRows = kAccumulators / kVectors;
  static constexpr auto kKernels = []<int... kLess>(std::integer_sequence<int, kLess...>) {
    return std::array{&multiply_rows<kPrecision, kVectors, kLess + 1>...};
  }(std::make_integer_sequence<int, kRows>());
  for (int64_t j = 0; j < n; j += kWidth) {
    const uint32_t* panel = b.data + j / kWidth * b.panel_step;
    for (int64_t i = 0; i < m; i += kRows) {
      const int64_t count = std::min<int64_t>(kRows, m - i);
      kKernels[static_cast<size_t>(count - 1)](a + i * row_stride, row_stride, depth_stride, panel,
                                               b.stride, depth, c + i * n + j, n,
                                               std::min(kWidth, n - j), adds);
    }
  }
}

void multiply(DotPrecision precision, const uint32_t* a, int64_t row_stride, int64_t depth_stride,
              const Panels& b, int64_t m, int64_t n, int64_t depth, bool adds, float* c) {
  const auto run = [&](auto&& multiply_with) {
    multiply_with(a, row_stride, depth_stride, b, m, n, depth, adds, c);
  };
  const bool is_narrow = panel_width(n) == 32;
  if (precision == DotPrecision::kFloat) {
    is_narrow ? run(multiply_panels<DotPrecision::kFloat, 2>)
              : run(multiply_panels<DotPrecision::kFloat, 4>);
  } else {
    is_narrow ? run(multiply_panels<DotPrecision::kBfloat16, 2>)
              : run(multiply_panels<DotPrecision::kBfloat16, 4>);
  }
}

/// Room that a thread reuses.
uint32_t* scratch(int which, int64_t size) {
  thread_local std::vector<uint32_t> buffers[2];
  auto& buffer = buffers[which];
  if (buffer.size() < static_cast<size_t>(size)) buffer.resize(static_cast<size_t>(size));
  return buffer.data();
}

void round_all(const float* x, int64_t count, std::vector<float>& out) {
  out.resize(static_cast<size_t>(count));
  std::transform(x, x + count, out.begin(), rounded);
}

const uint32_t* bits(const float* x) {
  return reinterpret_cast<const uint32_t*>(x);
}

/// y [rows, n] (+)= x [rows, k] b with b packed in panels.
void multiply_packed(DotPrecision precision, const float* x, int64_t rows, int64_t k,
                     const std::vector<uint32_t>& panels, int64_t n, bool adds, float* y) {
  const bool is_float = precision == DotPrecision::kFloat;
  const int64_t depth = is_float ? k : (k + 1) / 2, width = panel_width(n);
  const uint32_t* a = bits(x);
  if (!is_float) {
    uint32_t* pairs = scratch(0, rows * depth);
    to_pairs_along_rows(x, rows, k, pairs);
    a = pairs;
  }
  multiply(precision, a, depth, 1, {panels.data(), depth * width, width}, rows, n, depth, adds, y);
}

}  // namespace

bool has_bf16_dots() {
  static const bool kHas = __builtin_cpu_supports("avx512bf16") &&
                           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return kHas;
}

WeightDots::WeightDots(const float* weight, int64_t out, int64_t in, DotPrecision precision)
    : weight_(weight), out_(out), in_(in), precision_(precision) {
  if (has_bf16_dots()) {
    forward_panels_ =
        pack(precision, in, out, [&](int64_t k, int64_t n) { return weight[n * in + k]; });
    gradient_panels_ =
        pack(precision, out, in, [&](int64_t k, int64_t n) { return weight[k * in + n]; });
  } else if (precision == DotPrecision::kBfloat16) {
    round_all(weight, out * in, rounded_);
  }
}

void WeightDots::forward(const float* x, int64_t rows, float* y, bool adds) const {
  if (has_bf16_dots()) {
    multiply_packed(precision_, x, rows, in_, forward_panels_, out_, adds, y);
  } else if (precision_ == DotPrecision::kFloat) {
    gemm(false, true, rows, out_, in_, x, weight_, adds, y);
  } else {
    std::vector<float> a;
    round_all(x, rows * in_, a);
    gemm(false, true, rows, out_, in_, a.data(), rounded_.data(), adds, y);
  }
}

void WeightDots::input_gradient(const float* dy, int64_t rows, float* dx, bool adds) const {
  if (has_bf16_dots()) {
    multiply_packed(precision_, dy, rows, out_, gradient_panels_, in_, adds, dx);
  } else if (precision_ == DotPrecision::kFloat) {
    gemm(false, false, rows, in_, out_, dy, weight_, adds, dx);
  } else {
    std::vector<float> a;
    round_all(dy, rows * out_, a);
    gemm(false, false, rows, in_, out_, a.data(), rounded_.data(), adds, dx);
  }
}

void WeightDots::weight_gradient(const float* dy, const float* x, int64_t rows, float* dw) const {
  const int64_t width = panel_width(in_);
  if (has_bf16_dots() && precision_ == DotPrecision::kFloat && in_ % width == 0) {
    multiply(precision_, bits(dy), 1, out_, {bits(x), width, in_}, out_, in_, rows, /*adds=*/true,
             dw);
  } else if (precision_ == DotPrecision::kFloat) {
    gemm(true, false, out_, in_, rows, dy, x, /*adds=*/true, dw);
  } else if (has_bf16_dots()) {
    const int64_t pairs = (rows + 1) / 2, columns = (in_ + width - 1) / width * width;
    const int64_t out_stride = (out_ + 15) / 16 * 16;
    uint32_t* a = scratch(0, pairs * out_stride);
    uint32_t* b = scratch(1, pairs * columns);
    to_pairs_of_rows(dy, rows, out_, out_stride, a);
    to_pairs_of_rows(x, rows, in_, columns, b);
    multiply(precision_, a, 1, out_stride, {b, width, columns}, out_, in_, pairs, /*adds=*/true,
             dw);
  } else {
    std::vector<float> a, b;
    round_all(dy, rows * out_, a);
    round_all(x, rows * in_, b);
    gemm(true, false, out_, in_, rows, a.data(), b.data(), /*adds=*/true, dw);
  }
}

}  // namespace lagom::tensor

#pragma once

#include <cstdint>
#include <vector>

/// Matrix products of a block of rows with one weight, for kernels that hold their rows in cache.
///
/// In bfloat16 both factors are rounded to nearest even, products are summed in float and the
/// result stays float. Own code where the CPU has AVX512_BF16 (on AMD's the BLAS' sgemm leaves a
/// seventh of the float rate unused); else sgemm, on rounded factors for bfloat16, which differs by
/// the order of the sum only.
namespace lagom::tensor {

enum class DotPrecision { kFloat, kBfloat16 };

/// weight: [out, in], row-major; packed here, but for floats without own code, which the caller
/// keeps. All functions run on the calling thread alone and may be called from several at once.
class WeightDots {
 public:
  WeightDots(const float* weight, int64_t out, int64_t in, DotPrecision precision);

  /// y [rows, out] = x [rows, in] W^T, added to y where `adds`.
  void forward(const float* x, int64_t rows, float* y, bool adds) const;
  /// dx [rows, in] = dy [rows, out] W, added to dx where `adds`.
  void input_gradient(const float* dy, int64_t rows, float* dx, bool adds) const;
  /// dw [out, in] += dy^T x.
  void weight_gradient(const float* dy, const float* x, int64_t rows, float* dw) const;

 private:
  const float* weight_;
  int64_t out_, in_;
  DotPrecision precision_;
  /// Panels of 64 columns (32 of narrow matrices), each [depth, 64] floats or [depth / 2, 64] pairs
  /// of bfloat16; or, without the instructions, the rounded weight.
  std::vector<uint32_t> forward_panels_, gradient_panels_;
  std::vector<float> rounded_;
};

/// Whether this CPU has the instructions of the own code.
bool has_bf16_dots();

}  // namespace lagom::tensor

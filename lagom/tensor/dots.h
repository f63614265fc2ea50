#pragma once

#include <cstdint>
#include <vector>

/// Matrix products of a block of rows with one weight, for kernels that hold their rows in cache.
///
/// In float they are the BLAS' sgemm. In bfloat16 both factors are rounded to nearest even,
/// products are summed in float and the result stays float; by own code where the CPU has
/// AVX512_BF16, else by sgemm on rounded factors, which differs by the order of the sum only.
namespace lagom::tensor {

enum class DotPrecision { kFloat, kBfloat16 };

/// weight: [out, in], row-major; kept by the caller for kFloat, packed here for kBfloat16. All
/// functions run on the calling thread alone and may be called from several at once.
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
  /// Panels of 64 columns, each [depth / 2, 64] pairs of bfloat16; or, without the instructions,
  /// the rounded weight.
  std::vector<uint32_t> forward_panels_, gradient_panels_;
  std::vector<float> rounded_;
};

/// Whether this CPU has the instructions of the fast bfloat16 path.
bool has_bf16_dots();

}  // namespace lagom::tensor

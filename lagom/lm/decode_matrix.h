#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lagom/lm/block.h"
#include "lagom/lm/decode_kernels.h"

namespace lagom::lm {

/// A linear layer in a decoder's format.
class DecodeMatrix {
 public:
  DecodeMatrix() = default;
  /// Shares float32 weights, copies others.
  DecodeMatrix(const Linear& linear, WeightFormat format);

  int64_t out() const { return out_; }
  /// Of the weights in this format.
  int64_t bytes() const;

  /// x [count, in] -> y [count, out]
  void operator()(const float* x, int64_t count, std::vector<float>& y) const;

 private:
  void pack(const float* weight);
  void multiply(const float* x, int64_t count, int64_t begin, int64_t end, float* y) const;

  WeightFormat format_ = WeightFormat::kFloat32;
  at::Tensor weight_, bias_;  ///< weight_: float32 [out, in], or int32: packed words.
  int64_t out_ = 0, in_ = 0;
  std::vector<float> scales_;
};

}  // namespace lagom::lm

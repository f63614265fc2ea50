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
  void quantize(const float* weight);

  WeightFormat format_ = WeightFormat::kFloat32;
  at::Tensor weight_, bias_;
  int64_t out_ = 0, in_ = 0;
  std::vector<uint16_t> halves_;
  std::vector<int8_t> bytes_;
  std::vector<float> scales_;
};

}  // namespace lagom::lm

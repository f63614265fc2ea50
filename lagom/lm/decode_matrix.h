#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "lagom/lm/block.h"
#include "lagom/lm/decode_kernels.h"

namespace lagom::lm {

/// Neighbouring tokens of a product. Those of a prompt may be rounded to bfloat16 where the weights
/// are; whether they are does not depend on what else is in the product.
struct TokenRun {
  int64_t begin = 0, end = 0;
  bool of_prompt = false;
};

/// A linear layer in a decoder's format.
class DecodeMatrix {
 public:
  DecodeMatrix() = default;
  /// Shares float32 weights, copies others.
  DecodeMatrix(const Linear& linear, WeightFormat format);

  int64_t out() const { return out_; }
  /// Of the weights in this format.
  int64_t bytes() const;

  /// x [count, in] -> y [count, out]. `runs` cover all tokens; none: no token is of a prompt.
  void operator()(const float* x, int64_t count, std::vector<float>& y,
                  std::span<const TokenRun> runs = {}) const;

 private:
  void pack(const float* weight);
  void multiply(const float* x, int64_t count, int64_t begin, int64_t end, float* y) const;
  void multiply_tokens(const float* x, int64_t count, float* y) const;
  int64_t grain(int64_t rows) const;
  void multiply_prompt(const float* x, int64_t count, float* y) const;

  WeightFormat format_ = WeightFormat::kFloat32;
  at::Tensor weight_, bias_;  ///< weight_: float32 [out, in], or int32: packed words.
  int64_t out_ = 0, in_ = 0;
  std::vector<float> scales_;
};

}  // namespace lagom::lm

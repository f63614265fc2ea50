#pragma once

#include <cstdint>
#include <optional>

#include "lagom/hlo/builder.h"
#include "lagom/hlo/module.h"

namespace lagom::rewrite {

/// A dot's operands and the parts that their dimensions play. Its result has the batch dimensions,
/// then the free ones of the left side, then those of the right.
class DotView {
 public:
  /// nullopt unless the instruction is a dot of two static floating-point arrays without empty
  /// dimensions that is not sharded.
  static std::optional<DotView> of(const hlo::Instruction& instruction);

  const hlo::Instruction& instruction() const { return *instruction_; }
  const hlo::DotDims& dims() const { return *instruction_->attributes.dot; }
  hlo::Instruction* lhs() const { return instruction_->operands[0]; }
  hlo::Instruction* rhs() const { return instruction_->operands[1]; }
  const hlo::Shape& shape() const { return instruction_->shape; }

  hlo::Dims lhs_free, rhs_free;  ///< Dimensions neither contracted nor batched, ascending.
  /// Products of the sizes: batch, free of the left side, contracted, free of the right.
  int64_t batch = 1, rows = 1, depth = 1, columns = 1;

  /// The widest of f32 and the types of operands and result.
  hlo::ElementType compute_type() const;
  bool has_dot_algorithm() const { return !instruction_->rare().dot_algorithm.empty(); }

 private:
  const hlo::Instruction* instruction_ = nullptr;
};

/// Sizes of some of an array's dimensions.
hlo::Dims sizes_of(const hlo::Instruction* x, const hlo::Dims& dims);
/// One list after another.
hlo::Dims joined(hlo::Dims a, const hlo::Dims& b);
hlo::Dims joined(hlo::Dims a, const hlo::Dims& b, const hlo::Dims& c);
/// {from, from + 1, ... from + count - 1}.
hlo::Dims counted(int64_t from, size_t count);

}  // namespace lagom::rewrite

#include <algorithm>
#include <stdexcept>

#include "lagom/rewrite/dot_view.h"
#include "lagom/rewrite/patterns.h"
#include "lagom/rewrite/rules.h"

namespace lagom::rewrite {
namespace {

using hlo::Builder;
using hlo::Dims;
using hlo::ElementType;
using hlo::Instruction;
using hlo::Opcode;

bool contains(const Dims& dims, int64_t d) {
  return std::find(dims.begin(), dims.end(), d) != dims.end();
}

class OnesDot : public Rule {
 public:
  std::string_view name() const override { return "ones_dot"; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    if (instruction.opcode != Opcode::kReduce || instruction.operands.size() != 2 ||
        is_sharded(instruction) || !is_static_array(instruction.shape, hlo::is_floating) ||
        !is_static_array(instruction.operand(0).shape, hlo::is_floating) ||
        instruction.attributes.dimensions.empty()) {
      return false;
    }
    const Instruction* reducer = binary_root(*instruction.called[0]);
    return reducer != nullptr && reducer->opcode == Opcode::kAdd;
  }

  // The minor dimension stays: neighbours in memory are summed side by side.
  bool is_promising(const Instruction& instruction) const override {
    const hlo::Shape& shape = instruction.operand(0).shape;
    return shape.rank() > 0 &&
           !contains(instruction.attributes.dimensions, shape.minor_to_major().front()) &&
           shape.num_elements() >= 1 << 14 &&
           shape.num_elements() / instruction.shape.num_elements() >= 16;
  }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    if (!matches(instruction)) throw std::invalid_argument("ones_dot: does not match");
    const ElementType type = at_least_f32(instruction.shape.element_type);
    Instruction* x = builder.convert(instruction.operands[0], type);
    Dims reduced = instruction.attributes.dimensions;
    std::sort(reduced.begin(), reduced.end());
    hlo::DotDims dims;
    Dims ones = sizes_of(x, reduced);
    if (reduced.back() - reduced.front() == static_cast<int64_t>(reduced.size()) - 1) {
      // Neighbours: [kept in front, reduced, kept behind], a batch of vectors times matrices.
      const Dims& sizes = x->shape.dimensions;
      int64_t in_front = 1;
      for (int64_t d = 0; d < reduced.front(); ++d) in_front *= sizes[static_cast<size_t>(d)];
      const int64_t depth = x->shape.num_elements() / instruction.shape.num_elements();
      const int64_t behind = instruction.shape.num_elements() / in_front;
      if (in_front > 1 && behind > 1) {
        x = builder.reshape(x, {in_front, depth, behind});
        ones = {in_front, depth};
        dims.lhs_batch = dims.rhs_batch = {0};
        dims.lhs_contracting = dims.rhs_contracting = {1};
      } else {
        x = builder.reshape(x, in_front > 1 ? Dims{in_front, depth} : Dims{depth, behind});
        ones = {depth};
        dims.lhs_contracting = {0};
        dims.rhs_contracting = {in_front > 1 ? 1 : 0};
      }
    } else {
      dims.lhs_contracting = counted(0, reduced.size());
      dims.rhs_contracting = reduced;
    }
    Instruction* sum =
        builder.reshape(builder.dot(builder.full(type, std::move(ones), 1), x, std::move(dims)),
                        instruction.shape.dimensions);
    if (constant_value(instruction.operand(1)) != 0.0) {
      Instruction* const init = builder.convert(instruction.operands[1], type);
      sum = builder.add(sum, builder.broadcast_scalar(init, sum->shape.dimensions));
    }
    return builder.convert(sum, instruction.shape.element_type);
  }
};

}  // namespace

const Rule& ones_dot_rule() {
  static const OnesDot kRule;
  return kRule;
}

}  // namespace lagom::rewrite

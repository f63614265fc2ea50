#include "lagom/rewrite/patterns.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace lagom::rewrite {

using hlo::ElementType;
using hlo::Instruction;
using hlo::Opcode;

bool is_static_array(const hlo::Shape& shape, bool (*wanted)(ElementType)) {
  return shape.is_array() && wanted(shape.element_type) && !shape.is_dynamic() &&
         shape.num_elements() > 0;
}

bool is_sharded(const Instruction& instruction) {
  return instruction.rare().sharding.has_value();
}

const Instruction* binary_root(const hlo::Computation& computation) {
  const Instruction* root = computation.root();
  if (computation.size() != 3 || root->operands.size() != 2) return nullptr;
  for (int64_t i = 0; i < 2; ++i) {
    const Instruction& operand = root->operand(static_cast<size_t>(i));
    if (operand.opcode != Opcode::kParameter || operand.attributes.parameter_number != i) {
      return nullptr;
    }
  }
  return root;
}

std::optional<double> constant_value(const Instruction& instruction) {
  if (instruction.opcode != Opcode::kConstant || !instruction.literal ||
      !instruction.shape.is_scalar() || instruction.literal->data.empty()) {
    return std::nullopt;
  }
  return instruction.literal->value_at(0);
}

std::optional<double> uniform_value(const Instruction& instruction) {
  const Instruction* source = &instruction;
  while (source->opcode == Opcode::kBroadcast || source->opcode == Opcode::kReshape) {
    source = source->operands[0];
  }
  if (source->opcode != Opcode::kConstant || !source->literal || !source->shape.is_array() ||
      source->literal->data.empty()) {
    return std::nullopt;
  }
  const double value = source->literal->value_at(0);
  // NaN equals nothing, so an array of them is not found; a scalar is.
  if (!source->shape.is_scalar() && !source->literal->all_equal(value)) return std::nullopt;
  return value;
}

ElementType at_least_f32(ElementType type) {
  return hlo::element_bits(type) < hlo::element_bits(ElementType::kF32) ? ElementType::kF32 : type;
}

std::vector<hlo::SliceDim> whole(const Instruction* x) {
  std::vector<hlo::SliceDim> slice(x->shape.dimensions.size());
  for (size_t d = 0; d < slice.size(); ++d) slice[d].limit = x->shape.dimensions[d];
  return slice;
}

Instruction* reduce(hlo::Builder& builder, Opcode opcode, Instruction* x, Instruction* init,
                    hlo::Dims dims) {
  auto instruction = std::make_unique<Instruction>();
  instruction->opcode = Opcode::kReduce;
  instruction->operands = {x, init};
  instruction->attributes.dimensions = std::move(dims);
  instruction->called = {builder.scalar_computation(opcode, x->shape.element_type)};
  return builder.add_instruction(std::move(instruction));
}

void copy_precision(const Instruction& from, Instruction& to, bool swapped) {
  const hlo::RareAttributes& rare = from.rare();
  if (rare.operand_precision.empty() && rare.dot_algorithm.empty()) return;
  to.mutable_rare().operand_precision = rare.operand_precision;
  to.mutable_rare().dot_algorithm = rare.dot_algorithm;
  if (!swapped) return;
  std::vector<std::string>& precision = to.mutable_rare().operand_precision;
  std::reverse(precision.begin(), precision.end());
}

}  // namespace lagom::rewrite

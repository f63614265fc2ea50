#include "lagom/rewrite/affine_chain.h"

#include <algorithm>

#include "lagom/rewrite/dot_view.h"
#include "lagom/rewrite/patterns.h"

namespace lagom::rewrite {
namespace {

using hlo::Dims;
using hlo::ElementType;
using hlo::Instruction;
using hlo::Opcode;

constexpr size_t kMaxSteps = 16;

bool is_wide_float(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kF64;
}

// Dimensions along which a broadcast varies; nullopt for other instructions, for broadcasts that
// reorder dimensions and for those that repeat nothing.
std::optional<Dims> varying_dims(const Instruction& x) {
  if (x.opcode != Opcode::kBroadcast ||
      x.operand(0).shape.num_elements() == x.shape.num_elements()) {
    return std::nullopt;
  }
  const Dims& places = x.attributes.dimensions;
  if (!std::is_sorted(places.begin(), places.end())) return std::nullopt;
  Dims dims;
  for (int64_t d : places) {
    if (x.shape.dimensions[static_cast<size_t>(d)] > 1) dims.push_back(d);
  }
  return dims;
}

// The step that an instruction is, and the array it works on.
std::optional<std::pair<AffineChain::Step, Instruction*>> step_of(const Instruction& i) {
  if (i.opcode != Opcode::kAdd && i.opcode != Opcode::kSubtract && i.opcode != Opcode::kMultiply &&
      i.opcode != Opcode::kDivide) {
    return std::nullopt;
  }
  if (varying_dims(i.operand(1))) {
    return std::pair{AffineChain::Step{&i, i.operands[1], false}, i.operands[0]};
  }
  if (i.opcode != Opcode::kDivide && varying_dims(i.operand(0))) {
    return std::pair{AffineChain::Step{&i, i.operands[0], true}, i.operands[1]};
  }
  return std::nullopt;
}

}  // namespace

std::optional<AffineChain> AffineChain::ending_at(const Instruction& instruction) {
  AffineChain chain;
  const Instruction* at = &instruction;
  while (chain.steps.size() < kMaxSteps && !is_sharded(*at) &&
         is_static_array(at->shape, is_wide_float)) {
    const auto found = step_of(*at);
    if (!found) break;
    const Dims dims = *varying_dims(*found->first.broadcast);
    // Scalars go with any features.
    if (!dims.empty()) {
      if (!chain.feature_dims.empty() && chain.feature_dims != dims) break;
      chain.feature_dims = dims;
    }
    chain.steps.insert(chain.steps.begin(), found->first);
    chain.has_scale |= at->opcode == Opcode::kMultiply || at->opcode == Opcode::kDivide;
    chain.x = found->second;
    at = found->second;
  }
  if (chain.steps.empty() || chain.feature_dims.empty()) return std::nullopt;
  return chain;
}

std::vector<const Instruction*> AffineChain::inner_nodes() const {
  std::vector<const Instruction*> nodes;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (i + 1 < steps.size()) nodes.push_back(steps[i].operation);
    nodes.push_back(steps[i].broadcast);
  }
  return nodes;
}

AffineChain::Vectors AffineChain::emit_vectors(hlo::Builder& builder) const {
  const Dims sizes = sizes_of(x, feature_dims);
  Vectors y;
  for (const Step& step : steps) {
    Instruction* const given = step.broadcast->operands[0];
    Instruction* const v = given->shape.num_elements() == 1
                               ? builder.broadcast_scalar(builder.reshape(given, {}), sizes)
                               : builder.reshape(given, sizes);
    switch (step.operation->opcode) {
      case Opcode::kAdd:
        y.shift = y.shift == nullptr ? v : builder.add(y.shift, v);
        break;
      case Opcode::kSubtract:
        if (step.is_left) {  // v - y
          Instruction* const negated =
              y.shift == nullptr ? nullptr : builder.unary(Opcode::kNegate, y.shift);
          y.shift = negated == nullptr ? v : builder.add(negated, v);
          y.scale = y.scale == nullptr ? builder.full(v->shape.element_type, sizes, -1)
                                       : builder.unary(Opcode::kNegate, y.scale);
        } else {
          y.shift = y.shift == nullptr ? builder.unary(Opcode::kNegate, v)
                                       : builder.binary(Opcode::kSubtract, y.shift, v);
        }
        break;
      case Opcode::kMultiply:
        y.scale = y.scale == nullptr ? v : builder.multiply(y.scale, v);
        if (y.shift != nullptr) y.shift = builder.multiply(y.shift, v);
        break;
      default: {  // Divide
        Instruction* const one = builder.full(v->shape.element_type, sizes, 1);
        y.scale = builder.binary(Opcode::kDivide, y.scale == nullptr ? one : y.scale, v);
        if (y.shift != nullptr) y.shift = builder.binary(Opcode::kDivide, y.shift, v);
        break;
      }
    }
  }
  return y;
}

}  // namespace lagom::rewrite

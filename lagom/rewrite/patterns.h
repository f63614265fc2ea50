#pragma once

#include <optional>
#include <vector>

#include "lagom/hlo/builder.h"
#include "lagom/hlo/module.h"

// Questions that several families of rules ask about instructions, and small pieces they emit.
namespace lagom::rewrite {

/// An array of a wanted type whose dimensions are known and not empty.
bool is_static_array(const hlo::Shape& shape, bool (*wanted)(hlo::ElementType));
/// Some device holds part of its value only: a form would lose that.
bool is_sharded(const hlo::Instruction& instruction);

/// The root of a computation of two scalar parameters that applies one operation to them, in their
/// order; nullptr for others.
const hlo::Instruction* binary_root(const hlo::Computation& computation);
/// The value of a scalar constant.
std::optional<double> constant_value(const hlo::Instruction& instruction);
/// The value of which all elements are, looking through reshapes and broadcasts of a constant.
std::optional<double> uniform_value(const hlo::Instruction& instruction);

/// f32 for narrower types.
hlo::ElementType at_least_f32(hlo::ElementType type);
/// The slice that keeps all of x; to be narrowed.
std::vector<hlo::SliceDim> whole(const hlo::Instruction* x);
/// Reduces x over `dims` by a binary operation on scalars, starting from the scalar `init`.
hlo::Instruction* reduce(hlo::Builder& builder, hlo::Opcode opcode, hlo::Instruction* x,
                         hlo::Instruction* init, hlo::Dims dims);
/// Gives a dot or convolution the operand precision and dot algorithm of another; `swapped` when
/// their operands stand the other way round.
void copy_precision(const hlo::Instruction& from, hlo::Instruction& to, bool swapped = false);

}  // namespace lagom::rewrite

#pragma once

#include <cstdint>

#include "lagom/hlo/module.h"

namespace lagom::hlo {

/// The shape that an instruction must have, by its opcode, operands, attributes and called
/// computations (XLA's ShapeInference).
///
/// What these leave open is taken from `instruction.shape`, which must then be set in advance and
/// is checked: the element type of convert, the dimensions of broadcast, reshape, iota and
/// bitcast-convert, everything of parameter, infeed, custom-call and the like. Dot and convolution
/// keep the element type of `instruction.shape` when it is set (XLA's preferred element type) and
/// have their operands' otherwise. Layouts and dynamic flags are not inferred: the result is
/// row-major and static. Where the instruction or an operand has an unbounded (negative) dimension,
/// the instruction's own shape is the answer.
///
/// Throws std::invalid_argument that says what was found and what was expected.
Shape infer_shape(const Instruction& instruction);

/// True for opcodes whose shape nothing else determines (parameter, infeed, custom-call, the async
/// family...): `infer_shape` returns what the instruction says.
bool has_free_shape(Opcode opcode);

/// Number of positions a window takes over a base dimension, padding and dilations included:
/// floor((padded - dilated_window) / stride) + 1, and 0 where the window is longer than the padded
/// base. Throws std::invalid_argument when a size, stride or dilation is below 1, when a
/// stride, padding or dilation is past 2^40, and when a dilated size is past 2^61.
int64_t window_output_size(int64_t base, const WindowDim& dim);

/// Length of a dimension with `dilation - 1` holes between its elements; 0 for an empty one.
int64_t dilated_size(int64_t size, int64_t dilation);

/// What padding makes of a dimension; not below 0. Throws std::invalid_argument on negative
/// interior padding or a result outside 64 bits.
int64_t padded_size(int64_t size, const PadDim& pad);

}  // namespace lagom::hlo

#pragma once

// Shared by the sources of shape inference only.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lagom/hlo/module.h"

namespace lagom::hlo::inference {

/// Throws std::invalid_argument with the formatted text.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw std::invalid_argument(fmt::format(format, std::forward<Args>(args)...));
}

inline std::string text(const Shape& shape) {
  return shape.to_string(/*with_layout=*/false);
}
inline std::string text(const Dims& dims) {
  return fmt::format("{{{}}}", fmt::join(dims, ","));
}

/// The operand's shape, which must be an array.
const Shape& array_operand(const Instruction& instruction, size_t index);
/// Every entry is a dimension below `rank` and none comes twice.
void check_dims(const Dims& dims, int64_t rank, const char* what);
void check_dim(int64_t dim, int64_t rank, const char* what);
/// The element type of a result of two types that may differ in floating precision only.
ElementType common_type(ElementType a, ElementType b, const char* what);
/// One called computation with this many parameters.
const Computation& called_computation(const Instruction& instruction, size_t index,
                                      size_t num_parameters);
/// Type chosen by the instruction when it names a numeric one, else `otherwise`.
ElementType preferred_type(const Instruction& instruction, ElementType otherwise);

/// The shape without dynamic flags, row-major.
Shape bare(const Shape& shape);
Shape same_as_operand(const Instruction& instruction, size_t index = 0);
void check_same_dims(const Instruction& instruction, const Shape& a, const Shape& b);
/// The instruction's own shape, which must be an array: its dimensions are given, not inferred.
const Shape& given_array(const Instruction& instruction);
/// f32 for c64, f64 for c128, the type itself otherwise.
ElementType real_type(ElementType type);

Shape infer_unary(const Instruction& instruction);
Shape infer_binary(const Instruction& instruction);
Shape infer_select(const Instruction& instruction);
Shape infer_clamp(const Instruction& instruction);
Shape infer_broadcast(const Instruction& instruction);
Shape infer_reshape(const Instruction& instruction);
Shape infer_bitcast_convert(const Instruction& instruction);
Shape infer_transpose(const Instruction& instruction);
Shape infer_slice(const Instruction& instruction);
Shape infer_pad(const Instruction& instruction);
Shape infer_concatenate(const Instruction& instruction);
Shape infer_convolution(const Instruction& instruction);
Shape infer_reduce_window(const Instruction& instruction);
Shape infer_select_and_scatter(const Instruction& instruction);
Shape infer_dot(const Instruction& instruction);
Shape infer_ragged_dot(const Instruction& instruction);
Shape infer_gather(const Instruction& instruction);
Shape infer_scatter(const Instruction& instruction);
Shape infer_dynamic_slice(const Instruction& instruction);
Shape infer_dynamic_update_slice(const Instruction& instruction);

}  // namespace lagom::hlo::inference

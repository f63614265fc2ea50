#pragma once

#include <vector>

#include "lagom/hlo/module.h"

namespace lagom::testing {

/// A value in double, row-major, whatever its element type.
using Values = std::vector<double>;

/// Computes an instruction's value straight from the definition of each operation, with one slow
/// loop over the result: an independent reference for rewrites. Nothing is rounded to the element
/// types. `arguments` holds one array per parameter number.
///
/// Knows parameter, constant, iota, broadcast, reshape, transpose, slice, pad, concatenate,
/// reverse, convert, copy, the common element-wise operations, compare, select, dot, convolution,
/// reduce, reduce-window and select-and-scatter by any computations it can evaluate. Throws
/// std::invalid_argument otherwise.
Values evaluate(const hlo::Instruction& instruction, const std::vector<Values>& arguments);

}  // namespace lagom::testing

#pragma once

#include <string_view>

#include "lagom/hlo/module.h"

namespace lagom::hlo {

/// Checks that a module holds together: an entry, callees in front of callers (so that no
/// computation can call itself), unique names, parameters 0 to n-1 once each, a root, operands in
/// front of users, the operand counts, called computations and shapes that the opcodes ask for
/// (`infer_shape`), layouts that are permutations, literals of the size of their shape.
///
/// As lenient as XLA: layouts and bounds of dynamic dimensions are not compared, and where an
/// operation computes (rather than passes a value on) floating-point types may differ in precision.
///
/// `path` names the module in errors. Throws FormatError that says computation, instruction, what
/// was found and what was expected.
void verify(const Module& module, std::string_view path);

}  // namespace lagom::hlo

#pragma once

#include <string_view>
#include <vector>

#include "lagom/hlo/evaluator.h"
#include "lagom/hlo/module.h"

namespace lagom::testing {

/// The numbers in dense row-major host data of this type.
hlo::Values decoded(hlo::ElementType type, std::string_view bytes);

/// The numbers as this element type holds them.
hlo::Values rounded(hlo::ElementType type, hlo::Values numbers);

/// Compiles a module with the default plugin in this process and runs it once.
///
/// `arguments` holds one array per parameter, or per element when the one parameter is a tuple;
/// they are rounded to the parameters' types. Returns the root's leaves. Throws xla::PjrtError when
/// XLA refuses the module. With LAGOM_TRACE_XLA set, prints every module before it is compiled:
/// what XLA aborts on is the last one.
std::vector<hlo::Values> run_in_xla(const hlo::Module& module,
                                    const std::vector<hlo::Values>& arguments);

/// A value's arrays, tuples taken apart, in order.
std::vector<hlo::Values> leaves(const hlo::Value& value);
/// Their element types.
std::vector<hlo::ElementType> leaf_types(const hlo::Shape& shape);

}  // namespace lagom::testing

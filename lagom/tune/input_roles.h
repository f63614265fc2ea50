#pragma once

#include <vector>

#include "lagom/hlo/module.h"
#include "lagom/measure/inputs.h"

namespace lagom::tune {

/// The inputs that a program needs, with the role each parameter plays: what it is used for
/// decides, not its shape alone. Uses are followed through reshapes, conversions, calls, loops and
/// element-wise arithmetic:
///   kernel of a convolution, side of a dot      weight, with the number of summed products
///   under a square root or logarithm, divisor   positive
///   index of a gather, scatter, dynamic slice   whole numbers in range
///   vectors, arrays with one non-unit dimension positive (scales, variances, biases)
///   other floats                                activation
///   other integers                              1 (a mask that hides nothing, a valid label)
///
/// One per parameter, or per element when the one parameter is a tuple of arrays. Throws
/// std::invalid_argument for a parameter that is no array (tokens, nested tuples) or has dynamic
/// dimensions.
std::vector<measure::InputSpec> input_specs(const hlo::Module& module);

/// True when the entry takes one tuple whose elements are the inputs.
bool has_tuple_argument(const hlo::Module& module);

/// Milder draws to try, one after another, when a program's outputs are not finite or do not depend
/// on its inputs: the given specs first, then smaller weights, smaller activations, zeros for
/// integers.
std::vector<std::vector<measure::InputSpec>> input_variants(
    const std::vector<measure::InputSpec>& specs);

}  // namespace lagom::tune

#pragma once

#include "lagom/hlo/evaluator.h"
#include "lagom/hlo/module.h"

namespace lagom::testing {

/// HLO's convolution from its definition: for every output element, a loop over the group's input
/// features and the window, skipping what falls on padding or between dilated elements.
/// The instruction gives shapes and attributes; `input` and `kernel` are row-major.
hlo::Values reference_convolution(const hlo::Instruction& instruction, const hlo::Values& input,
                                  const hlo::Values& kernel);

}  // namespace lagom::testing

#pragma once

#include "lagom/rewrite/configuration.h"
#include "lagom/tune/space.h"

namespace lagom::tune {

/// Forms chosen by fixed conditions on a convolution's shapes, without measuring anything: the
/// hand-written baseline that a search has to beat.
///
/// The conditions are those under which a survey of 61 programs on XLA's CPU backend rewrote
/// convolutions: depthwise ones always; columns for kernels larger than their input and for small
/// maps with many features; phases or col2im where the input has holes; weight gradients of 1x1
/// kernels as one dot, of strided ones position by position.
/// nullptr: as it is.
const rewrite::Rule* form_by_conditions(const hlo::Instruction& instruction);

/// The configuration that gives every kernel of the space its form by conditions.
rewrite::Configuration configuration_by_conditions(const SearchSpace& space);

}  // namespace lagom::tune

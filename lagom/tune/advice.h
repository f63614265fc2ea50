#pragma once

#include "lagom/tune/tuner.h"

namespace lagom::tune {

/// A decision with where its instruction comes from and how one would write it in JAX.
DecisionReport describe_decision(const hlo::Module& module, const rewrite::Decision& decision);

/// A Python dict literal for `jit(...).lower(...).compile(compiler_options=...)`.
std::string compiler_options_python(const Flags& flags);

}  // namespace lagom::tune

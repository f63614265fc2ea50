#pragma once

#include <string>
#include <vector>

#include "lagom/hlo/module.h"

namespace lagom::rewrite {

/// One instruction cut out of a program into a module of its own, to be measured alone.
///
/// Operands become parameters, but for what costs nothing and tells the compiler something:
/// constants, iota, and broadcasts of scalars come along. Called computations come along too. Names
/// are canonical and metadata is left out, so that equal kernels give equal modules.
struct CutOut {
  hlo::Module module;
  std::string node;       ///< Name of the instruction in `module`.
  std::string signature;  ///< Hash of the module's text: equal for equal kernels of any program.
};

/// Throws std::invalid_argument for instructions that make no sense alone (parameters, constants,
/// tuples, what communicates or has a side effect).
CutOut cut_out(const hlo::Instruction& instruction);

/// False where `cut_out` would throw.
bool can_cut_out(const hlo::Instruction& instruction);

}  // namespace lagom::rewrite

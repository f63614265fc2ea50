#pragma once

#include <string>
#include <vector>

#include "lagom/hlo/module.h"
#include "lagom/rewrite/rule.h"

namespace lagom::rewrite {

/// An instruction, or the pattern or group of a rule, cut out of a program into a module of its
/// own, to be measured alone.
///
/// Operands become parameters, but for what costs nothing and tells the compiler something:
/// constants, iota, and broadcasts of scalars come along. Called computations come along too. Names
/// are canonical and metadata is left out, so that equal kernels give equal modules.
struct CutOut {
  hlo::Module module;
  std::string node;       ///< Name of the instruction in `module`; of the first of a group.
  std::string signature;  ///< Hash of the module's text: equal for equal kernels of any program.
};

/// Throws std::invalid_argument for instructions that make no sense alone (parameters, constants,
/// tuples, what communicates or has a side effect).
CutOut cut_out(const hlo::Instruction& instruction);

/// False where `cut_out` would throw.
bool can_cut_out(const hlo::Instruction& instruction);

/// What a rule that fits works on: the instructions that it replaces, which the entry computation
/// returns, with the inner nodes of its pattern.
struct RewriteSite {
  std::vector<const hlo::Instruction*> replaced;
  std::vector<const hlo::Instruction*> inner;

  static RewriteSite of(const Rule& rule, const hlo::Computation& computation,
                        hlo::Instruction& instruction);
  /// One instruction without a pattern: what `cut_out` of the instruction alone gives.
  bool is_plain() const { return replaced.size() == 1 && inner.empty(); }
  friend bool operator==(const RewriteSite&, const RewriteSite&) = default;
};

/// Throws as the other, for any instruction of the site.
CutOut cut_out(const RewriteSite& site);
bool can_cut_out(const RewriteSite& site);

}  // namespace lagom::rewrite

#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "lagom/hlo/module.h"

namespace lagom::hlo {

/// Gives names that no instruction or computation of a module has. XLA wants instruction names to
/// be unique in the whole module when it reads a proto, not only in their computation.
///
/// The table is filled once; names added by others after that are not seen.
class NameTable {
 public:
  explicit NameTable(const Module& module);

  /// `base` itself when it is free, otherwise "base.1", "base.2"...; the result is taken from then
  /// on. A number already at the end of `base` ("add.7") is replaced rather than lengthened.
  std::string fresh(std::string_view base);

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int64_t> next_;  // By base, the number to try next.
};

/// Lets all readers of `from` (operands, control predecessors, the root) read `to` instead, which
/// must stand before them. `to` itself keeps reading `from`, so that a value can be wrapped.
void replace_all_uses(Computation& computation, Instruction* from, Instruction* to);

/// `replace_all_uses`, then takes `from` out of the computation. Throws std::invalid_argument when
/// `from` is a parameter, when `to` reads it, or when the shapes differ by more than layout.
void replace_instruction(Computation& computation, Instruction* from, Instruction* to);

/// Removes instructions that the root does not need. Parameters stay, and so does what has a side
/// effect, itself or in a computation it calls, and what such instructions read. Returns how many
/// were removed.
size_t remove_dead_code(Computation& computation);
/// The same in every computation; computations that nothing reaches any more go too.
size_t remove_dead_code(Module& module);

/// True when the instruction, or anything in a computation it calls, must not be dropped.
bool must_keep(const Instruction& instruction);

using InstructionMap = std::unordered_map<const Instruction*, Instruction*>;
using ComputationMap = std::unordered_map<const Computation*, Computation*>;

/// A copy with operands, control predecessors and called computations looked up in the maps; what
/// is not there is left as it is. The name is the same.
std::unique_ptr<Instruction> copy_instruction(const Instruction& instruction,
                                              const InstructionMap& instructions,
                                              const ComputationMap& computations);

/// Copies a computation, and first those that it calls, into another (or the same) module under
/// fresh names, in front of `before`, or at the end when that is null. `copied` holds what was
/// copied already and is added to.
Computation* copy_computation(const Computation& source, Module& target, NameTable& names,
                              ComputationMap& copied, const Computation* before = nullptr);

/// For a program that is changed, or run more than once on the same inputs: there is no schedule,
/// and outputs that must take over an input's memory only may do so.
void make_rerunnable(Module& module);

}  // namespace lagom::hlo

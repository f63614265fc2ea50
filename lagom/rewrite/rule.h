#pragma once

#include <string_view>
#include <vector>

#include "lagom/hlo/builder.h"
#include "lagom/hlo/module.h"

namespace lagom::rewrite {

/// How close a rewritten node's values are to the original's.
enum class RuleClass {
  kExact,         ///< Bit for bit the same (signs of zeros aside).
  kReassociates,  ///< The same sums and products in another order: equal up to rounding.
  kRelaxes,       ///< Less precise on purpose.
};

/// "exact", "reassociates", "relaxes".
std::string_view rule_class_name(RuleClass rule_class);

/// An equivalent form for one kind of instruction.
///
/// Most rules look at one instruction. A *pattern* rule also looks at what its operands are made of
/// (`inner_nodes`); a *group* rule replaces several instructions of a computation at once
/// (`group`). The configuration names the pattern's last instruction, or the group's first.
///
/// Rules have no state. They leave alone what has a side effect, a dynamic shape, an empty
/// dimension or a sharding. A form that multiplies fewer zeros than the original can differ from it
/// where the original computes 0 * inf or 0 * NaN.
class Rule {
 public:
  virtual ~Rule() = default;
  /// Stable: it names the form in configurations and in the database of measurements.
  virtual std::string_view name() const = 0;
  virtual RuleClass rule_class() const = 0;
  /// True when `emit` can be called. Only reads the instruction, what its operands are made of, and
  /// computations that these call.
  virtual bool matches(const hlo::Instruction& instruction) const = 0;
  /// A hint for where to look first: such nodes were often faster in this form than in XLA's CPU
  /// backend's own when a few hundred programs' nodes were surveyed. Call only where `matches`.
  virtual bool is_promising(const hlo::Instruction& instruction) const = 0;
  /// Makes the form with `builder`, which stands in front of the instruction, and returns the
  /// instruction that has its value: same dimensions and element type. That may be one that is
  /// there already. The original is left in place. Throws std::invalid_argument when the rule does
  /// not match.
  virtual hlo::Instruction* emit(hlo::Builder& builder,
                                 const hlo::Instruction& instruction) const = 0;

  /// Instructions besides this one that a pattern is made of: operands, operands of these. They
  /// stay for their other users. Call only where `matches`.
  virtual std::vector<const hlo::Instruction*> inner_nodes(const hlo::Instruction&) const {
    return {};
  }
  /// True for rules whose form does something only when it replaces several instructions.
  virtual bool is_group_rule() const { return false; }
  /// The instructions that the form replaces together, in the computation's order; `instruction`,
  /// which the rule must match, is the first.
  virtual std::vector<hlo::Instruction*> group(const hlo::Computation& computation,
                                               hlo::Instruction& instruction) const;
  /// The values of a group's instructions, in its order. The builder stands in front of the first.
  virtual std::vector<hlo::Instruction*> emit_group(
      hlo::Builder& builder, const std::vector<hlo::Instruction*>& group) const;
};

/// Every rule, in a fixed order.
const std::vector<const Rule*>& all_rules();
/// nullptr when there is none of that name.
const Rule* find_rule(std::string_view name);

/// True when the rule matches and, for a group rule, there are several instructions to replace.
bool fits(const Rule& rule, const hlo::Computation& computation, hlo::Instruction& instruction);

/// Gives the instruction the rule's form: emits it in front, lets all users read it and removes the
/// original, and the others of its group. Metadata is the original's. Returns the replacement.
hlo::Instruction* apply_rule(const Rule& rule, hlo::Module& module, hlo::Computation& computation,
                             hlo::NameTable& names, hlo::Instruction* instruction);

/// The same for a group that `rule.group` gave: the replacements, in its order.
std::vector<hlo::Instruction*> replace_group(const Rule& rule, hlo::Module& module,
                                             hlo::Computation& computation, hlo::NameTable& names,
                                             const std::vector<hlo::Instruction*>& group);

}  // namespace lagom::rewrite

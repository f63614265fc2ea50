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
/// Rules have no state. A form that multiplies fewer zeros than the original can differ from it
/// where the original computes 0 * inf or 0 * NaN.
class Rule {
 public:
  virtual ~Rule() = default;
  /// Stable: it names the form in configurations and in the database of measurements.
  virtual std::string_view name() const = 0;
  virtual RuleClass rule_class() const = 0;
  /// True when `emit` can be called. Only reads the instruction and its operands' shapes.
  virtual bool matches(const hlo::Instruction& instruction) const = 0;
  /// A hint for where to look first: such nodes were often faster in this form than in XLA's CPU
  /// backend's own when a few hundred programs' nodes were surveyed. Call only where `matches`.
  virtual bool is_promising(const hlo::Instruction& instruction) const = 0;
  /// Makes the form with `builder`, which stands in front of the instruction, and returns the
  /// instruction that has its value: same dimensions and element type. The original is left in
  /// place. Throws std::invalid_argument when the rule does not match.
  virtual hlo::Instruction* emit(hlo::Builder& builder,
                                 const hlo::Instruction& instruction) const = 0;
};

/// Every rule, in a fixed order.
const std::vector<const Rule*>& all_rules();
/// nullptr when there is none of that name.
const Rule* find_rule(std::string_view name);

/// Gives the instruction the rule's form: emits it in front, lets all users read it and removes the
/// original. Metadata is the original's. Returns the replacement.
hlo::Instruction* apply_rule(const Rule& rule, hlo::Module& module, hlo::Computation& computation,
                             hlo::NameTable& names, hlo::Instruction* instruction);

}  // namespace lagom::rewrite

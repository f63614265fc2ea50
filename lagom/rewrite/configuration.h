#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/hlo/module.h"
#include "lagom/util/flags.h"

namespace lagom::rewrite {

/// What a decision does to the instruction it names.
enum class DecisionKind {
  kForm,           ///< Gives it an equivalent form: the rule named in `form`.
  kOutputLayout,   ///< Its value lies in memory as `layout` says.
  kOperandLayout,  ///< The value it reads as operand number `operand` does, for this use only.
  kBarrier,        ///< The compiler must not fuse or move work across this use of the operand.
};

/// One value of one node or edge of a program. What no decision names is left to the compiler.
struct Decision {
  DecisionKind kind = DecisionKind::kForm;
  std::string instruction;  ///< Name in the original module.
  int64_t operand = 0;      ///< kOperandLayout and kBarrier only.
  std::string form;         ///< kForm only.
  hlo::Dims layout;         ///< Minor to major; the layout kinds only.

  /// "conv.3 form depthwise_taps", "dot.4 output-layout {0,1}", "dot.4 operand-layout 1 {0,1}",
  /// "add.7 barrier 0".
  std::string to_string() const;
  friend auto operator<=>(const Decision&, const Decision&) = default;
};

/// A point of the search space: decisions and compiler flags.
///
/// It has one text form, a line per decision and flag in sorted order:
///
///     conv.3 form depthwise_taps
///     dot.4 output-layout {0,1}
///     flag xla_cpu_prefer_vector_width 512
///
/// A name may stand behind a '%', and the name "flag" must. Lines whose first character is '#' are
/// comments. Flag values that read as true, false or a number are that; others, and any in quotes,
/// are strings.
struct Configuration {
  std::vector<Decision> decisions;  ///< Sorted, at most one per kind, instruction and operand.
  Flags flags;

  bool is_default() const { return decisions.empty() && flags.empty(); }
  /// Adds a decision or replaces the one in its place.
  void set(Decision decision);
  /// Removes the decision that stands in the place of this one, if any.
  void remove(const Decision& place);

  std::string to_string() const;
  /// Throws FormatError with the line at fault.
  static Configuration from_string(std::string_view text, std::string_view path = "configuration");
  /// Of the text form.
  uint64_t hash() const;

  friend bool operator==(const Configuration&, const Configuration&) = default;
};

/// The module with the decisions in it: same parameters, same results. Flags are the compiler's.
///
/// Forms come first: those of groups, of patterns, of single instructions. A form for an
/// instruction that one before replaced or changed, so that its rule does not fit any more, is
/// ignored. Layouts and barriers of an instruction that got another form hold for the value that
/// replaces it; those of its operands, which have no place any more, are ignored. Throws
/// std::invalid_argument naming a decision that does not fit the module: no such instruction, a
/// rule that does not fit, a layout that is no permutation, an operand that is not there.
hlo::Module apply(const hlo::Module& module, const Configuration& configuration);

/// The same with an error put in on purpose: what the forms compute is multiplied by 1 + `share`
/// (floating-point arrays only). A comparison of outputs that does not see it is worth little.
hlo::Module apply_with_fault(const hlo::Module& module, const Configuration& configuration,
                             double share);

}  // namespace lagom::rewrite

#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "lagom/hlo/module.h"
#include "lagom/rewrite/configuration.h"
#include "lagom/rewrite/cut_out.h"
#include "lagom/rewrite/rule.h"

namespace lagom::tune {

/// Which parts of a configuration a search may set.
struct SpaceOptions {
  bool forms = true;
  bool layouts = true;
  bool barriers = true;
  bool flags = true;
  bool allow_inexact = false;  ///< Rules that relax precision, and fast-math flags.
};

/// One distinct heavy node of a program, or pattern or group of a rule: all instructions with the
/// same cut-out. Rules that look at one instruction share a kernel; an instruction can be part of
/// others besides, whose decisions may stand in the same place: the last one set holds.
struct Kernel {
  rewrite::CutOut cut_out;
  hlo::Opcode opcode;
  /// One instruction; false: a pattern or group, parts of which other kernels hold too.
  bool is_plain = true;
  /// Names in the program, in order: what a decision names (a pattern's last, a group's first).
  std::vector<std::string> instructions;
  std::vector<const rewrite::Rule*> rules;  ///< The forms it can take; "as it is" not among them.
  std::vector<const rewrite::Rule*> promising;  ///< Those that a survey found to win on such nodes.
};

/// The configurations of one program: which decisions can be taken where.
class SearchSpace {
 public:
  SearchSpace(const hlo::Module& module, const SpaceOptions& options);

  const std::vector<Kernel>& kernels() const { return kernels_; }

  /// Gives all instructions of a kernel a form; nullptr: as it is (forms of other kernels stay).
  void set_form(rewrite::Configuration& configuration, const Kernel& kernel,
                const rewrite::Rule* rule) const;
  /// Which of the kernel's forms its first instruction has; nullptr: none, as it is.
  const rewrite::Rule* form_of(const rewrite::Configuration& configuration,
                               const Kernel& kernel) const;

  /// Every single flag setting that the search tries.
  const std::vector<std::pair<std::string, FlagValue>>& flag_choices() const {
    return flag_choices_;
  }

  /// Changes one thing at random: a kernel's form, a layout, a barrier or a flag. Returns false
  /// when the space has no choice at all.
  bool mutate(rewrite::Configuration& configuration, std::mt19937_64& random) const;

  /// Number of independent choices (kernels with rules, layout places, barrier edges, flags).
  size_t num_choices() const;

 private:
  struct LayoutPlace {
    rewrite::Decision place;  ///< Without its layout.
    int64_t rank;
  };

  void find_kernels(const hlo::Module& module);
  void add_to_kernel(const hlo::Instruction& instruction, rewrite::CutOut cut,
                     const std::vector<const rewrite::Rule*>& rules, bool is_plain);
  void find_places(const hlo::Module& module);

  SpaceOptions options_;
  std::vector<Kernel> kernels_;
  std::unordered_map<std::string, size_t> by_signature_;
  std::vector<size_t> open_kernels_;  ///< Indices of kernels that have a rule.
  std::vector<LayoutPlace> layout_places_;
  std::vector<rewrite::Decision> barrier_places_;
  std::vector<std::pair<std::string, FlagValue>> flag_choices_;
};

/// Opcodes whose instructions are worth measuring alone: contractions, windows, gathers, sorts...
bool is_heavy(hlo::Opcode opcode);

}  // namespace lagom::tune

#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "lagom/hlo/module.h"
#include "lagom/measure/worker.h"
#include "lagom/rewrite/configuration.h"
#include "lagom/tune/form_beliefs.h"
#include "lagom/tune/kernel_search.h"
#include "lagom/tune/profile.h"
#include "lagom/tune/space.h"

namespace lagom::tune {

enum class Strategy {
  kConditions,  ///< One candidate: forms by fixed conditions, nothing else; a baseline.
  kGreedy,      ///< Compose the kernels' winners, take back what does not pay, try flags.
  kRandom,      ///< Random configurations.
  kGenetic,     ///< Greedy first, then mutation and crossover of the best.
  kModel,       ///< What is believed of forms and decisions says what is worth measuring.
};
std::string_view strategy_name(Strategy strategy);
/// Throws std::invalid_argument for an unknown name.
Strategy strategy_from_name(std::string_view name);

/// What a search reports while it runs, one line each.
struct TuneEvent {
  double elapsed_seconds = 0;
  double budget_seconds = 0;
  std::string phase;  ///< "baseline", "kernels", "search", "final".
  std::string text;   ///< What just happened.
};

/// One whole-program candidate.
struct Trial {
  int number = 0;
  double elapsed_seconds = 0;  ///< Since the search began.
  int kernel_trials = 0;       ///< Kernels and forms measured alone before it.
  std::string origin;          ///< "conditions", "likely", "greedy", "take back", "flag", "random",
                               ///< "genetic", "final".
  rewrite::Configuration configuration;
  measure::FailureKind failure = measure::FailureKind::kNone;
  std::string error;
  bool measured = false;                    ///< False when it failed or was given up early.
  measure::Ratio ratio;                     ///< Candidate / default.
  double seconds = 0, default_seconds = 0;  ///< Medians of the pairs; 0 when not measured.
  double compile_seconds = 0;
};

struct TuneOptions {
  double budget_seconds = 60;  ///< Of wall time for the whole search; 0: no limit but `max_trials`.
  int max_trials = 0;          ///< Whole-program candidates; 0: no limit but the budget.
  Strategy strategy = Strategy::kGenetic;
  uint64_t seed = 1;
  SpaceOptions space;
  /// A result may take this many times the default's time to compile; 0: any time.
  double max_compile_ratio = 3;
  double compile_slack_seconds = 1;  ///< So much more is always allowed: nobody waits for it.
  std::filesystem::path database;    ///< Folder of kernel measurements; empty: memory only.
  /// kModel: another such folder, whose kernels inform the search whatever device they come from.
  std::filesystem::path inform_from;
  CostModel cost_model;            ///< kModel: may be empty.
  double explore_share = 0.1;      ///< kModel: candidates that are drawn as kGenetic does.
  bool learns = true;  ///< kModel: from the program's measurements; false for comparisons.
  int explain_top = 0;             ///< So many decisions are measured in place (DecisionReport).
  double limit_trial_seconds = 0;  ///< Wall time for compiling and timing a candidate; 0: none.
  measure::WorkerOptions worker;
  std::function<bool()> should_stop;  ///< Ctrl-C: what was reached is returned.
  std::function<void(const TuneEvent&)> on_event;
  std::function<void(const measure::BaselineResult&)> on_baseline;  ///< Before the search.
  std::function<void(const Trial&)> on_trial;  ///< After each whole-program candidate.
  /// Text forms of configurations that random and genetic search need not try again.
  std::set<std::string> known;
  /// Candidates slower than this many times the default are given up.
  double stop_ratio = 1.5;
};

/// A decision of the result, for people.
struct DecisionReport {
  rewrite::Decision decision;
  std::string opcode, shape, op_name, source;
  /// Seconds of one execution of the node alone, as it is and as decided; 0 when not measured.
  double default_seconds = 0, seconds = 0;
  std::string advice;  ///< How a JAX user would write it.
  /// What the whole program loses without it (and the same form in equal places), as a share of the
  /// default's time; NaN when that was not measured.
  double effect_in_place = std::numeric_limits<double>::quiet_NaN();
};

struct TuneResult {
  std::string program;  ///< The module's name.
  measure::WorkerInfo device;
  measure::BaselineResult baseline;
  bool stopped = false;  ///< By the caller, before the search was done.
  std::string note;      ///< Why the default is returned, or what weakens the result; may be empty.

  rewrite::Configuration configuration;  ///< Default when nothing beat the noise floor.
  measure::Ratio ratio;                  ///< Of the final, fresh measurement; 1 for the default.
  bool retimed = false;                  ///< `ratio` comes from the final measurement.
  double default_seconds = 0, tuned_seconds = 0;
  std::vector<measure::OutputComparison> outputs;  ///< Tuned against default.
  double default_compile_seconds = 0, tuned_compile_seconds = 0;
  /// How far a deliberate 1 % error in the forms' values moves the outputs, relative to their
  /// largest values; NaN when it was not tried. Little or nothing: the comparison of the outputs
  /// does not see the forms, and only the comparison of each kernel alone vouches for them.
  double fault_shift = std::numeric_limits<double>::quiet_NaN();
  /// Each form of the configuration was compared with its kernel as it is.
  bool forms_compared_alone = false;
  double program_flops = 0;  ///< Of one run, by the shapes.

  std::deque<Trial> trials;           ///< A deque: references stay good while a search appends.
  std::vector<KernelResult> kernels;  ///< By SearchSpace order; those that were reached.
  std::vector<DecisionReport> decisions;
  int num_kernel_trials = 0;  ///< Kernels and forms measured alone, not known before.
  int num_dropped = 0;  ///< Decisions that were dropped after the search since they did not pay.
  MachineRate machine;
  int64_t copies_before = -1, copies_after = -1;  ///< In the optimised programs; -1 unknown.
  double elapsed_seconds = 0;

  double speedup() const { return ratio.median > 0 ? 1 / ratio.median : 1; }
};

/// Searches a faster program with the same results: forms of the heavy nodes measured one by one,
/// composed, then the strategy on the whole program; every candidate's outputs are compared with
/// the default's; the best few are timed afresh at the end and only that figure counts.
///
/// Throws std::invalid_argument for programs whose inputs cannot be made, SystemError when there is
/// no worker or plugin or the default itself cannot be compiled or run.
TuneResult tune(const hlo::Module& module, const SearchSpace& space, const TuneOptions& options);

/// Times a result of an earlier search afresh, and the forms by conditions beside it, without any
/// search. Budget and trials of `options` are not used. Throws as tune.
TuneResult retime(const hlo::Module& module, const SearchSpace& space, const TuneOptions& options,
                  const rewrite::Configuration& configuration);

}  // namespace lagom::tune

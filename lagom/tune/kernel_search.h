#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lagom/measure/worker.h"
#include "lagom/tune/database.h"
#include "lagom/tune/neighbours.h"
#include "lagom/tune/space.h"

namespace lagom::tune {

/// What a kernel costs in each of its forms, measured alone.
struct KernelResult {
  size_t kernel = 0;  ///< Index into SearchSpace::kernels().
  double default_seconds = 0;
  double default_compile_seconds = 0;
  std::vector<KernelRecord> forms;  ///< One per rule that was tried, failures included.
  std::string error;                ///< The default itself failed: why.
  bool from_database = false;       ///< Nothing had to be measured.
  int num_trials = 0;               ///< Times something was: the default, forms.

  /// The fastest form whose interval lies wholly below "as it is"; nullptr when there is none.
  const KernelRecord* best() const;
  /// Seconds that compiling one instruction in the best form takes more than as it is.
  double added_compile_seconds() const;
  /// Seconds of one execution in the best form, and what that saves.
  double best_seconds() const;
  double saving_seconds() const { return default_seconds - best_seconds(); }
};

/// Text form of the configuration that gives a cut-out's node the rule's form.
std::string form_configuration(const rewrite::Rule& rule);

/// Relative error that candidates with forms of the relaxed class may have: some rounding steps of
/// bf16.
inline constexpr double kRelaxedError = 0.02;

struct KernelSearchOptions {
  uint64_t seed = 1;
  double seconds_per_form = 0.6;  ///< For timing, beside compiling.
  /// A kernel whose default takes less than this in all its places together keeps its form: nothing
  /// could be gained that a whole program shows.
  double min_total_seconds = 0;
  bool known_only = false;      ///< Measure nothing: only what the database knows.
  bool promising_only = false;  ///< Leave rules untried that seldom win on such nodes.
  /// What is believed of log(seconds in the form / as it is), by the places of Kernel::rules: the
  /// likeliest winner is tried first, and none from which less than `min_gain_seconds` more is
  /// expected in all places together. Empty: all are tried, promising ones first.
  std::vector<Belief> beliefs;
  double min_gain_seconds = 0;
  /// Forms slower than this many times the default, or three times the best so far, are given up.
  double stop_ratio = 2;
  double limit_seconds = 20;  ///< Wall time for compiling and checking one form.
  /// What the machine reaches at best; a form whose FLOPs alone would take longer than the fastest
  /// so far is not tried. 0: unknown.
  double flops_per_second = 0;
  std::function<bool()> should_stop;
  /// After each kernel.
  std::function<void(const Kernel&, const KernelResult&)> on_result;
};

/// Seconds that a form is expected to save of a kernel that takes `seconds`, and `best_seconds` in
/// its best form so far: the mean of max(0, best_seconds - seconds * exp(log_ratio)).
double expected_gain(const Belief& log_ratio, double seconds, double best_seconds);

/// Measures a kernel's default and all its forms on the worker; what the database knows is taken
/// from there. A kernel without rules gets its default time only.
KernelResult search_kernel(const Kernel& kernel, size_t index, measure::Worker& worker,
                           Database& database, const KernelSearchOptions& options);

/// Whether the form can be run alone and gives the default's numbers there.
bool gives_right_numbers(const Kernel& kernel, const rewrite::Rule& rule, measure::Worker& worker,
                         uint64_t seed);

}  // namespace lagom::tune

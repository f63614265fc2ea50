#pragma once

#include <chrono>
#include <random>
#include <set>
#include <string>
#include <unordered_map>

#include "lagom/tune/tuner.h"

namespace lagom::tune {

/// What only the last measurement of a candidate looks at.
struct Finalist {
  std::vector<measure::OutputComparison> outputs;
  int64_t default_copies = -1, copies = -1;  ///< In the optimised programs; -1: unknown.
};

/// What the steps of one search share: the program and its space, the two workers (one holds the
/// program's default, the other kernels'), time, reports, and the trials so far.
class SearchSession {
 public:
  SearchSession(const hlo::Module& module, const SearchSpace& space, const TuneOptions& options);

  const hlo::Module& module() const { return module_; }
  const SearchSpace& space() const { return space_; }
  const TuneOptions& options() const { return options_; }
  measure::Worker& program_worker() { return program_worker_; }
  measure::Worker& kernel_worker() { return kernel_worker_; }
  std::mt19937_64& random() { return random_; }
  TuneResult& result() { return result_; }
  const TuneResult& result() const { return result_; }

  /// Time of the search, without what was spent waiting for others to finish their timing.
  double elapsed() const;
  bool stopped() const { return options_.should_stop && options_.should_stop(); }
  /// True when this share of the budget is used up, or the caller wants to stop.
  bool past(double share) const;
  bool trials_left() const;
  /// Whether another candidate may be measured: this share of the budget is not used up, trials are
  /// left, and one more like the last, or taking `size` times as long, leaves time for the final
  /// measurement.
  bool may_try(double share, double size = 1) const;
  /// The same without regard to the number of trials.
  bool has_time_for_trial(double share, double size = 1) const;
  /// Wall time that the last candidate took, compiling included.
  double last_trial_seconds() const { return last_trial_seconds_; }
  void report(const std::string& phase, const std::string& text) const;

  /// Compiles, runs and times the default on healthy inputs. Throws SystemError when it does not
  /// run.
  void load_baseline();

  /// The default, or the program with these decisions, as the worker takes it.
  measure::Program program(const rewrite::Configuration& configuration = {}) const;

  /// Measures one configuration on the whole program. A known one is not measured again unless
  /// `fresh`, which also keeps the comparison of its outputs.
  const Trial& try_configuration(const rewrite::Configuration& configuration,
                                 const std::string& origin, const measure::TimingOptions& timing,
                                 bool fresh = false);
  bool was_tried(const rewrite::Configuration& configuration) const {
    const std::string text = configuration.to_string();
    return tried_.contains(text) || options_.known.contains(text);
  }
  /// Of a configuration measured with `fresh`; empty for others.
  const Finalist& finalist(const rewrite::Configuration& configuration) const;

  /// How far an error of 1 % in the values of the configuration's forms moves the outputs, relative
  /// to their largest values (integers: the share that changes); NaN when that cannot be run.
  double shift_of_fault(const rewrite::Configuration& configuration);

  /// Whether a trial was measured to the end and compiles within the limit.
  bool is_eligible(const Trial& trial) const;
  /// Seconds that a result may take to compile; infinite without a limit.
  double compile_limit() const;
  /// The fastest of the trials that were faster than the default and took too long to compile;
  /// nullptr when there is none.
  const Trial* best_slow_compile() const;

  /// The fastest eligible candidate so far; nullptr when there is none.
  const Trial* best_trial() const;
  /// Its configuration, or the default's when nothing was faster.
  rewrite::Configuration best_configuration() const;
  /// The eligible trials, fastest first.
  std::vector<const Trial*> measured_trials() const;

  /// For candidates during the search.
  measure::TimingOptions search_timing() const;
  /// Programs that take so long that the usual number of pairs would eat the budget.
  bool is_slow() const { return result_.default_seconds > 0.5; }

  /// By kernel and the places of its rules: log(seconds in the form / as it is), as believed before
  /// measuring; empty where nobody was asked.
  std::vector<std::vector<Belief>>& beliefs() { return beliefs_; }
  const std::vector<std::vector<Belief>>& beliefs() const { return beliefs_; }
  /// The form that a kernel should get unmeasured: the most promising, or the one that is believed
  /// to win; nullptr for as it is.
  const rewrite::Rule* likely_form(size_t kernel) const;

  /// The configuration to return unless another finalist is faster by more than `tolerance`; empty
  /// until one is set.
  void prefer(rewrite::Configuration configuration) { preferred_ = std::move(configuration); }
  const rewrite::Configuration& preferred() const { return preferred_; }
  /// Relative differences of ratios below this mean nothing.
  double tolerance() const;
  /// By instruction, or text of a decision that is no form, or flag; see
  /// DecisionReport::effect_in_place.
  std::unordered_map<std::string, double>& effects_in_place() { return effects_in_place_; }

  /// Flags that the compiler did not know.
  const std::set<std::string>& dropped_flags() const { return dropped_flags_; }
  /// What must not be mixed in the database: platform, versions, CPUs.
  std::string device_key() const;

 private:
  measure::WorkerOptions worker_options() const;
  std::string describe_trial(const Trial& trial) const;

  const hlo::Module& module_;
  const SearchSpace& space_;
  const TuneOptions& options_;
  std::chrono::steady_clock::time_point start_;
  std::mt19937_64 random_;
  measure::Worker program_worker_, kernel_worker_;
  double last_trial_seconds_ = 0;
  std::unordered_map<std::string, size_t> tried_;
  std::unordered_map<std::string, Finalist> finalists_;
  std::set<std::string> dropped_flags_;
  std::vector<std::vector<Belief>> beliefs_;
  rewrite::Configuration preferred_;
  std::unordered_map<std::string, double> effects_in_place_;
  TuneResult result_;
};

/// "12.3 %", "2.41x", "0.52 ms": for reports and notes.
std::string percent_text(double share);
std::string factor_text(double factor);
std::string milliseconds_text(double seconds);

}  // namespace lagom::tune

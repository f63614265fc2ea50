#include "lagom/tune/tuner.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <unordered_map>

#include "lagom/hlo/cost_analysis.h"
#include "lagom/tune/advice.h"
#include "lagom/tune/conditions.h"
#include "lagom/tune/graph_level.h"
#include "lagom/tune/guided.h"
#include "lagom/tune/kernel_level.h"
#include "lagom/tune/search_session.h"
#include "lagom/tune/shrink.h"

namespace lagom::tune {
namespace {

using rewrite::Configuration;

void add_note(TuneResult& result, const std::string& note) {
  result.note += (result.note.empty() ? "" : "; ") + note;
}

/// The preferred one and the few fastest, each once.
std::vector<Configuration> pick_finalists(const SearchSession& session) {
  constexpr size_t kMaxFinalists = 3;
  std::vector<Configuration> finalists;
  if (!session.preferred().is_default()) finalists.push_back(session.preferred());
  for (const Trial* trial : session.measured_trials()) {
    if (trial->ratio.median >= 1 || finalists.size() == kMaxFinalists) break;
    if (std::find(finalists.begin(), finalists.end(), trial->configuration) == finalists.end()) {
      finalists.push_back(trial->configuration);
    }
  }
  return finalists;
}

measure::TimingOptions final_timing(const SearchSession& session) {
  const double budget = session.options().budget_seconds;
  const double left = budget > 0 ? std::max(budget - session.elapsed(), 3.0) : 12.0;
  return {.min_pairs = session.is_slow() ? 5 : 11,
          .target_width = 0.02,
          .budget_seconds = std::min(left / 5, 4.0)};
}

/// The best of many noisy times flatters: the few best are timed afresh, and that figure counts.
/// After a stop, the best of the search is all there is. nullptr when nothing was faster.
const Trial* time_finalists(SearchSession& session) {
  const std::vector<Configuration> finalists = pick_finalists(session);
  if (finalists.empty()) return nullptr;
  const Trial* const best_of_search = session.best_trial();
  const double budget = session.options().budget_seconds;
  const measure::TimingOptions timing = final_timing(session);
  const Trial* best = nullptr;
  for (const Configuration& configuration : finalists) {
    const bool late = budget > 0 && session.elapsed() + session.last_trial_seconds() > budget;
    if (session.stopped() || (best != nullptr && late)) break;
    const Trial& trial = session.try_configuration(configuration, "final", timing, /*fresh=*/true);
    if (!trial.measured) continue;
    // The first is the preferred one, with fewer decisions: others must be faster beyond the noise.
    const bool beats_preferred =
        best == nullptr || best->configuration != session.preferred() ||
        trial.ratio.median < best->ratio.median / (1 + session.tolerance());
    if (best == nullptr || (beats_preferred && trial.ratio.median < best->ratio.median)) {
      best = &trial;
    }
  }
  session.result().retimed = best != nullptr;
  return best == nullptr && session.stopped() ? best_of_search : best;
}

/// Takes the finalist if it beats the noise floor, and the pessimistic end of its interval half of
/// it; else the default.
void settle(SearchSession& session, const Trial* best) {
  TuneResult& result = session.result();
  const double floor = result.baseline.noise_floor;
  result.tuned_seconds = result.default_seconds;
  if (best == nullptr) {
    if (const Trial* slow = session.best_slow_compile()) {
      add_note(result, "no candidate was faster than the default within " +
                           factor_text(session.options().max_compile_ratio) +
                           " of its compile time; one that took longer was " +
                           factor_text(1 / slow->ratio.median) +
                           " faster (--allow-slow-compile takes it)");
    } else {
      add_note(result, "no candidate was faster than the default");
    }
    return;
  }
  if (best->ratio.median > 1 - floor || best->ratio.high > 1 - floor / 2) {
    add_note(result, "the best candidate, " + factor_text(1 / best->ratio.median) +
                         ", does not beat the noise floor of " + percent_text(floor) +
                         ": the default is returned");
    return;
  }
  result.configuration = best->configuration;
  result.ratio = best->ratio;
  result.tuned_seconds = result.default_seconds * best->ratio.median;
  result.tuned_compile_seconds = best->compile_seconds;
  const Finalist& finalist = session.finalist(best->configuration);
  result.outputs = finalist.outputs;
  result.copies_before = finalist.default_copies;
  result.copies_after = finalist.copies;
}

/// Each decision with its source and what it brings alone.
void describe_decisions(SearchSession& session) {
  TuneResult& result = session.result();
  std::unordered_map<std::string, const KernelResult*> kernel_of;
  for (const KernelResult& kernel : result.kernels) {
    for (const std::string& name : session.space().kernels()[kernel.kernel].instructions) {
      kernel_of[name] = &kernel;
    }
  }
  for (const rewrite::Decision& decision : result.configuration.decisions) {
    DecisionReport report = describe_decision(session.module(), decision);
    const auto it = kernel_of.find(decision.instruction);
    if (decision.kind == rewrite::DecisionKind::kForm && it != kernel_of.end()) {
      for (const KernelRecord& record : it->second->forms) {
        const Configuration form = Configuration::from_string(record.configuration);
        if (form.decisions.at(0).form != decision.form) continue;
        report.default_seconds = it->second->default_seconds;
        report.seconds = it->second->default_seconds * record.ratio.median;
      }
    }
    const auto& effects = session.effects_in_place();
    const auto effect =
        effects.find(decision.kind == rewrite::DecisionKind::kForm ? decision.instruction
                                                                   : decision.to_string());
    if (effect != effects.end()) report.effect_in_place = effect->second;
    result.decisions.push_back(std::move(report));
  }
}

/// Measured alone with the right numbers.
bool is_proven_alone(const TuneResult& result, size_t kernel, const rewrite::Rule& rule) {
  const std::string configuration = form_configuration(rule);
  for (const KernelResult& known : result.kernels) {
    if (known.kernel != kernel) continue;
    for (const KernelRecord& record : known.forms) {
      if (record.configuration == configuration && record.seconds) return true;
    }
  }
  return false;
}

bool all_proven_alone(const SearchSession& session) {
  const auto& kernels = session.space().kernels();
  for (size_t i = 0; i < kernels.size(); ++i) {
    const rewrite::Rule* rule = session.space().form_of(session.result().configuration, kernels[i]);
    if (rule != nullptr && !is_proven_alone(session.result(), i, *rule)) return false;
  }
  return true;
}

/// Forms that the comparison of the whole program's outputs does not see are compared one by one;
/// those that cannot be, or are wrong, go. False when some went.
bool vouch_for_forms(SearchSession& session, Configuration& configuration) {
  bool all = true;
  for (size_t i = 0; i < session.space().kernels().size(); ++i) {
    const Kernel& kernel = session.space().kernels()[i];
    const rewrite::Rule* rule = session.space().form_of(configuration, kernel);
    if (rule == nullptr || is_proven_alone(session.result(), i, *rule)) continue;
    if (gives_right_numbers(kernel, *rule, session.kernel_worker(), session.options().seed)) {
      continue;
    }
    session.space().set_form(configuration, kernel, nullptr);
    all = false;
  }
  return all;
}

/// Checks the check: would the outputs have shown a wrong form? Where every form was compared alone
/// and the time is used up, nothing hangs on the answer.
void check_comparison(SearchSession& session) {
  TuneResult& result = session.result();
  const auto& decisions = result.configuration.decisions;
  const bool has_forms = std::any_of(decisions.begin(), decisions.end(), [](const auto& d) {
    return d.kind == rewrite::DecisionKind::kForm;
  });
  if (!has_forms || session.stopped()) return;
  const double budget = session.options().budget_seconds;
  const bool late = budget > 0 && session.elapsed() + result.tuned_compile_seconds > budget;
  result.forms_compared_alone = all_proven_alone(session);
  if (late && result.forms_compared_alone) return;
  result.fault_shift = session.shift_of_fault(result.configuration);
  double error = 0;
  for (const auto& output : result.outputs) error = std::max(error, output.relative_error());
  if (result.fault_shift > 0 && result.fault_shift >= 10 * error) return;
  add_note(result, "an error of 1 % in the forms' values moves the outputs by only " +
                       percent_text(std::max(result.fault_shift, 0.0)) +
                       ": the forms were compared one by one");
  Configuration kept = result.configuration;
  if (vouch_for_forms(session, kept)) {
    result.forms_compared_alone = true;
    return;
  }
  add_note(result, "forms that could not be compared alone were taken back");
  const Trial* trial = nullptr;
  if (!kept.is_default()) {
    trial = &session.try_configuration(kept, "final", final_timing(session), /*fresh=*/true);
    if (!trial->measured) trial = nullptr;
  }
  result.configuration = {};
  result.ratio = {};
  result.outputs.clear();
  settle(session, trial);
}

}  // namespace

std::string_view strategy_name(Strategy strategy) {
  switch (strategy) {
    case Strategy::kConditions:
      return "conditions";
    case Strategy::kGreedy:
      return "greedy";
    case Strategy::kRandom:
      return "random";
    case Strategy::kGenetic:
      return "genetic";
    case Strategy::kModel:
      return "model";
  }
  return "";
}

Strategy strategy_from_name(std::string_view name) {
  for (const Strategy s : {Strategy::kConditions, Strategy::kGreedy, Strategy::kRandom,
                           Strategy::kGenetic, Strategy::kModel}) {
    if (strategy_name(s) == name) return s;
  }
  throw std::invalid_argument("unknown strategy '" + std::string(name) +
                              "', expected conditions, greedy, random, genetic or model");
}

TuneResult tune(const hlo::Module& module, const SearchSpace& space, const TuneOptions& options) {
  SearchSession session(module, space, options);
  session.load_baseline();
  if (options.on_baseline) options.on_baseline(session.result().baseline);
  session.result().program_flops = hlo::CostAnalysis(module).total().flops;
  const auto& kernels = space.kernels();
  if (std::all_of(kernels.begin(), kernels.end(), [](const auto& k) { return k.rules.empty(); })) {
    session.report("baseline", space.num_choices() == 0
                                   ? "nothing can be configured here"
                                   : "no operation here has another form: what is left are flags, "
                                     "layouts and barriers");
  }
  const bool by_kernels =
      options.strategy == Strategy::kGreedy || options.strategy == Strategy::kGenetic;
  // A search is to beat the conditions, and has their result where time is short. Where the
  // database knows most kernels there is something better to begin with.
  constexpr double kWellKnown = 0.8;
  if (by_kernels && recall_kernels(session) >= kWellKnown) {
    try_likely_forms(session);
  } else if (by_kernels || options.strategy == Strategy::kConditions) {
    try_conditions(session);
  }
  if (by_kernels) {
    search_kernels(session);
    compose_winners(session);
    take_back_forms(session);
    try_flags(session);
    time_other_kernels(session);
  }
  if (options.strategy == Strategy::kModel) {
    form_beliefs(session);
    recall_kernels(session);
    try_likely_forms(session);
    if (session.best_trial() == nullptr)
      try_conditions(session);  // wrong, slow, or slow to compile
    search_likely_kernels(session);
    compose_winners(session);
    explore_guided(session);
  }
  if (options.strategy == Strategy::kRandom || options.strategy == Strategy::kGenetic) {
    explore(session, /*genetic=*/options.strategy == Strategy::kGenetic);
  }
  if (options.strategy != Strategy::kConditions) drop_what_does_not_pay(session);
  if (options.explain_top > 0) measure_effects_in_place(session, options.explain_top);
  for (const KernelResult& kernel : session.result().kernels) {
    session.result().num_kernel_trials += kernel.num_trials;
  }
  settle(session, time_finalists(session));
  check_comparison(session);
  describe_decisions(session);
  session.result().stopped = session.stopped();
  session.result().elapsed_seconds = session.elapsed();
  return std::move(session.result());
}

TuneResult retime(const hlo::Module& module, const SearchSpace& space, const TuneOptions& options,
                  const Configuration& configuration) {
  TuneOptions untimed = options;
  untimed.budget_seconds = 0;
  untimed.max_trials = 0;
  SearchSession session(module, space, untimed);
  session.load_baseline();
  session.result().program_flops = hlo::CostAnalysis(module).total().flops;
  const measure::TimingOptions timing = {
      .min_pairs = session.is_slow() ? 7 : 15, .target_width = 0.02, .budget_seconds = 4};
  const Trial* best = nullptr;
  if (!configuration.is_default()) {
    const Trial& trial = session.try_configuration(configuration, "final", timing, /*fresh=*/true);
    if (trial.measured) best = &trial;
    if (!trial.measured && trial.failure != measure::FailureKind::kNone) {
      add_note(session.result(), "the result of the search failed: " + trial.error);
    }
  }
  session.result().retimed = best != nullptr;
  const Configuration conditions = configuration_by_conditions(space);
  if (!conditions.is_default()) {
    session.try_configuration(conditions, "conditions", timing, /*fresh=*/true);
  }
  settle(session, best);
  session.result().stopped = session.stopped();
  session.result().elapsed_seconds = session.elapsed();
  return std::move(session.result());
}

}  // namespace lagom::tune

#include "lagom/tune/tuner.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

#include "lagom/hlo/proto_reader.h"
#include "lagom/tune/advice.h"
#include "lagom/tune/graph_level.h"
#include "lagom/tune/kernel_level.h"
#include "lagom/tune/search_session.h"

namespace lagom::tune {
namespace {

using rewrite::Configuration;

/// Instructions that move data and compute nothing, in the compiler's own program.
int64_t count_copies(const std::string& module_bytes) {
  const hlo::Module module = hlo::read_hlo_proto(module_bytes, "optimised program");
  int64_t count = 0;
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) {
      count += i->opcode == hlo::Opcode::kCopy || i->opcode == hlo::Opcode::kTranspose;
    }
  }
  return count;
}

void add_note(TuneResult& result, const std::string& note) {
  result.note += (result.note.empty() ? "" : "; ") + note;
}

/// The few fastest, each once.
std::vector<Configuration> pick_finalists(const SearchSession& session) {
  constexpr size_t kMaxFinalists = 3;
  std::vector<Configuration> finalists;
  for (const Trial* trial : session.measured_trials()) {
    if (trial->ratio.median >= 1 || finalists.size() == kMaxFinalists) break;
    if (std::find(finalists.begin(), finalists.end(), trial->configuration) == finalists.end()) {
      finalists.push_back(trial->configuration);
    }
  }
  return finalists;
}

/// The best of many noisy times flatters: the few best are timed afresh, and that figure counts.
/// After a stop, the best of the search is all there is. nullptr when nothing was faster.
const Trial* time_finalists(SearchSession& session) {
  const std::vector<Configuration> finalists = pick_finalists(session);
  if (finalists.empty()) return nullptr;
  const Trial* const best_of_search = session.best_trial();
  const double budget = session.options().budget_seconds;
  const double left = budget > 0 ? std::max(budget - session.elapsed(), 3.0) : 12.0;
  const measure::TimingOptions timing{.min_pairs = session.is_slow() ? 5 : 11,
                                      .target_width = 0.02,
                                      .budget_seconds = std::min(left / 5, 4.0)};
  const Trial* best = nullptr;
  for (const Configuration& configuration : finalists) {
    const bool late = budget > 0 && session.elapsed() + session.last_trial_seconds() > budget;
    if (session.stopped() || (best != nullptr && late)) break;
    const Trial& trial = session.try_configuration(configuration, "final", timing, /*fresh=*/true);
    if (trial.measured && (best == nullptr || trial.ratio.median < best->ratio.median)) {
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
    add_note(result, "no candidate was faster than the default");
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
  result.outputs = session.outputs_of(best->configuration);
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
    result.decisions.push_back(std::move(report));
  }
}

void count_copies(SearchSession& session) {
  TuneResult& result = session.result();
  if (result.configuration.is_default() || session.stopped()) return;
  measure::Worker& worker = session.program_worker();
  const measure::OptimizedResult before = worker.optimized(session.program());
  const measure::OptimizedResult after = worker.optimized(session.program(result.configuration));
  if (!before.ok() || !after.ok() || before.module.empty() || after.module.empty()) return;
  result.copies_before = count_copies(before.module);
  result.copies_after = count_copies(after.module);
}

}  // namespace

std::string_view strategy_name(Strategy strategy) {
  switch (strategy) {
    case Strategy::kGreedy:
      return "greedy";
    case Strategy::kRandom:
      return "random";
    case Strategy::kGenetic:
      return "genetic";
  }
  return "";
}

Strategy strategy_from_name(std::string_view name) {
  for (const Strategy s : {Strategy::kGreedy, Strategy::kRandom, Strategy::kGenetic}) {
    if (strategy_name(s) == name) return s;
  }
  throw std::invalid_argument("unknown strategy '" + std::string(name) +
                              "', expected greedy, random or genetic");
}

TuneResult tune(const hlo::Module& module, const SearchSpace& space, const TuneOptions& options) {
  SearchSession session(module, space, options);
  session.load_baseline();
  if (options.strategy != Strategy::kRandom) {
    search_kernels(session);
    compose_winners(session);
    take_back_forms(session);
    try_flags(session);
    time_other_kernels(session);
  }
  if (options.strategy != Strategy::kGreedy) {
    explore(session, /*genetic=*/options.strategy == Strategy::kGenetic);
  }
  settle(session, time_finalists(session));
  describe_decisions(session);
  count_copies(session);
  session.result().stopped = session.stopped();
  session.result().elapsed_seconds = session.elapsed();
  return std::move(session.result());
}

}  // namespace lagom::tune

#include "lagom/tune/shrink.h"

#include <algorithm>

namespace lagom::tune {
namespace {

using rewrite::Configuration;
using rewrite::DecisionKind;

constexpr int kMaxTrials = 12;
/// Decisions that should save more than this share of the time are not doubted.
constexpr double kSurelyPays = 0.03;

/// A kernel's form in all its places, another decision, or a flag.
struct Unit {
  const Kernel* kernel = nullptr;
  rewrite::Decision decision;  ///< Without a kernel.
  std::string flag;
  double saving = 0;  ///< Believed, as a share of the default's time.
};

std::vector<Unit> units_of(const SearchSession& session, const Configuration& configuration) {
  std::vector<Unit> units;
  const TuneResult& result = session.result();
  std::vector<double> savings(session.space().kernels().size(), 0.0);
  for (const KernelResult& kernel : result.kernels) {
    const rewrite::Rule* rule =
        session.space().form_of(configuration, session.space().kernels()[kernel.kernel]);
    if (rule == nullptr) continue;
    for (const KernelRecord& record : kernel.forms) {
      if (record.configuration != form_configuration(*rule) || !record.seconds) continue;
      const auto places =
          static_cast<double>(session.space().kernels()[kernel.kernel].instructions.size());
      savings[kernel.kernel] =
          places * kernel.default_seconds * (1 - record.ratio.median) / result.default_seconds;
    }
  }
  for (size_t k = 0; k < savings.size(); ++k) {
    const Kernel& kernel = session.space().kernels()[k];
    if (session.space().form_of(configuration, kernel) != nullptr) {
      units.push_back({.kernel = &kernel, .saving = savings[k]});
    }
  }
  for (const rewrite::Decision& decision : configuration.decisions) {
    if (decision.kind != DecisionKind::kForm) units.push_back({.decision = decision});
  }
  for (const auto& [name, value] : configuration.flags) units.push_back({.flag = name});
  std::stable_sort(units.begin(), units.end(),
                   [](const Unit& a, const Unit& b) { return a.saving < b.saving; });
  return units;
}

Configuration without(const SearchSession& session, Configuration configuration,
                      std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (unit.kernel != nullptr) {
      session.space().set_form(configuration, *unit.kernel, nullptr);
    } else if (!unit.flag.empty()) {
      configuration.flags.erase(unit.flag);
    } else {
      configuration.remove(unit.decision);
    }
  }
  return configuration;
}

class Shrinking {
 public:
  explicit Shrinking(SearchSession& session)
      : session_(session), kept_(session.best_configuration()) {}

  void run() {
    if (kept_.is_default() || !session_.has_time_for_trial(0.9)) return;
    // The best of many noisy times flatters: what is left out is to be compared with a fresh one.
    const Trial& whole = session_.try_configuration(kept_, "shrink", session_.search_timing(),
                                                    /*fresh=*/true);
    if (!whole.measured) return;
    limit_ = whole.ratio.median * (1 + session_.tolerance());
    std::vector<Unit> doubtful = units_of(session_, kept_);
    std::erase_if(doubtful, [](const Unit& unit) { return unit.saving > kSurelyPays; });
    const size_t before = units_of(session_, kept_).size();
    drop(doubtful);
    session_.prefer(kept_);
    const size_t dropped = before - units_of(session_, kept_).size();
    session_.result().num_dropped = static_cast<int>(dropped);
    if (dropped > 0) {
      session_.report("search", std::to_string(dropped) + " of " + std::to_string(before) +
                                    " decisions did not pay and were dropped");
    }
  }

 private:
  void drop(std::span<const Unit> units) {
    if (units.empty() || num_trials_ >= kMaxTrials || !session_.has_time_for_trial(0.9)) return;
    Configuration less = without(session_, kept_, units);
    if (less == kept_) return;
    if (!less.is_default()) {
      ++num_trials_;
      const Trial& trial = session_.try_configuration(less, "shrink", session_.search_timing());
      if (session_.is_eligible(trial) && trial.ratio.median <= limit_) {
        kept_ = std::move(less);
        return;
      }
    }
    if (units.size() == 1) return;
    drop(units.first(units.size() / 2));
    drop(units.subspan(units.size() / 2));
  }

  SearchSession& session_;
  Configuration kept_;
  double limit_ = 0;
  int num_trials_ = 0;
};

}  // namespace

void drop_what_does_not_pay(SearchSession& session) {
  Shrinking(session).run();
}

void measure_effects_in_place(SearchSession& session, int count) {
  const Configuration configuration =
      session.preferred().is_default() ? session.best_configuration() : session.preferred();
  std::vector<Unit> units = units_of(session, configuration);
  std::reverse(units.begin(), units.end());
  if (count < static_cast<int>(units.size())) units.resize(static_cast<size_t>(count));
  if (units.empty()) return;
  const Trial whole = session.try_configuration(configuration, "in place", session.search_timing());
  if (!whole.measured) return;
  for (const Unit& unit : units) {
    if (session.stopped()) return;
    const Configuration less = without(session, configuration, {&unit, 1});
    // Without the only decision it is the default.
    double ratio = 1;
    if (!less.is_default()) {
      const Trial& trial = session.try_configuration(less, "in place", session.search_timing());
      if (!trial.measured) continue;
      ratio = trial.ratio.median;
    }
    const double effect = ratio - whole.ratio.median;
    if (unit.kernel != nullptr) {
      for (const std::string& name : unit.kernel->instructions) {
        session.effects_in_place()[name] = effect;
      }
    } else {
      session.effects_in_place()[unit.flag.empty() ? unit.decision.to_string() : unit.flag] =
          effect;
    }
  }
}

}  // namespace lagom::tune

#include "lagom/tune/graph_level.h"

#include <algorithm>
#include <set>

#include "lagom/tune/conditions.h"
#include "lagom/tune/offspring.h"

namespace lagom::tune {
namespace {

using rewrite::Configuration;

/// The first candidate is worth more than any later one: it may begin until so much of the budget
/// is used up.
constexpr double kFirstShare = 0.8;

/// Places that a kernel's form changes.
double num_places(const SearchSession& session, const KernelResult& kernel) {
  return static_cast<double>(session.space().kernels()[kernel.kernel].instructions.size());
}

class Composer {
 public:
  explicit Composer(SearchSession& session) : session_(session) {}

  void try_likely() {
    const auto& kernels = session_.result().kernels;
    std::vector<size_t> winners;
    for (size_t k = 0; k < kernels.size(); ++k) {
      if (kernels[k].best() != nullptr) winners.push_back(k);
    }
    add_unmeasured();
    const Configuration configuration = with_forms(winners);
    if (configuration.is_default() || !session_.may_try(kFirstShare)) return;
    session_.try_configuration(configuration, "likely", session_.search_timing());
  }

  void compose() {
    const auto& kernels = session_.result().kernels;
    std::vector<size_t> winners, large;
    for (size_t k = 0; k < kernels.size(); ++k) {
      if (kernels[k].best() == nullptr) continue;
      winners.push_back(k);
      const double saving = kernels[k].saving_seconds() * num_places(session_, kernels[k]);
      if (saving > 0.01 * session_.result().default_seconds) large.push_back(k);
    }
    add_unmeasured();
    if (winners.empty() && unmeasured_.decisions.empty()) {
      if (!kernels.empty()) session_.report("search", "no kernel is faster in another form");
      return;
    }
    if (!unmeasured_.decisions.empty()) {
      // There was no time for some kernels: their promising forms get a chance in the whole.
      const Trial* trial = measure(winners);
      if (winners.empty()) return;
      const bool is_sound = trial != nullptr && trial->failure == measure::FailureKind::kNone;
      if (is_sound && !session_.may_try(0.8)) return;
    }
    unmeasured_.decisions.clear();
    const std::vector<size_t> sound = fit_compile_time(compose_sound(winners));
    // Small gains are often noise, and a form can spoil a fusion: the large ones by themselves.
    std::erase_if(
        large, [&](size_t k) { return std::find(sound.begin(), sound.end(), k) == sound.end(); });
    if (!large.empty() && large.size() < sound.size() && session_.may_try(0.8)) measure(large);
  }

 private:
  /// Measures the whole; when it is wrong or fails, finds the part that is sound and measures that.
  std::vector<size_t> compose_sound(const std::vector<size_t>& winners) {
    const Trial* trial = measure(winners);
    if (trial == nullptr || trial->failure == measure::FailureKind::kNone || session_.stopped()) {
      return winners;
    }
    std::vector<size_t> kept;
    keep_sound(winners, kept);
    if (!kept.empty()) measure(kept);
    return kept;
  }

  /// Leaves out the forms that save the least for the time they take to compile, until the whole
  /// compiles within the limit.
  std::vector<size_t> fit_compile_time(std::vector<size_t> winners) {
    if (winners.empty()) return winners;
    const double limit = session_.compile_limit();
    const double base = session_.result().default_compile_seconds;
    const Trial* trial = measure(winners);
    const auto& kernels = session_.result().kernels;
    const auto added = [&](size_t k) {
      return std::max(kernels[k].added_compile_seconds(), 1e-3) * num_places(session_, kernels[k]);
    };
    std::sort(winners.begin(), winners.end(), [&](size_t a, size_t b) {
      const auto worth = [&](size_t k) {
        return kernels[k].saving_seconds() * num_places(session_, kernels[k]) / added(k);
      };
      return worth(a) > worth(b);
    });
    while (trial != nullptr && trial->measured && trial->compile_seconds > limit &&
           winners.size() > 1 && session_.may_try(0.85)) {
      double sum = 0;
      for (const size_t k : winners) sum += added(k);
      // Kernels alone tell the shares; the whole tells the scale.
      const double scale = (trial->compile_seconds - base) / sum;
      const double allowed = 0.9 * (limit - base) / scale;
      while (winners.size() > 1 && sum > allowed) {
        sum -= added(winners.back());
        winners.pop_back();
      }
      trial = measure(winners);
    }
    return winners;
  }

  const Trial* measure(const std::vector<size_t>& winners) {
    if (!session_.trials_left() || session_.stopped()) return nullptr;
    return &session_.try_configuration(with_forms(winners), "greedy", session_.search_timing());
  }

  void add_unmeasured() {
    std::set<size_t> measured;
    for (const KernelResult& kernel : session_.result().kernels) measured.insert(kernel.kernel);
    const auto& kernels = session_.space().kernels();
    for (size_t i = 0; i < kernels.size(); ++i) {
      if (measured.contains(i)) continue;
      if (const rewrite::Rule* rule = session_.likely_form(i)) {
        session_.space().set_form(unmeasured_, kernels[i], rule);
      }
    }
  }

  Configuration with_forms(std::vector<size_t> winners) const {
    Configuration configuration = unmeasured_;
    // Where a pattern and its last node both have a form, the one set last holds: the larger
    // saving.
    std::sort(winners.begin(), winners.end(), [&](size_t a, size_t b) {
      const auto& kernels = session_.result().kernels;
      return kernels[a].saving_seconds() < kernels[b].saving_seconds();
    });
    for (const size_t k : winners) {
      const KernelResult& kernel = session_.result().kernels[k];
      const std::string rule =
          Configuration::from_string(kernel.best()->configuration).decisions.at(0).form;
      session_.space().set_form(configuration, session_.space().kernels()[kernel.kernel],
                                rewrite::find_rule(rule));
    }
    return configuration;
  }

  void keep_sound(const std::vector<size_t>& part, std::vector<size_t>& kept) {
    if (part.empty() || session_.past(0.75)) return;
    const Trial* trial = measure(part);
    if (trial == nullptr) return;
    if (trial->failure == measure::FailureKind::kNone) {
      kept.insert(kept.end(), part.begin(), part.end());
      return;
    }
    if (part.size() == 1) return;
    const auto middle = part.begin() + static_cast<std::ptrdiff_t>(part.size() / 2);
    keep_sound({part.begin(), middle}, kept);
    keep_sound({middle, part.end()}, kept);
  }

  SearchSession& session_;
  Configuration unmeasured_;  ///< Promising forms of kernels that were not measured.
};

}  // namespace

void compose_winners(SearchSession& session) {
  Composer(session).compose();
}

void try_likely_forms(SearchSession& session) {
  Composer(session).try_likely();
}

void try_conditions(SearchSession& session) {
  const Configuration configuration = configuration_by_conditions(session.space());
  // Where a candidate before took too long to compile, this one is for those that do not.
  double size = 1;
  for (const Trial& trial : session.result().trials) {
    if (trial.measured) size = std::min(size, session.compile_limit() / trial.compile_seconds);
  }
  if (configuration.is_default() || !session.may_try(kFirstShare, size)) return;
  session.try_configuration(configuration, "conditions", session.search_timing());
}

void take_back_forms(SearchSession& session) {
  std::vector<std::pair<double, size_t>> order;
  for (const KernelResult& kernel : session.result().kernels) {
    if (kernel.best() == nullptr) continue;
    order.emplace_back(kernel.saving_seconds() * num_places(session, kernel), kernel.kernel);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [saving, index] : order) {
    // A form that saves a large share alone is not what loses in place.
    if (saving > 0.1 * session.result().default_seconds) break;
    if (!session.may_try(0.72)) return;
    Configuration without = session.best_configuration();
    const Configuration best = without;
    session.space().set_form(without, session.space().kernels()[index], nullptr);
    if (without == best) continue;
    session.try_configuration(without, "take back", session.search_timing());
  }
}

void try_flags(SearchSession& session) {
  for (const auto& [name, value] : session.space().flag_choices()) {
    if (!session.may_try(0.76)) return;
    if (session.dropped_flags().contains(name)) continue;
    Configuration configuration = session.best_configuration();
    configuration.flags[name] = value;
    session.try_configuration(configuration, "flag", session.search_timing());
  }
}

void explore(SearchSession& session, bool genetic) {
  constexpr int kMaxBarren = 200;
  int barren = 0;
  while (session.may_try(0.8) && barren < kMaxBarren) {
    Configuration configuration = genetic ? offspring(session) : random_configuration(session);
    for (const std::string& flag : session.dropped_flags()) configuration.flags.erase(flag);
    // A space so small that everything was tried ends the search.
    if (configuration.is_default() || session.was_tried(configuration)) {
      ++barren;
      continue;
    }
    barren = 0;
    session.try_configuration(configuration, genetic ? "genetic" : "random",
                              session.search_timing());
  }
}

}  // namespace lagom::tune

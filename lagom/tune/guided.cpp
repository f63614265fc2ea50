#include "lagom/tune/guided.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "lagom/tune/effect_model.h"
#include "lagom/tune/offspring.h"

namespace lagom::tune {
namespace {

using rewrite::Configuration;
using rewrite::Decision;
using rewrite::DecisionKind;

constexpr size_t kBatch = 3;       // candidates between two rankings
constexpr int kOffspring = 400;    // drawn for each ranking, beside all single changes
constexpr size_t kRescored = 100;  // of a ranking, when one of them is taken

// What is believed of a decision that nothing is known of, as a share of the program's time when
// the search begins.
constexpr Belief kFlag{.mean = 0, .deviation = 0.01};
constexpr Belief kBarrier{.mean = 0.005, .deviation = 0.008};

/// Layouts seldom pay (docs/results.md): in proportion to the node's share of the time.
Belief layout_belief(double share) {
  return {.mean = 0.002 + 0.2 * share, .deviation = 0.004 + 0.2 * share};
}

Belief scaled(const Belief& belief, double factor) {
  return {.mean = belief.mean * factor, .deviation = belief.deviation * factor};
}

class GuidedSearch {
 public:
  explicit GuidedSearch(SearchSession& session)
      : session_(session), model_([this](const std::string& d) { return prior_of(d); }) {
    const Trial* best = session.best_trial();
    if (best != nullptr) begin_ratio_ = std::min(best->ratio.median, 1.0);
    find_priors();
    for (const Trial& trial : session.result().trials) learn(trial);
  }

  void run() {
    while (session_.may_try(0.8)) {
      const std::vector<Configuration> batch = propose();
      if (batch.empty()) {
        session_.report("search", "nothing is left that is expected to gain " +
                                      percent_text(least_gain() / begin_ratio_) + " or more");
        return;
      }
      for (const Configuration& configuration : batch) {
        if (!session_.may_try(0.8)) return;
        learn(session_.try_configuration(configuration, "model", session_.search_timing()));
      }
    }
  }

 private:
  struct Candidate {
    Configuration configuration;
    std::vector<std::string> names;
    double gain = 0;
  };

  double least_gain() const {
    return begin_ratio_ * std::max(0.002, 0.2 * session_.result().baseline.noise_floor);
  }

  void find_priors() {
    const SearchSpace& space = session_.space();
    const double whole = session_.result().default_seconds;
    for (const KernelResult& result : session_.result().kernels) {
      const Kernel& kernel = space.kernels()[result.kernel];
      const double share =
          result.default_seconds * static_cast<double>(kernel.instructions.size()) / whole;
      for (const std::string& name : kernel.instructions) share_of_node_[name] = share;
      for (const KernelRecord& record : result.forms) {
        const Configuration form = Configuration::from_string(record.configuration);
        const std::string name = form_decision_name(result.kernel, form.decisions.at(0).form);
        if (!record.seconds || record.failure != measure::FailureKind::kNone) {
          priors_[name] = {.mean = 0.5, .deviation = 0.1};
          continue;
        }
        const double effect = share * (record.ratio.median - 1);
        priors_[name] = {.mean = effect, .deviation = 0.003 + 0.3 * std::abs(effect)};
      }
    }
    const auto& beliefs = session_.beliefs();
    const double known = std::min(1.0, sum_of_shares());
    for (size_t k = 0; k < beliefs.size(); ++k) {
      for (size_t i = 0; i < beliefs[k].size(); ++i) {
        // Kernels that were not measured share what the others leave of the time.
        const double share = (1 - known) / static_cast<double>(beliefs.size());
        const double ratio = std::exp(beliefs[k][i].mean);
        priors_.try_emplace(form_decision_name(k, space.kernels()[k].rules[i]->name()),
                            Belief{.mean = share * (ratio - 1),
                                   .deviation = 0.001 + share * ratio * beliefs[k][i].deviation});
      }
    }
  }

  double sum_of_shares() const {
    double sum = 0;
    for (const KernelResult& result : session_.result().kernels) {
      const Kernel& kernel = session_.space().kernels()[result.kernel];
      if (!kernel.is_plain) continue;
      sum += result.default_seconds * static_cast<double>(kernel.instructions.size());
    }
    return sum / session_.result().default_seconds;
  }

  Belief prior_of(const std::string& decision) const {
    const auto it = priors_.find(decision);
    if (it != priors_.end()) return it->second;
    if (decision.starts_with("form "))
      return scaled({.mean = 0.005, .deviation = 0.01}, begin_ratio_);
    if (decision.starts_with("flag ")) return scaled(kFlag, begin_ratio_);
    const std::string node = decision.substr(0, decision.find(' '));
    if (decision.find(" barrier ") != std::string::npos) return scaled(kBarrier, begin_ratio_);
    const auto share = share_of_node_.find(node);
    return scaled(layout_belief(share == share_of_node_.end() ? 0 : share->second), begin_ratio_);
  }

  void learn(const Trial& trial) {
    if (!session_.options().learns || trial.failure == measure::FailureKind::kStopped) return;
    const auto names = decision_names(session_.space(), trial.configuration);
    if (session_.is_eligible(trial)) {
      const double spread = (trial.ratio.high - trial.ratio.low) / 4;
      // Decisions meet in place: their effects are not quite a sum.
      constexpr double kMisfit = 0.01;
      const double noise = session_.result().baseline.noise_floor / 2;
      model_.observe(names, trial.ratio.median,
                     std::hypot(spread, trial.ratio.median * std::hypot(noise, kMisfit)));
    } else {
      // Wrong, too slow to compile, or given up: to be kept away from, not a time.
      model_.observe(names, model_.predict(names).mean + 0.3, 0.3);
    }
  }

  std::vector<Configuration> propose() {
    const Configuration best = session_.best_configuration();
    const auto best_names = decision_names(session_.space(), best);
    std::vector<Candidate> pool = candidates(best);
    if (pool.empty()) return {};
    EffectModel imagined = model_;
    std::vector<Configuration> batch;
    std::bernoulli_distribution explores(session_.options().explore_share);
    size_t scored = pool.size();
    while (batch.size() < kBatch && !pool.empty()) {
      for (size_t i = 0; i < std::min(scored, pool.size()); ++i) {
        pool[i].gain = expected_improvement(imagined.change(best_names, pool[i].names), 0);
      }
      std::sort(pool.begin(), pool.end(),
                [](const Candidate& a, const Candidate& b) { return a.gain > b.gain; });
      scored = kRescored;
      if (pool.front().gain < least_gain()) break;
      size_t pick = 0;
      if (explores(session_.random())) pick = session_.random()() % pool.size();
      batch.push_back(pool[pick].configuration);
      // As if it had been measured and came out as expected: the next one is to tell something
      // else.
      imagined.observe(pool[pick].names, imagined.predict(pool[pick].names).mean,
                       0.01 * begin_ratio_);
      pool.erase(pool.begin() + static_cast<std::ptrdiff_t>(pick));
    }
    return batch;
  }

  /// What could be measured next, each once, nothing that was.
  std::vector<Candidate> candidates(const Configuration& best) {
    std::vector<Candidate> pool;
    std::unordered_set<std::string> texts;
    const auto add = [&](Configuration configuration) {
      for (const std::string& flag : session_.dropped_flags()) configuration.flags.erase(flag);
      if (configuration.is_default() || session_.was_tried(configuration)) return;
      if (!texts.insert(configuration.to_string()).second) return;
      auto names = decision_names(session_.space(), configuration);
      pool.push_back({.configuration = std::move(configuration), .names = std::move(names)});
    };
    const SearchSpace& space = session_.space();
    Configuration believed = best;  // every kernel as the model has it by now
    for (size_t k = 0; k < space.kernels().size(); ++k) {
      const Kernel& kernel = space.kernels()[k];
      const rewrite::Rule* chosen = nullptr;
      double least = 0;
      for (const rewrite::Rule* rule : kernel.rules) {
        Configuration changed = best;
        space.set_form(changed, kernel, rule);
        add(std::move(changed));
        const double effect = model_.effect(form_decision_name(k, rule->name())).mean;
        if (effect < least) {
          least = effect;
          chosen = rule;
        }
      }
      if (kernel.rules.empty()) continue;
      Configuration without = best;
      space.set_form(without, kernel, nullptr);
      add(std::move(without));
      space.set_form(believed, kernel, chosen);
    }
    add(std::move(believed));
    for (const Decision& decision : best.decisions) {
      if (decision.kind == DecisionKind::kForm) continue;
      Configuration without = best;
      without.remove(decision);
      add(std::move(without));
    }
    for (const auto& [name, value] : space.flag_choices()) {
      Configuration changed = best;
      const auto it = changed.flags.find(name);
      if (it != changed.flags.end() && it->second == value) {
        changed.flags.erase(it);
      } else {
        changed.flags[name] = value;
      }
      add(std::move(changed));
    }
    for (int i = 0; i < kOffspring; ++i) add(offspring(session_));
    return pool;
  }

  SearchSession& session_;
  std::unordered_map<std::string, Belief> priors_;
  std::unordered_map<std::string, double> share_of_node_;
  double begin_ratio_ = 1;  ///< Of the best when the guided part begins.
  EffectModel model_;
};

}  // namespace

void explore_guided(SearchSession& session) {
  GuidedSearch(session).run();
}

}  // namespace lagom::tune

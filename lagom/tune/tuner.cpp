#include "lagom/tune/tuner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <stdexcept>
#include <unordered_map>

#include "lagom/hlo/cost_analysis.h"
#include "lagom/hlo/proto_reader.h"
#include "lagom/hlo/proto_writer.h"
#include "lagom/tune/advice.h"
#include "lagom/tune/input_roles.h"
#include "lagom/util/error.h"

namespace lagom::tune {
namespace {

using Clock = std::chrono::steady_clock;
using measure::FailureKind;
using rewrite::Configuration;

std::string percent(double share) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.1f %%", share * 100);
  return buffer;
}

std::string times(double factor) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.2fx", factor);
  return buffer;
}

std::string milliseconds(double seconds) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.3g ms", seconds * 1e3);
  return buffer;
}

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

class Tuner {
 public:
  Tuner(const hlo::Module& module, const SearchSpace& space, const TuneOptions& options)
      : module_(module), space_(space), options_(options), start_(Clock::now()),
        random_(options.seed), program_worker_(worker_options()),
        kernel_worker_(worker_options()) {}

  TuneResult run() {
    result_.program = module_.name;
    load_baseline();
    if (options_.strategy != Strategy::kRandom) {
      search_kernels();
      compose();
      take_back();
      try_flags();
      time_other_kernels();
    }
    if (options_.strategy != Strategy::kGreedy) explore();
    time_finalists();
    describe();
    result_.stopped = stopped();
    result_.elapsed_seconds = elapsed();
    return std::move(result_);
  }

 private:
  // ---- time and reports ----

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool stopped() const { return options_.should_stop && options_.should_stop(); }

  /// True when this share of the budget is used up, or the caller wants to stop.
  bool past(double share) const {
    if (stopped()) return true;
    return options_.budget_seconds > 0 && elapsed() > share * options_.budget_seconds;
  }
  bool trials_left() const {
    return options_.max_trials <= 0 || static_cast<int>(result_.trials.size()) < options_.max_trials;
  }

  void report(const std::string& phase, const std::string& text) const {
    if (options_.on_event) {
      options_.on_event({.elapsed_seconds = elapsed(), .budget_seconds = options_.budget_seconds,
                         .phase = phase, .text = text});
    }
  }

  measure::WorkerOptions worker_options() const {
    measure::WorkerOptions worker = options_.worker;
    worker.should_stop = options_.should_stop;
    return worker;
  }

  // ---- the default ----

  void load_baseline() {
    result_.device = program_worker_.hello();
    if (!result_.device.ok()) throw SystemError(result_.device.error);
    report("baseline", "compiling and timing the default on " + result_.device.platform);
    measure::BaselineRequest request;
    request.program.module = hlo::write_hlo_proto(module_);
    request.program.tuple_arguments = has_tuple_argument(module_);
    request.seed = options_.seed;
    request.noise = {.min_pairs = 7, .budget_seconds = 1.5};
    measure::BaselineResult best;
    bool have = false;
    for (const auto& inputs : input_variants(input_specs(module_))) {
      request.inputs = inputs;
      measure::BaselineResult baseline = program_worker_.load_baseline(request);
      if (!baseline.ok()) {
        if (have) break;
        throw SystemError("the default program: " + baseline.error);
      }
      const bool healthy = baseline.health.finite && baseline.health.moves && baseline.health.calm;
      if (!have || healthy) best_inputs_ = inputs, best = std::move(baseline), have = true;
      if (healthy || past(0.3)) break;
    }
    request.inputs = best_inputs_;
    if (!(best.health.finite && best.health.moves && best.health.calm)) {
      // None was healthy: measure with the first draw, and say so.
      best = program_worker_.load_baseline(request);
      if (!best.ok()) throw SystemError("the default program: " + best.error);
      result_.note = "outputs are a weak check here (" + best.health.note +
                     "); forms were compared node by node";
    }
    result_.baseline = best;
    result_.default_seconds = best.seconds;
    result_.default_compile_seconds = best.figures.compile_seconds;
    if (!past(0.3)) result_.machine = measure_machine_rate(kernel_worker_);
    report("baseline", milliseconds(best.seconds) + " a run, noise floor " +
                           percent(best.noise_floor) +
                           (best.health.note.empty() ? "" : "; " + best.health.note));
  }

  // ---- kernel level ----

  void search_kernels() {
    Database database(options_.database, device_key());
    KernelSearchOptions kernel_options;
    kernel_options.seed = options_.seed;
    kernel_options.should_stop = options_.should_stop;
    kernel_options.min_total_seconds = 0.004 * result_.default_seconds;
    for (const size_t index : kernel_order()) {
      if (past(0.6)) {
        report("kernels", "the time for kernels is used up; the others stay as they are");
        break;
      }
      const Kernel& kernel = space_.kernels()[index];
      KernelResult kernel_result =
          search_kernel(kernel, index, kernel_worker_, database, kernel_options);
      const KernelRecord* best = kernel_result.best();
      std::string text = std::string(hlo::opcode_name(kernel.opcode)) + " " +
                         kernel.instructions[0];
      if (kernel.instructions.size() > 1) {
        text += " and " + std::to_string(kernel.instructions.size() - 1) + " like it";
      }
      text += ": " + milliseconds(kernel_result.default_seconds);
      if (!kernel_result.error.empty()) {
        text += ", cannot be measured alone: " + kernel_result.error;
      } else if (best != nullptr) {
        const Configuration form = Configuration::from_string(best->configuration);
        text += " -> " + milliseconds(kernel_result.default_seconds * best->ratio.median) + " as " +
                form.decisions.at(0).form;
      } else {
        text += ", as it is";
      }
      report("kernels", text + (kernel_result.from_database ? " (known)" : ""));
      result_.kernels.push_back(std::move(kernel_result));
    }
  }

  /// Kernels that were not reached or have no other form: their default times tell where a program
  /// spends its time. Only while there is time to spare.
  void time_other_kernels() {
    std::set<size_t> known;
    for (const KernelResult& kernel : result_.kernels) known.insert(kernel.kernel);
    Database database(options_.database, device_key());
    KernelSearchOptions kernel_options;
    kernel_options.seed = options_.seed;
    kernel_options.should_stop = options_.should_stop;
    kernel_options.min_total_seconds = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < space_.kernels().size() && !past(0.78); ++i) {
      if (known.contains(i)) continue;
      result_.kernels.push_back(
          search_kernel(space_.kernels()[i], i, kernel_worker_, database, kernel_options));
    }
  }

  std::string device_key() const {
    std::string key = result_.device.platform + " " + result_.device.platform_version + " " +
                      result_.device.plugin_version + " cpus";
    for (const int cpu : program_worker_.cpus()) key += " " + std::to_string(cpu);
    return key;
  }

  /// Kernels with forms to try, those with the most work in all their places first.
  std::vector<size_t> kernel_order() const {
    hlo::CostAnalysis costs(module_);
    std::unordered_map<std::string, const hlo::Instruction*> by_name;
    for (const auto& computation : module_.computations()) {
      for (const auto& i : computation->instructions()) by_name[i->name] = i.get();
    }
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < space_.kernels().size(); ++i) {
      const Kernel& kernel = space_.kernels()[i];
      if (kernel.rules.empty()) continue;
      const hlo::Cost cost = costs.of(*by_name.at(kernel.instructions[0]));
      double weight = (cost.flops + cost.bytes_accessed()) *
                      static_cast<double>(kernel.instructions.size());
      // Compilers run grouped convolutions as plain loops more often than not.
      const hlo::Attributes& a = by_name.at(kernel.instructions[0])->attributes;
      if (a.feature_group_count > 1 || a.batch_group_count > 1) weight *= 30;
      order.emplace_back(-weight, i);
    }
    std::sort(order.begin(), order.end());
    std::vector<size_t> indices;
    for (const auto& [weight, i] : order) indices.push_back(i);
    return indices;
  }

  // ---- graph level ----

  /// Measures one configuration on the whole program; known ones are not measured again.
  const Trial& try_configuration(const Configuration& configuration, const std::string& origin,
                                 const measure::TimingOptions& timing, bool fresh = false) {
    const std::string text = configuration.to_string();
    if (!fresh) {
      const auto it = tried_.find(text);
      if (it != tried_.end()) return result_.trials[it->second];
    }
    Trial trial;
    trial.number = static_cast<int>(result_.trials.size()) + 1;
    trial.origin = origin;
    trial.configuration = configuration;
    measure::MeasureResult measured;
    try {
      measure::MeasureRequest request;
      request.program.module = hlo::write_hlo_proto(rewrite::apply(module_, configuration));
      request.program.flags = configuration.flags;
      request.program.tuple_arguments = has_tuple_argument(module_);
      request.timing = timing;
      measured = program_worker_.measure(request);
    } catch (const std::invalid_argument& e) {
      measured.failure = FailureKind::kCompile;
      measured.error = e.what();
    }
    trial.failure = measured.failure;
    trial.error = measured.error;
    trial.ratio = measured.ratio;
    trial.measured = measured.ok() && measured.seconds && !measured.dropped_early;
    trial.compile_seconds = measured.figures.compile_seconds;
    trial.elapsed_seconds = elapsed();
    for (const std::string& flag : measured.figures.dropped_flags) {
      if (dropped_flags_.insert(flag).second) {
        report("search", "the compiler does not know flag " + flag + "; it is left out");
      }
    }
    if (fresh) finalist_outputs_[text] = measured.outputs;
    tried_[text] = result_.trials.size();
    result_.trials.push_back(std::move(trial));
    const Trial& done = result_.trials.back();
    report(origin == "final" ? "final" : "search", describe_trial(done));
    return done;
  }

  std::string describe_trial(const Trial& trial) const {
    std::string text = "trial " + std::to_string(trial.number) + " (" + trial.origin + "): ";
    if (trial.measured) {
      text += times(1 / trial.ratio.median) + " [" + times(1 / trial.ratio.high) + ", " +
              times(1 / trial.ratio.low) + "]";
      if (const Trial* best = best_trial()) {
        text += ", best so far " + times(1 / best->ratio.median);
      }
    } else if (trial.failure == FailureKind::kNone) {
      text += "slower, given up";
    } else {
      text += std::string(measure::failure_kind_name(trial.failure)) + ": " + trial.error;
    }
    return text;
  }

  /// The fastest candidate so far that a search measured; nullptr when there is none.
  const Trial* best_trial() const {
    const Trial* best = nullptr;
    for (const Trial& trial : result_.trials) {
      if (trial.measured && (best == nullptr || trial.ratio.median < best->ratio.median)) {
        best = &trial;
      }
    }
    return best;
  }

  /// The winners' configuration, or the default when nothing was better.
  Configuration best_configuration() const {
    const Trial* best = best_trial();
    return best != nullptr && best->ratio.median < 1 ? best->configuration : Configuration{};
  }

  measure::TimingOptions search_timing() const {
    return {.min_pairs = 5, .target_width = 0.03,
            .budget_seconds = std::clamp(result_.default_seconds * 20, 0.3, 1.5),
            .stop_ratio = 1.5};
  }

  /// Puts together what won alone. When the whole is wrong or fails, halves show which decisions
  /// are at fault; those are left out.
  void compose() {
    std::vector<size_t> winners;
    for (size_t k = 0; k < result_.kernels.size(); ++k) {
      if (result_.kernels[k].best() != nullptr) winners.push_back(k);
    }
    if (winners.empty()) {
      if (!result_.kernels.empty()) report("search", "no kernel is faster in another form");
      return;
    }
    const Configuration all = with_forms(winners);
    if (!trials_left()) return;
    const Trial& trial = try_configuration(all, "greedy", search_timing());
    if (trial.failure == FailureKind::kNone || stopped()) return;
    std::vector<size_t> kept;
    keep_sound(winners, kept);
    if (!kept.empty() && trials_left() && !stopped()) {
      try_configuration(with_forms(kept), "greedy", search_timing());
    }
  }

  Configuration with_forms(const std::vector<size_t>& winners) const {
    Configuration configuration;
    for (const size_t k : winners) {
      const KernelResult& kernel = result_.kernels[k];
      const std::string& rule =
          Configuration::from_string(kernel.best()->configuration).decisions.at(0).form;
      space_.set_form(configuration, space_.kernels()[kernel.kernel], rewrite::find_rule(rule));
    }
    return configuration;
  }

  void keep_sound(const std::vector<size_t>& part, std::vector<size_t>& kept) {
    if (part.empty() || past(0.75) || !trials_left()) return;
    const Trial& trial = try_configuration(with_forms(part), "greedy", search_timing());
    if (trial.failure == FailureKind::kNone) {
      kept.insert(kept.end(), part.begin(), part.end());
      return;
    }
    if (part.size() == 1) return;
    const auto middle = part.begin() + static_cast<std::ptrdiff_t>(part.size() / 2);
    keep_sound({part.begin(), middle}, kept);
    keep_sound({middle, part.end()}, kept);
  }

  /// A winner alone need not win in place: leaves out one kernel's form at a time, those with the
  /// smallest gain first.
  void take_back() {
    const Configuration composed = best_configuration();
    std::vector<std::pair<double, size_t>> order;
    for (size_t k = 0; k < result_.kernels.size(); ++k) {
      const KernelResult& kernel = result_.kernels[k];
      if (kernel.best() == nullptr) continue;
      const auto count =
          static_cast<double>(space_.kernels()[kernel.kernel].instructions.size());
      order.emplace_back(kernel.saving_seconds() * count, k);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [saving, k] : order) {
      // A form that saves a large share alone is not what loses in place.
      if (saving > 0.1 * result_.default_seconds) break;
      if (past(0.72) || !trials_left()) return;
      const Trial* best = best_trial();
      if (best == nullptr) return;
      Configuration without = best->configuration;
      space_.set_form(without, space_.kernels()[result_.kernels[k].kernel], nullptr);
      if (without == best->configuration) continue;
      try_configuration(without, "take back", search_timing());
    }
  }

  void try_flags() {
    for (const auto& [name, value] : space_.flag_choices()) {
      if (past(0.76) || !trials_left()) return;
      if (dropped_flags_.contains(name)) continue;
      Configuration configuration = best_configuration();
      configuration.flags[name] = value;
      try_configuration(configuration, "flag", search_timing());
    }
  }

  void explore() {
    const bool genetic = options_.strategy == Strategy::kGenetic;
    int barren = 0;
    while (!past(0.8) && trials_left() && barren < 200) {
      Configuration configuration = genetic ? offspring() : random_configuration();
      for (const std::string& flag : dropped_flags_) configuration.flags.erase(flag);
      // A space so small that everything was tried ends the search.
      if (configuration.is_default() || tried_.contains(configuration.to_string())) {
        ++barren;
        continue;
      }
      barren = 0;
      try_configuration(configuration, genetic ? "genetic" : "random", search_timing());
    }
  }

  Configuration random_configuration() {
    Configuration configuration;
    std::geometric_distribution<int> extra(0.2);
    const int count = 1 + extra(random_);
    for (int i = 0; i < count; ++i) space_.mutate(configuration, random_);
    return configuration;
  }

  /// A child of two of the fastest, changed in one or two places.
  Configuration offspring() {
    std::vector<const Trial*> parents;
    for (const Trial& trial : result_.trials) {
      if (trial.measured) parents.push_back(&trial);
    }
    if (parents.empty()) return random_configuration();
    std::sort(parents.begin(), parents.end(), [](const Trial* a, const Trial* b) {
      return a->ratio.median < b->ratio.median;
    });
    parents.resize(std::min<size_t>(parents.size(), 6));
    std::uniform_int_distribution<size_t> pick(0, parents.size() - 1);
    // The better of two draws: selection pressure without losing variety.
    const Trial& mother = *parents[std::min(pick(random_), pick(random_))];
    const Trial& father = *parents[pick(random_)];
    Configuration child = mother.configuration;
    std::bernoulli_distribution coin(0.5);
    for (const Kernel& kernel : space_.kernels()) {
      if (!kernel.rules.empty() && coin(random_)) {
        space_.set_form(child, kernel, space_.form_of(father.configuration, kernel));
      }
    }
    const int changes = coin(random_) ? 1 : 2;
    for (int i = 0; i < changes; ++i) space_.mutate(child, random_);
    return child;
  }

  // ---- the end ----

  /// The best of many noisy times flatters: the few best are timed afresh, and that figure counts.
  void time_finalists() {
    std::vector<Configuration> finalists;
    std::vector<const Trial*> order;
    for (const Trial& trial : result_.trials) {
      if (trial.measured && trial.ratio.median < 1) order.push_back(&trial);
    }
    std::sort(order.begin(), order.end(), [](const Trial* a, const Trial* b) {
      return a->ratio.median < b->ratio.median;
    });
    for (const Trial* trial : order) {
      if (finalists.size() == 3) break;
      if (std::find(finalists.begin(), finalists.end(), trial->configuration) == finalists.end()) {
        finalists.push_back(trial->configuration);
      }
    }
    if (finalists.empty()) return settle(nullptr);
    const double left = options_.budget_seconds > 0
                            ? std::max(options_.budget_seconds - elapsed(), 3.0)
                            : 12.0;
    const measure::TimingOptions timing{
        .min_pairs = 11, .target_width = 0.02,
        .budget_seconds = std::min(left / 4, 4.0)};
    const Trial* best = nullptr;
    size_t best_index = 0;
    for (const Configuration& configuration : finalists) {
      if (stopped()) break;
      if (best_index != 0 && past(1.0)) break;
      const Trial& trial = try_configuration(configuration, "final", timing, /*fresh=*/true);
      if (trial.measured &&
          (best_index == 0 ||
           trial.ratio.median < result_.trials[best_index - 1].ratio.median)) {
        best_index = result_.trials.size();
      }
    }
    if (best_index != 0) {
      best = &result_.trials[best_index - 1];
      result_.retimed = true;
    } else if (stopped()) {
      best = order.front();
    }
    settle(best);
  }

  /// Takes the finalist if it beats the noise floor, else the default.
  void settle(const Trial* best) {
    const double floor = result_.baseline.noise_floor;
    result_.tuned_seconds = result_.default_seconds;
    if (best == nullptr) {
      add_note("no candidate was faster than the default");
      return;
    }
    if (best->ratio.high >= 1 || best->ratio.median > 1 - floor) {
      add_note("the best candidate, " + times(1 / best->ratio.median) +
               ", does not beat the noise floor of " + percent(floor) +
               ": the default is returned");
      return;
    }
    result_.configuration = best->configuration;
    result_.ratio = best->ratio;
    result_.tuned_seconds = result_.default_seconds * best->ratio.median;
    result_.tuned_compile_seconds = best->compile_seconds;
    result_.outputs = finalist_outputs_[best->configuration.to_string()];
  }

  void add_note(const std::string& note) {
    result_.note += (result_.note.empty() ? "" : "; ") + note;
  }

  void describe() {
    std::unordered_map<std::string, const KernelResult*> kernel_of;
    for (const KernelResult& kernel : result_.kernels) {
      for (const std::string& name : space_.kernels()[kernel.kernel].instructions) {
        kernel_of[name] = &kernel;
      }
    }
    for (const rewrite::Decision& decision : result_.configuration.decisions) {
      DecisionReport report = describe_decision(module_, decision);
      const auto it = kernel_of.find(decision.instruction);
      if (decision.kind == rewrite::DecisionKind::kForm && it != kernel_of.end()) {
        for (const KernelRecord& record : it->second->forms) {
          const Configuration form = Configuration::from_string(record.configuration);
          if (form.decisions.at(0).form != decision.form) continue;
          report.default_seconds = it->second->default_seconds;
          report.seconds = it->second->default_seconds * record.ratio.median;
        }
      }
      result_.decisions.push_back(std::move(report));
    }
    if (result_.configuration.is_default() || stopped()) return;
    measure::Program program{.module = hlo::write_hlo_proto(module_), .flags = {},
                             .tuple_arguments = has_tuple_argument(module_)};
    const measure::OptimizedResult before = program_worker_.optimized(program);
    program.module = hlo::write_hlo_proto(rewrite::apply(module_, result_.configuration));
    program.flags = result_.configuration.flags;
    const measure::OptimizedResult after = program_worker_.optimized(program);
    if (before.ok() && after.ok() && !before.module.empty() && !after.module.empty()) {
      result_.copies_before = count_copies(before.module);
      result_.copies_after = count_copies(after.module);
    }
  }

  const hlo::Module& module_;
  const SearchSpace& space_;
  const TuneOptions& options_;
  Clock::time_point start_;
  std::mt19937_64 random_;
  measure::Worker program_worker_, kernel_worker_;
  std::vector<measure::InputSpec> best_inputs_;
  std::unordered_map<std::string, size_t> tried_;
  std::unordered_map<std::string, std::vector<measure::OutputComparison>> finalist_outputs_;
  std::set<std::string> dropped_flags_;
  TuneResult result_;
};

}  // namespace

std::string_view strategy_name(Strategy strategy) {
  switch (strategy) {
    case Strategy::kGreedy: return "greedy";
    case Strategy::kRandom: return "random";
    case Strategy::kGenetic: return "genetic";
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
  return Tuner(module, space, options).run();
}

}  // namespace lagom::tune

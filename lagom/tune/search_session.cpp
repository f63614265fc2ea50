#include "lagom/tune/search_session.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "lagom/hlo/proto_writer.h"
#include "lagom/tune/input_roles.h"
#include "lagom/util/error.h"

namespace lagom::tune {
namespace {

using Clock = std::chrono::steady_clock;
using rewrite::Configuration;

}  // namespace

std::string percent_text(double share) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.1f %%", share * 100);
  return buffer;
}

std::string factor_text(double factor) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.2fx", factor);
  return buffer;
}

std::string milliseconds_text(double seconds) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.3g ms", seconds * 1e3);
  return buffer;
}

SearchSession::SearchSession(const hlo::Module& module, const SearchSpace& space,
                             const TuneOptions& options)
    : module_(module),
      space_(space),
      options_(options),
      start_(Clock::now()),
      random_(options.seed),
      program_worker_(worker_options()),
      kernel_worker_(worker_options()) {
  result_.program = module.name;
}

double SearchSession::elapsed() const {
  return std::chrono::duration<double>(Clock::now() - start_).count() -
         program_worker_.waited_seconds() - kernel_worker_.waited_seconds();
}

bool SearchSession::past(double share) const {
  if (stopped()) return true;
  return options_.budget_seconds > 0 && elapsed() > share * options_.budget_seconds;
}

bool SearchSession::trials_left() const {
  return options_.max_trials <= 0 || static_cast<int>(result_.trials.size()) < options_.max_trials;
}

bool SearchSession::may_try(double share, double size) const {
  return trials_left() && has_time_for_trial(share, size);
}

bool SearchSession::has_time_for_trial(double share, double size) const {
  if (past(share)) return false;
  // The finalists, compiled by now, and the check of the comparison need their time too: a trial
  // that would run into it is not begun.
  return options_.budget_seconds <= 0 ||
         elapsed() + 2 * size * last_trial_seconds_ < options_.budget_seconds;
}

void SearchSession::report(const std::string& phase, const std::string& text) const {
  if (options_.on_event) {
    options_.on_event({.elapsed_seconds = elapsed(),
                       .budget_seconds = options_.budget_seconds,
                       .phase = phase,
                       .text = text});
  }
}

measure::WorkerOptions SearchSession::worker_options() const {
  measure::WorkerOptions worker = options_.worker;
  worker.should_stop = options_.should_stop;
  return worker;
}

measure::Program SearchSession::program(const Configuration& configuration) const {
  return {.module = hlo::write_hlo_proto(rewrite::apply(module_, configuration)),
          .flags = configuration.flags,
          .tuple_arguments = has_tuple_argument(module_)};
}

void SearchSession::load_baseline() {
  result_.device = program_worker_.hello();
  if (!result_.device.ok()) throw SystemError(result_.device.error);
  report("baseline", "compiling and timing the default on " + result_.device.platform);
  measure::BaselineRequest request;
  request.program = program();
  request.seed = options_.seed;
  request.noise = {.min_pairs = 7, .budget_seconds = 1.5};
  request.time_unhealthy = false;
  measure::BaselineResult best;
  std::vector<measure::InputSpec> best_inputs;
  bool have = false;
  for (const auto& inputs : input_variants(input_specs(module_))) {
    request.inputs = inputs;
    measure::BaselineResult baseline = program_worker_.load_baseline(request);
    if (!baseline.ok()) {
      if (have) break;
      throw SystemError("the default program: " + baseline.error);
    }
    const bool healthy = baseline.health.is_good();
    if (!have || healthy) {
      best_inputs = inputs;
      best = std::move(baseline);
      have = true;
    }
    if (healthy || past(0.3)) break;
  }
  if (!best.health.is_good()) {
    // None was healthy: measure with the first draw, and say so.
    request.inputs = best_inputs;
    request.time_unhealthy = true;
    best = program_worker_.load_baseline(request);
    if (!best.ok()) throw SystemError("the default program: " + best.error);
    result_.note = "outputs are a weak check here (" + best.health.note +
                   "); forms were compared node by node";
  }
  result_.baseline = best;
  result_.default_seconds = best.seconds;
  result_.default_compile_seconds = best.figures.compile_seconds;
  if (!past(0.3)) result_.machine = measure_machine_rate(kernel_worker_);
  report("baseline", milliseconds_text(best.seconds) + " a run, noise floor " +
                         percent_text(best.noise_floor) +
                         (best.health.note.empty() ? "" : "; " + best.health.note));
}

const Trial& SearchSession::try_configuration(const Configuration& configuration,
                                              const std::string& origin,
                                              const measure::TimingOptions& timing, bool fresh) {
  const std::string text = configuration.to_string();
  if (!fresh) {
    const auto it = tried_.find(text);
    if (it != tried_.end()) return result_.trials[it->second];
  }
  const double begin = elapsed();
  Trial trial;
  trial.number = static_cast<int>(result_.trials.size()) + 1;
  for (const KernelResult& kernel : result_.kernels) trial.kernel_trials += kernel.num_trials;
  trial.origin = origin;
  trial.configuration = configuration;
  measure::MeasureResult measured;
  try {
    measure::MeasureRequest request;
    request.program = program(configuration);
    request.timing = timing;
    request.count_copies = fresh;
    request.limit_seconds = options_.limit_trial_seconds;
    if (options_.space.allow_inexact) request.allowed_error = kRelaxedError;
    measured = program_worker_.measure(request);
  } catch (const std::invalid_argument& e) {
    measured.failure = measure::FailureKind::kCompile;
    measured.error = e.what();
  }
  trial.failure = measured.failure;
  trial.error = measured.error;
  trial.ratio = measured.ratio;
  trial.measured = measured.ok() && measured.seconds && !measured.dropped_early;
  trial.seconds = measured.seconds.value_or(0);
  trial.default_seconds = measured.default_seconds;
  trial.compile_seconds = measured.figures.compile_seconds;
  trial.elapsed_seconds = elapsed();
  last_trial_seconds_ = trial.elapsed_seconds - begin;
  for (const std::string& flag : measured.figures.dropped_flags) {
    if (dropped_flags_.insert(flag).second) {
      report("search", "the compiler does not know flag " + flag + "; it is left out");
    }
  }
  if (fresh) {
    finalists_[text] = {.outputs = std::move(measured.outputs),
                        .default_copies = measured.default_copies,
                        .copies = measured.figures.num_copies};
  }
  tried_[text] = result_.trials.size();
  result_.trials.push_back(std::move(trial));
  const Trial& done = result_.trials.back();
  report(origin == "final" ? "final" : "search", describe_trial(done));
  if (options_.on_trial) options_.on_trial(done);
  return done;
}

std::string SearchSession::describe_trial(const Trial& trial) const {
  std::string text = "trial " + std::to_string(trial.number) + " (" + trial.origin + "): ";
  if (trial.measured) {
    text += factor_text(1 / trial.ratio.median) + " [" + factor_text(1 / trial.ratio.high) + ", " +
            factor_text(1 / trial.ratio.low) + "]";
    if (!is_eligible(trial)) {
      text += ", but takes " +
              factor_text(trial.compile_seconds / result_.default_compile_seconds) +
              " of the default's time to compile";
    } else if (const Trial* best = best_trial()) {
      text += ", best so far " + factor_text(1 / best->ratio.median);
    }
  } else if (trial.failure == measure::FailureKind::kNone) {
    text += "slower, given up";
  } else {
    text += trial.error;
  }
  return text;
}

const Trial* SearchSession::best_trial() const {
  const Trial* best = nullptr;
  for (const Trial& trial : result_.trials) {
    if (is_eligible(trial) && (best == nullptr || trial.ratio.median < best->ratio.median)) {
      best = &trial;
    }
  }
  return best;
}

Configuration SearchSession::best_configuration() const {
  const Trial* best = best_trial();
  return best != nullptr && best->ratio.median < 1 ? best->configuration : Configuration{};
}

measure::TimingOptions SearchSession::search_timing() const {
  return {.min_pairs = is_slow() ? 3 : 5,
          .target_width = 0.03,
          .budget_seconds = std::clamp(result_.default_seconds * 20, 0.3, 1.5),
          .stop_ratio = options_.stop_ratio};
}

std::string SearchSession::device_key() const {
  return measure::device_key(result_.device, program_worker_.cpus());
}

double SearchSession::tolerance() const {
  return std::max(0.005, result_.baseline.noise_floor / 2);
}

const rewrite::Rule* SearchSession::likely_form(size_t index) const {
  const Kernel& kernel = space_.kernels()[index];
  if (beliefs_.empty()) return kernel.promising.empty() ? nullptr : kernel.promising.front();
  constexpr double kWorthIt = -0.1;  // of log(ratio)
  const rewrite::Rule* likely = nullptr;
  double best = kWorthIt;
  for (size_t i = 0; i < beliefs_.at(index).size(); ++i) {
    if (beliefs_[index][i].mean >= best) continue;
    best = beliefs_[index][i].mean;
    likely = kernel.rules[i];
  }
  return likely;
}

const Finalist& SearchSession::finalist(const Configuration& configuration) const {
  static const Finalist kNone;
  const auto it = finalists_.find(configuration.to_string());
  return it == finalists_.end() ? kNone : it->second;
}

double SearchSession::shift_of_fault(const Configuration& configuration) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  measure::MeasureRequest request;
  request.program = program(configuration);
  request.program.module =
      hlo::write_hlo_proto(rewrite::apply_with_fault(module_, configuration, 0.01));
  request.timing = {.min_pairs = 1, .max_pairs = 1, .budget_seconds = 0, .stop_ratio = 1e-9};
  const measure::MeasureResult measured = program_worker_.measure(request);
  // Wrong numbers are what it is about.
  if (!measured.ok() && measured.failure != measure::FailureKind::kWrongNumbers) return kUnknown;
  double shift = 0;
  for (const measure::OutputComparison& output : measured.outputs) {
    shift = std::max(shift, output.difference());
  }
  return shift;
}

double SearchSession::compile_limit() const {
  const bool limited = options_.max_compile_ratio > 0 && options_.strategy != Strategy::kConditions;
  const double base = result_.default_compile_seconds;
  return limited
             ? std::max(options_.max_compile_ratio * base, base + options_.compile_slack_seconds)
             : std::numeric_limits<double>::infinity();
}

bool SearchSession::is_eligible(const Trial& trial) const {
  return trial.measured && trial.compile_seconds <= compile_limit();
}

const Trial* SearchSession::best_slow_compile() const {
  const Trial* best = nullptr;
  for (const Trial& trial : result_.trials) {
    if (!trial.measured || trial.ratio.median >= 1 || is_eligible(trial)) continue;
    if (best == nullptr || trial.ratio.median < best->ratio.median) best = &trial;
  }
  return best;
}

std::vector<const Trial*> SearchSession::measured_trials() const {
  std::vector<const Trial*> trials;
  for (const Trial& trial : result_.trials) {
    if (is_eligible(trial)) trials.push_back(&trial);
  }
  std::stable_sort(trials.begin(), trials.end(), [](const Trial* a, const Trial* b) {
    return a->ratio.median < b->ratio.median;
  });
  return trials;
}

}  // namespace lagom::tune

#include "lagom/tune/kernel_search.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lagom/hlo/cost_analysis.h"
#include "lagom/hlo/proto_writer.h"
#include "lagom/tune/input_roles.h"
#include "lagom/tune/kernel_features.h"

namespace lagom::tune {
namespace {

rewrite::Configuration node_configuration(const rewrite::Rule& rule) {
  rewrite::Configuration configuration;
  configuration.set({.kind = rewrite::DecisionKind::kForm,
                     .instruction = "node",
                     .operand = 0,
                     .form = std::string(rule.name()),
                     .layout = {}});
  return configuration;
}

measure::BaselineRequest baseline_request(const Kernel& kernel, uint64_t seed) {
  measure::BaselineRequest request;
  request.program.module = hlo::write_hlo_proto(kernel.cut_out.module);
  request.inputs = input_specs(kernel.cut_out.module);
  request.seed = seed;
  request.noise = {.min_pairs = 3, .target_width = 0.1, .budget_seconds = 0.1};
  request.check_health = false;
  return request;
}

KernelRecord to_record(const Kernel& kernel, std::string configuration,
                       const measure::MeasureResult& result) {
  return {.signature = kernel.cut_out.signature,
          .configuration = std::move(configuration),
          .opcode = std::string(hlo::opcode_name(kernel.opcode)),
          .default_seconds = result.default_seconds,
          .seconds = result.seconds,
          .ratio = result.ratio,
          .compile_seconds = result.figures.compile_seconds,
          .failure = result.failure,
          .error = result.error,
          .node = describe_node(kernel.cut_out.module, kernel.cut_out.node)};
}

/// Its FLOPs alone would take longer than the fastest form so far.
bool is_hopeless(const Kernel& kernel, const rewrite::Rule& rule, const KernelResult& known,
                 const KernelSearchOptions& options) {
  if (options.flops_per_second <= 0) return false;
  try {
    const hlo::Module module = rewrite::apply(kernel.cut_out.module, node_configuration(rule));
    return hlo::CostAnalysis(module).total().flops / options.flops_per_second >
           known.best_seconds();
  } catch (const std::exception&) {
    return false;  // a bug of the rule, for `measure_form` to report
  }
}

const Belief& belief_of(const Kernel& kernel, const rewrite::Rule& rule,
                        const KernelSearchOptions& options) {
  const auto it = std::find(kernel.rules.begin(), kernel.rules.end(), &rule);
  return options.beliefs.at(static_cast<size_t>(it - kernel.rules.begin()));
}

KernelRecord measure_form(const Kernel& kernel, const rewrite::Rule& rule,
                          const KernelResult& known, measure::Worker& worker,
                          const KernelSearchOptions& options) {
  const rewrite::Configuration configuration = node_configuration(rule);
  const double fastest = known.best_seconds();
  measure::MeasureRequest request;
  try {
    const hlo::Module module = rewrite::apply(kernel.cut_out.module, configuration);
    request.program.module = hlo::write_hlo_proto(module);
  } catch (const std::exception& e) {
    // A rule that does not do what its `matches` promised: one failed candidate, and a bug to see.
    measure::MeasureResult failed;
    failed.failure = measure::FailureKind::kCompile;
    failed.error = std::string("the rule could not be applied: ") + e.what();
    return to_record(kernel, configuration.to_string(), failed);
  }
  request.timing = {
      .min_pairs = 5,
      .target_width = 0.04,
      .effect_share = 0.25,
      .budget_seconds = options.seconds_per_form,
      .stop_ratio = std::min(options.stop_ratio, 3 * fastest / known.default_seconds)};
  request.limit_seconds = options.limit_seconds;
  if (rule.rule_class() == rewrite::RuleClass::kRelaxes) request.allowed_error = kRelaxedError;
  return to_record(kernel, configuration.to_string(), worker.measure(request));
}

}  // namespace

std::string form_configuration(const rewrite::Rule& rule) {
  return node_configuration(rule).to_string();
}

const KernelRecord* KernelResult::best() const {
  const KernelRecord* best = nullptr;
  for (const KernelRecord& record : forms) {
    if (!record.seconds || record.failure != measure::FailureKind::kNone) continue;
    if (record.ratio.high >= 0.97 || record.ratio.median <= 0) continue;
    if (best == nullptr || record.ratio.median < best->ratio.median) best = &record;
  }
  return best;
}

double KernelResult::added_compile_seconds() const {
  const KernelRecord* record = best();
  return record ? std::max(record->compile_seconds - default_compile_seconds, 0.0) : 0;
}

double KernelResult::best_seconds() const {
  const KernelRecord* record = best();
  return record ? default_seconds * record->ratio.median : default_seconds;
}

double expected_gain(const Belief& log_ratio, double seconds, double best_seconds) {
  const auto below = [](double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; };
  const double m = log_ratio.mean, d = log_ratio.deviation;
  if (!(d > 0)) return std::max(best_seconds - seconds * std::exp(m), 0.0);
  const double z = (std::log(best_seconds / seconds) - m) / d;
  return std::max(best_seconds * below(z) - seconds * std::exp(m + d * d / 2) * below(z - d), 0.0);
}

KernelResult search_kernel(const Kernel& kernel, size_t index, measure::Worker& worker,
                           Database& database, const KernelSearchOptions& options) {
  KernelResult result;
  result.kernel = index;
  result.from_database = true;
  std::vector<const rewrite::Rule*> open;
  if (const auto known = database.find(kernel.cut_out.signature, "")) {
    result.default_seconds = known->default_seconds;
    result.default_compile_seconds = known->compile_seconds;
    result.error = known->error;
  } else {
    result.from_database = false;
  }
  const auto is_promising = [&](const rewrite::Rule* rule) {
    return std::find(kernel.promising.begin(), kernel.promising.end(), rule) !=
           kernel.promising.end();
  };
  for (const rewrite::Rule* rule : kernel.rules) {
    if (auto known = database.find(kernel.cut_out.signature, form_configuration(*rule))) {
      result.forms.push_back(std::move(*known));
    } else if (!options.promising_only || is_promising(rule)) {
      open.push_back(rule);
    }
  }
  const auto too_small = [&] {
    return result.default_seconds * static_cast<double>(kernel.instructions.size()) <
           options.min_total_seconds;
  };
  const auto is_worth_trying = [&](const rewrite::Rule* rule) {
    if (is_hopeless(kernel, *rule, result, options)) return false;
    if (options.beliefs.empty()) return true;
    const double gain = expected_gain(belief_of(kernel, *rule, options), result.default_seconds,
                                      result.best_seconds());
    return gain * static_cast<double>(kernel.instructions.size()) >= options.min_gain_seconds;
  };
  if (result.from_database) {
    std::erase_if(open, [&](const rewrite::Rule* rule) { return !is_worth_trying(rule); });
    if (open.empty() || too_small()) return result;
  }
  if (options.known_only) return result;
  if (!result.error.empty()) return result;

  result.from_database = false;
  ++result.num_trials;
  const measure::BaselineResult baseline =
      worker.load_baseline(baseline_request(kernel, options.seed));
  KernelRecord record{.signature = kernel.cut_out.signature,
                      .configuration = "",
                      .opcode = std::string(hlo::opcode_name(kernel.opcode)),
                      .default_seconds = baseline.seconds,
                      .seconds = baseline.seconds,
                      .ratio = baseline.self_ratio,
                      .compile_seconds = baseline.figures.compile_seconds,
                      .failure = baseline.failure,
                      .error = baseline.error,
                      .node = {}};
  if (!baseline.ok()) record.seconds.reset();
  database.add(record);
  result.error = baseline.error;
  if (!baseline.ok()) return result;
  result.default_seconds = baseline.seconds;
  result.default_compile_seconds = baseline.figures.compile_seconds;
  if (too_small()) return result;
  // The likely winners first: they make the others' times short.
  if (options.beliefs.empty()) {
    std::stable_partition(open.begin(), open.end(), is_promising);
  } else {
    const auto gain = [&](const rewrite::Rule* rule) {
      return expected_gain(belief_of(kernel, *rule, options), 1, 1);
    };
    std::stable_sort(open.begin(), open.end(),
                     [&](const auto* a, const auto* b) { return gain(a) > gain(b); });
  }
  for (const rewrite::Rule* rule : open) {
    if (options.should_stop && options.should_stop()) break;
    if (!is_worth_trying(rule)) continue;
    ++result.num_trials;
    KernelRecord form = measure_form(kernel, *rule, result, worker, options);
    database.add(form);
    result.forms.push_back(std::move(form));
  }
  return result;
}

bool gives_right_numbers(const Kernel& kernel, const rewrite::Rule& rule, measure::Worker& worker,
                         uint64_t seed) {
  if (!worker.load_baseline(baseline_request(kernel, seed)).ok()) return false;
  KernelResult known;
  known.default_seconds = 1;  // whatever time it takes
  const KernelRecord record =
      measure_form(kernel, rule, known, worker, {.seconds_per_form = 0, .stop_ratio = 1e9});
  return record.failure == measure::FailureKind::kNone;
}

}  // namespace lagom::tune

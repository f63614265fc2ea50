#include "lagom/tune/kernel_search.h"

#include <algorithm>

#include "lagom/hlo/proto_writer.h"
#include "lagom/tune/input_roles.h"

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
          .error = result.error};
}

KernelRecord measure_form(const Kernel& kernel, const rewrite::Rule& rule, measure::Worker& worker,
                          const KernelSearchOptions& options) {
  const rewrite::Configuration configuration = node_configuration(rule);
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
  request.timing = {.min_pairs = 5,
                    .target_width = 0.04,
                    .budget_seconds = options.seconds_per_form,
                    .stop_ratio = options.stop_ratio};
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

double KernelResult::best_seconds() const {
  const KernelRecord* record = best();
  return record ? default_seconds * record->ratio.median : default_seconds;
}

KernelResult search_kernel(const Kernel& kernel, size_t index, measure::Worker& worker,
                           Database& database, const KernelSearchOptions& options) {
  KernelResult result;
  result.kernel = index;
  result.from_database = true;
  std::vector<const rewrite::Rule*> open;
  if (const auto known = database.find(kernel.cut_out.signature, "")) {
    result.default_seconds = known->default_seconds;
    result.error = known->error;
  } else {
    result.from_database = false;
  }
  for (const rewrite::Rule* rule : kernel.rules) {
    const auto& promising = kernel.promising;
    if (auto known = database.find(kernel.cut_out.signature, form_configuration(*rule))) {
      result.forms.push_back(std::move(*known));
    } else if (!options.promising_only ||
               std::find(promising.begin(), promising.end(), rule) != promising.end()) {
      open.push_back(rule);
    }
  }
  const auto too_small = [&] {
    return result.default_seconds * static_cast<double>(kernel.instructions.size()) <
           options.min_total_seconds;
  };
  if (result.from_database && (open.empty() || too_small())) return result;
  if (options.known_only) return result;
  if (!result.error.empty()) return result;

  result.from_database = false;
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
                      .error = baseline.error};
  if (!baseline.ok()) record.seconds.reset();
  database.add(record);
  result.error = baseline.error;
  if (!baseline.ok()) return result;
  result.default_seconds = baseline.seconds;
  if (too_small()) return result;
  for (const rewrite::Rule* rule : open) {
    if (options.should_stop && options.should_stop()) break;
    KernelRecord form = measure_form(kernel, *rule, worker, options);
    database.add(form);
    result.forms.push_back(std::move(form));
  }
  return result;
}

}  // namespace lagom::tune

#include "lagom/tune/profile.h"

#include <algorithm>
#include <unordered_map>

#include "lagom/hlo/builder.h"
#include "lagom/hlo/cost_analysis.h"
#include "lagom/hlo/proto_writer.h"
#include "lagom/measure/statistics.h"
#include "lagom/tune/input_roles.h"
#include "lagom/util/error.h"

namespace lagom::tune {
namespace {

using hlo::ElementType;
using hlo::Shape;

measure::RunReport run(const hlo::Module& module, measure::Worker& worker, uint64_t seed,
                       double budget_seconds) {
  measure::RunRequest request;
  request.program = {.module = hlo::write_hlo_proto(module),
                     .flags = {},
                     .tuple_arguments = has_tuple_argument(module)};
  request.inputs = input_specs(module);
  request.seed = seed;
  request.budget_seconds = budget_seconds;
  request.min_runs = 3;
  return worker.run(request);
}

/// A module whose entry is what `fill` builds.
template <typename Fill>
hlo::Module make_module(Fill&& fill) {
  hlo::Module module("machine_rate");
  hlo::Computation* entry = module.add_computation(std::make_unique<hlo::Computation>("main"));
  module.set_entry(entry);
  hlo::NameTable names(module);
  hlo::Builder builder(module, *entry, names);
  entry->set_root(fill(builder));
  return module;
}

double best_seconds(const measure::RunReport& report) {
  if (!report.ok() || report.seconds.empty()) return 0;
  return *std::min_element(report.seconds.begin(), report.seconds.end());
}

}  // namespace

MachineRate measure_machine_rate(measure::Worker& worker) {
  constexpr int64_t kSide = 1024;
  constexpr int64_t kElements = int64_t{16} << 20;
  const hlo::Module product = make_module([](hlo::Builder& b) {
    auto* x = b.parameter(0, Shape::array(ElementType::kF32, {kSide, kSide}));
    auto* y = b.parameter(1, Shape::array(ElementType::kF32, {kSide, kSide}));
    return b.dot(x, y, {.lhs_contracting = {1}, .rhs_contracting = {0}});
  });
  const hlo::Module sum = make_module([](hlo::Builder& b) {
    auto* x = b.parameter(0, Shape::array(ElementType::kF32, {kElements}));
    auto* y = b.parameter(1, Shape::array(ElementType::kF32, {kElements}));
    return b.add(x, y);
  });
  MachineRate rate;
  const double product_seconds = best_seconds(run(product, worker, 1, 0.4));
  const double sum_seconds = best_seconds(run(sum, worker, 1, 0.4));
  if (product_seconds > 0) {
    rate.flops_per_second = 2.0 * kSide * kSide * kSide / product_seconds;
  }
  if (sum_seconds > 0) rate.bytes_per_second = 3.0 * 4 * kElements / sum_seconds;
  return rate;
}

double executions_of(const hlo::Module& module, const hlo::Computation& computation) {
  if (&computation == module.entry()) return 1;
  double total = 0;
  for (const auto& caller : module.computations()) {
    for (const auto& i : caller->instructions()) {
      for (const hlo::Computation* called : i->called) {
        if (called != &computation) continue;
        const double trips = i->opcode == hlo::Opcode::kWhile
                                 ? static_cast<double>(hlo::trip_count(*i).value_or(1))
                                 : 1;
        total += trips * executions_of(module, *caller);
      }
    }
  }
  return total;
}

Profile profile(const hlo::Module& module, const SearchSpace& space, measure::Worker& worker,
                const ProfileOptions& options) {
  Profile result;
  const measure::RunReport whole = run(module, worker, options.seed, 1);
  if (!whole.ok()) throw SystemError(module.name + ": " + whole.error);
  result.program_seconds = measure::median(whole.seconds);
  result.machine = measure_machine_rate(worker);

  hlo::CostAnalysis costs(module);
  std::unordered_map<std::string, std::pair<const hlo::Computation*, const hlo::Instruction*>>
      where;
  std::unordered_map<const hlo::Computation*, double> executions;
  for (const auto& computation : module.computations()) {
    executions[computation.get()] = executions_of(module, *computation);
    for (const auto& i : computation->instructions()) where[i->name] = {computation.get(), i.get()};
  }
  size_t done = 0;
  for (const Kernel& kernel : space.kernels()) {
    if (!kernel.is_plain) continue;  // Its parts have rows of their own.
    if (options.should_stop && options.should_stop()) {
      result.stopped = true;
      break;
    }
    const hlo::Instruction& first = *where.at(kernel.instructions[0]).second;
    const hlo::Cost cost = costs.of(first);
    ProfileRow row{.opcode = std::string(hlo::opcode_name(kernel.opcode)),
                   .shape = first.shape.to_string(/*with_layout=*/false),
                   .signature = kernel.cut_out.signature,
                   .instructions = kernel.instructions,
                   .op_name = first.metadata ? first.metadata->op_name : "",
                   .source = hlo::source_location(module, first),
                   .executions = 0,
                   .seconds = 0,
                   .flops = cost.flops,
                   .bytes = cost.bytes_accessed(),
                   .error = ""};
    for (const std::string& name : kernel.instructions) {
      row.executions += executions.at(where.at(name).first);
    }
    const measure::RunReport report =
        run(kernel.cut_out.module, worker, options.seed, options.seconds_per_kernel);
    row.error = report.error;
    if (report.ok()) row.seconds = measure::median(report.seconds);
    result.rows.push_back(std::move(row));
    if (options.on_progress) options.on_progress(++done, space.kernels().size());
  }
  std::stable_sort(result.rows.begin(), result.rows.end(),
                   [](const ProfileRow& a, const ProfileRow& b) {
                     return a.total_seconds() > b.total_seconds();
                   });
  return result;
}

}  // namespace lagom::tune

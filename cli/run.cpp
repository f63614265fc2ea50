#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/interrupt.h"
#include "lagom/hlo/proto_writer.h"
#include "lagom/measure/statistics.h"
#include "lagom/tune/input_roles.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"

namespace lagom::cli {
namespace {

using nlohmann::ordered_json;

struct RunArguments {
  std::string file, compare, flags_file, compare_flags_file;
  double budget_seconds = 2;
  uint64_t seed = 1;
  bool json = false;
  bool fill_elided = false;
  DeviceArguments device;
};

/// A flags.json as `lagom tune` writes it.
Flags read_flags(const std::string& path) {
  Flags flags;
  if (path.empty()) return flags;
  nlohmann::json j;
  try {
    j = nlohmann::json::parse(read_file(path));
  } catch (const nlohmann::json::exception& e) {
    throw FormatError(path, "", e.what());
  }
  if (!j.is_object()) throw FormatError(path, "", "expected an object of flag names and values");
  for (const auto& [name, value] : j.items()) {
    if (value.is_boolean()) {
      flags[name] = value.get<bool>();
    } else if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) {
      throw FormatError(path, name, "the integer " + value.dump() + " does not fit in 64 bits");
    } else if (value.is_number_integer()) {
      flags[name] = value.get<int64_t>();
    } else if (value.is_number()) {
      flags[name] = value.get<double>();
    } else if (value.is_string()) {
      flags[name] = value.get<std::string>();
    } else {
      throw FormatError(path, name, "expected true, false, a number or a string");
    }
  }
  return flags;
}

measure::Program to_program(const hlo::Module& module, const std::string& flags_file) {
  return {.module = hlo::write_hlo_proto(module),
          .flags = read_flags(flags_file),
          .tuple_arguments = tune::has_tuple_argument(module)};
}

ordered_json to_json(const measure::OutputInfo& output) {
  const measure::OutputStatistics& s = output.statistics;
  char hash[20];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(s.hash));
  return {{"type", number_format(output.element_type).name},
          {"dimensions", output.dimensions},
          {"min", s.min},
          {"max", s.max},
          {"mean", s.mean},
          {"nan", s.num_nan},
          {"infinite", s.num_infinite},
          {"denormal", s.num_denormal},
          {"hash", hash}};
}

void print_outputs(const std::vector<measure::OutputInfo>& outputs) {
  constexpr size_t kMaxShown = 12;
  for (size_t i = 0; i < outputs.size() && i < kMaxShown; ++i) {
    const measure::OutputInfo& o = outputs[i];
    std::string dims;
    for (const int64_t d : o.dimensions) dims += (dims.empty() ? "" : ",") + std::to_string(d);
    const measure::OutputStatistics& s = o.statistics;
    std::printf("  output %zu %s[%s]: min %.5g, max %.5g, mean %.5g", i,
                std::string(number_format(o.element_type).name).c_str(), dims.c_str(), s.min, s.max,
                s.mean);
    if (s.num_nan > 0) std::printf(", %lld NaN", static_cast<long long>(s.num_nan));
    if (s.num_infinite > 0) std::printf(", %lld infinite", static_cast<long long>(s.num_infinite));
    if (s.num_denormal > 0) std::printf(", %lld denormal", static_cast<long long>(s.num_denormal));
    std::printf("\n");
  }
  if (outputs.size() > kMaxShown)
    std::printf("  and %zu more outputs\n", outputs.size() - kMaxShown);
}

int run_one(const RunArguments& args) {
  const hlo::Module module = load_program(args.file, args.fill_elided);
  measure::RunRequest request;
  request.program = to_program(module, args.flags_file);
  request.inputs = tune::input_specs(module);
  request.seed = args.seed;
  request.budget_seconds = args.budget_seconds;
  measure::Worker worker(args.device.worker_options());
  const measure::RunReport report = worker.run(request);
  if (!report.ok()) throw SystemError(args.file + ": " + report.error);
  const double seconds = measure::median(report.seconds);
  if (args.json) {
    ordered_json j = {{"file", args.file},
                      {"seconds", seconds},
                      {"runs", report.seconds.size()},
                      {"compile_seconds", report.figures.compile_seconds},
                      {"temp_bytes", report.figures.temp_bytes},
                      {"peak_memory_bytes", report.peak_memory_bytes},
                      {"load_average", report.load_average}};
    for (const auto& output : report.outputs) j["outputs"].push_back(to_json(output));
    print_json(j);
    return 0;
  }
  std::printf("%s: %s (median of %zu runs), compiled in %s, %s of memory at most\n",
              args.file.c_str(), time_to_string(seconds).c_str(), report.seconds.size(),
              time_to_string(report.figures.compile_seconds).c_str(),
              count_to_string(static_cast<double>(report.peak_memory_bytes), "B").c_str());
  for (const std::string& flag : report.figures.dropped_flags) {
    std::printf("  the compiler does not know flag %s\n", flag.c_str());
  }
  print_outputs(report.outputs);
  return 0;
}

std::string input_to_string(const measure::InputSpec& input) {
  return hlo::Shape::array(input.element_type, input.dimensions).to_string(/*with_layout=*/false);
}

void check_same_inputs(const RunArguments& args, const std::vector<measure::InputSpec>& a,
                       const std::vector<measure::InputSpec>& b) {
  if (a.size() != b.size()) {
    throw FormatError(args.compare, "",
                      "takes " + std::to_string(b.size()) + " inputs, " + args.file + " takes " +
                          std::to_string(a.size()));
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].element_type == b[i].element_type && a[i].dimensions == b[i].dimensions) continue;
    throw FormatError(args.compare, "",
                      "input " + std::to_string(i) + " is " + input_to_string(b[i]) + ", that of " +
                          args.file + " is " + input_to_string(a[i]));
  }
}

int run_compare(const RunArguments& args) {
  const hlo::Module a = load_program(args.file, args.fill_elided);
  const hlo::Module b = load_program(args.compare, args.fill_elided);
  measure::BaselineRequest request;
  request.program = to_program(a, args.flags_file);
  request.inputs = tune::input_specs(a);
  request.seed = args.seed;
  check_same_inputs(args, request.inputs, tune::input_specs(b));
  measure::Worker worker(args.device.worker_options());
  const measure::BaselineResult baseline = worker.load_baseline(request);
  if (!baseline.ok()) throw SystemError(args.file + ": " + baseline.error);
  measure::MeasureRequest candidate;
  candidate.program = to_program(b, args.compare_flags_file);
  candidate.timing = {.min_pairs = 9, .target_width = 0.02, .budget_seconds = args.budget_seconds};
  const measure::MeasureResult result = worker.measure(candidate);
  if (!result.ok() && result.failure != measure::FailureKind::kWrongNumbers) {
    throw SystemError(args.compare + ": " + result.error);
  }
  double worst = 0;
  bool identical = true;
  for (const auto& o : result.outputs) {
    identical = identical && o.mismatches == 0;
    if (o.max_abs_difference > 0) worst = std::max(worst, o.relative_error());
  }
  if (args.json) {
    ordered_json j = {{"a", args.file},
                      {"b", args.compare},
                      {"a_seconds", result.default_seconds},
                      {"b_seconds", result.seconds.value_or(0)},
                      {"b_over_a", result.ratio.median},
                      {"interval", {result.ratio.low, result.ratio.high}},
                      {"noise_floor", baseline.noise_floor},
                      {"outputs_identical", identical},
                      {"relative_error", worst},
                      {"problem", result.error}};
    print_json(j);
  } else {
    if (result.seconds) {
      std::printf("A %s: %s\nB %s: %s\n", args.file.c_str(),
                  time_to_string(result.default_seconds).c_str(), args.compare.c_str(),
                  time_to_string(*result.seconds).c_str());
      std::printf(
          "B takes %.3f times A's time [%.3f, %.3f], %d pairs; A against itself: within "
          "%.1f %%\n",
          result.ratio.median, result.ratio.low, result.ratio.high, result.ratio.pairs,
          baseline.noise_floor * 100);
    }
    if (!result.ok()) {
      std::printf("outputs differ: %s\n", result.error.c_str());
    } else if (identical) {
      std::printf("outputs are identical bit for bit\n");
    } else {
      std::printf("outputs agree to %.1e (relative to the largest value)\n", worst);
    }
    if (!baseline.health.note.empty()) {
      std::printf("note: %s\n", baseline.health.note.c_str());
    }
  }
  return result.ok() ? 0 : 1;
}

}  // namespace

void add_run(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("run", "Compile and run a program, or two side by side");
  auto args = std::make_shared<RunArguments>();
  command->add_option("file", args->file, "HLO text or proto, also compressed with gzip")
      ->required();
  command->add_option("--compare", args->compare,
                      "A second program for the same inputs: timed in turn with the first, outputs "
                      "compared; exit status 1 when they differ");
  command->add_option("--flags", args->flags_file, "JSON file of compiler flags for the program");
  command->add_option("--compare-flags", args->compare_flags_file,
                      "JSON file of compiler flags for the second program");
  command->add_option("--budget-seconds", args->budget_seconds, "Time to spend on runs")
      ->check(positive_seconds())
      ->capture_default_str();
  command->add_option("--seed", args->seed, "Of the inputs")->capture_default_str();
  command->add_flag("--json", args->json, "Machine-readable output");
  add_fill_elided(*command, args->fill_elided);
  args->device.add_to(*command);
  command->footer("Example: lagom run model.hlo.pb --compare tuned/model.tuned.hlo.pb");
  command->callback([args, &chosen] {
    chosen = [args] {
      catch_interrupts();
      return args->compare.empty() ? run_one(*args) : run_compare(*args);
    };
  });
}

}  // namespace lagom::cli

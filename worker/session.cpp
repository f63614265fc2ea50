#include "worker/session.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>

#include "lagom/hlo/proto_reader.h"
#include "lagom/measure/machine.h"
#include "lagom/measure/timing.h"
#include "worker/failures.h"

namespace lagom::worker {

using measure::BaselineRequest;
using measure::BaselineResult;
using measure::Health;
using measure::InputDraw;
using measure::InputSpec;
using measure::MeasureRequest;
using measure::MeasureResult;
using measure::OutputComparison;
using measure::OutputInfo;

namespace {

constexpr double kSmallChange = 1e-6;
// Recompiling the default for default-against-default tells more, where it does not take long.
constexpr double kRecompileLimitSeconds = 2.5;
constexpr size_t kMaxRemembered = 3;

std::vector<std::string> to_host(const std::vector<xla::Buffer>& buffers) {
  std::vector<std::string> arrays;
  for (const xla::Buffer& buffer : buffers) arrays.push_back(buffer.to_host());
  return arrays;
}

measure::TimedRun timed(const xla::Executable& executable, std::span<const xla::Buffer> inputs) {
  // The outputs are freed after the clock stopped, before the next run.
  return [&executable, inputs] { return executable.run(inputs).seconds; };
}

std::vector<OutputInfo> infos_of(const xla::Executable& executable,
                                 const std::vector<std::string>& arrays) {
  std::vector<OutputInfo> infos;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const xla::ArrayType& type = executable.outputs().at(i);
    OutputInfo info{.element_type = type.element_type, .dimensions = type.dimensions};
    info.statistics = measure::output_statistics(type.element_type, arrays[i]);
    info.tolerance = measure::output_tolerance(type.element_type, {});
    infos.push_back(std::move(info));
  }
  return infos;
}

void add_note(Health* health, const std::string& note) {
  if (!health->note.empty()) health->note += "; ";
  health->note += note;
}

bool is_real_valued(const OutputInfo& info) {
  const NumberFormat& format = number_format(info.element_type);
  return format.is_float() || format.is_complex();
}

void look_at_values(const std::vector<OutputInfo>& infos, Health* health) {
  int64_t values = 0;
  int64_t denormals = 0;
  int64_t bad = 0;
  for (const OutputInfo& info : infos) {
    if (!is_real_valued(info)) continue;
    values += info.statistics.count;
    denormals += info.statistics.num_denormal;
    bad += info.statistics.num_nan + info.statistics.num_infinite;
  }
  health->finite = bad == 0;
  if (bad > 0) add_note(health, std::to_string(bad) + " outputs are NaN or infinite");
  if (values > 0) {
    health->denormal_share = static_cast<double>(denormals) / static_cast<double>(values);
  }
  if (health->denormal_share > 0.01) add_note(health, "many outputs are denormal");
}

int64_t count_copies(const xla::Executable& executable) {
  const hlo::Module module = hlo::read_hlo_proto(executable.optimized_program(), "optimised");
  int64_t count = 0;
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) {
      count += i->opcode == hlo::Opcode::kCopy || i->opcode == hlo::Opcode::kTranspose;
    }
  }
  return count;
}

int64_t largest_of(std::span<const InputSpec> specs) {
  int64_t largest = 0;
  for (const InputSpec& spec : specs) largest = std::max(largest, spec.size_bytes());
  return largest;
}

int64_t sum_of(std::span<const InputSpec> specs) {
  int64_t sum = 0;
  for (const InputSpec& spec : specs) {
    if (__builtin_add_overflow(sum, spec.size_bytes(), &sum)) {
      throw OutOfMemory("the parameters pass 2^63 bytes");
    }
  }
  return sum;
}

}  // namespace

Session::Session(std::string plugin, xla::ClientOptions plugin_options, int64_t memory_limit_bytes)
    : plugin_(std::move(plugin)),
      plugin_options_(std::move(plugin_options)),
      memory_limit_bytes_(memory_limit_bytes) {}

const xla::Client& Session::client() {
  if (!client_) {
    client_ = std::make_unique<xla::Client>(xla::Plugin::load(xla::find_plugin(plugin_)),
                                            plugin_options_);
  }
  return *client_;
}

Compiled Session::compile(const measure::Program& program) {
  measure::ProgramFigures figures;
  const auto begin = std::chrono::steady_clock::now();
  xla::Executable executable = client().compile_dropping_unknown_flags(
      program.module, {.flags = program.flags, .tuple_arguments = program.tuple_arguments},
      &figures.dropped_flags);
  figures.compile_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const xla::MemoryStats memory = executable.memory_stats();
  figures.argument_bytes = memory.argument_bytes;
  figures.output_bytes = memory.output_bytes;
  figures.temp_bytes = memory.temp_bytes;
  figures.code_size_bytes =
      std::max<int64_t>({executable.code_size_bytes(), memory.generated_code_bytes, int64_t{0}});
  return {std::move(executable), std::move(figures)};
}

Compiled Session::recall_or_compile(const measure::Program& program) {
  const auto it = std::find_if(remembered_.begin(), remembered_.end(),
                               [&](const auto& known) { return known.first == program; });
  if (it == remembered_.end()) return compile(program);
  Compiled compiled = std::move(it->second);
  remembered_.erase(it);
  return compiled;
}

void Session::remember(measure::Program program, Compiled compiled) {
  if (remembered_.size() == kMaxRemembered) remembered_.pop_back();
  remembered_.emplace_front(std::move(program), std::move(compiled));
}

void Session::require_memory(int64_t argument_bytes, int64_t largest_argument, int64_t output_bytes,
                             int64_t temp_bytes) const {
  int64_t available = measure::available_memory_bytes();
  if (memory_limit_bytes_ > 0) {
    available =
        std::min(available, memory_limit_bytes_ - measure::private_memory_bytes(::getpid()));
  }
  // Outputs exist as the reference on the host, and twice more during a comparison.
  const double needed = static_cast<double>(argument_bytes) +
                        static_cast<double>(largest_argument) + 3.0 * output_bytes + temp_bytes;
  if (needed <= static_cast<double>(available)) return;
  throw OutOfMemory("needs " + measure::memory_to_string(static_cast<int64_t>(needed)) + " (" +
                    measure::memory_to_string(argument_bytes) + " of parameters, " +
                    measure::memory_to_string(output_bytes) + " of outputs), " +
                    measure::memory_to_string(std::max<int64_t>(available, 0)) + " are available");
}

std::vector<xla::Buffer> Session::make_inputs(std::span<const InputSpec> specs,
                                              const InputDraw& draw) {
  std::vector<xla::Buffer> inputs;
  std::string host;
  for (size_t i = 0; i < specs.size(); ++i) {
    host.resize(static_cast<size_t>(specs[i].size_bytes()));
    measure::fill_input(specs[i], i, draw, host);
    inputs.push_back(client().buffer_from_host({specs[i].element_type, specs[i].dimensions}, host));
  }
  return inputs;
}

measure::WorkerInfo Session::hello() {
  measure::WorkerInfo info;
  info.pid = static_cast<int>(::getpid());
  guarded(&info, Step::kLoadPlugin, [&] {
    info.platform = client().platform_name();
    info.platform_version = client().platform_version();
    info.device_kind = client().device_kind();
    info.num_devices = client().num_devices();
    const xla::Plugin& plugin = client().plugin();
    info.plugin = plugin.path().string();
    info.plugin_version =
        std::to_string(plugin.major_version()) + "." + std::to_string(plugin.minor_version());
  });
  return info;
}

// ---- Baseline ----

BaselineResult Session::load_baseline(const BaselineRequest& request) {
  BaselineResult result;
  std::optional<Compiled> known;
  if (baseline_ && baseline_->request.program == request.program) {
    known = std::move(baseline_->compiled);
  } else {
    remembered_.clear();
  }
  baseline_.reset();
  measure::reset_peak_memory();
  result.load_average = measure::load_average();
  fill_baseline(request, std::move(known), &result);
  if (!result.ok()) baseline_.reset();
  result.peak_memory_bytes = measure::peak_memory_bytes();
  return result;
}

void Session::fill_baseline(const BaselineRequest& request, std::optional<Compiled> known,
                            BaselineResult* result) {
  Step step = Step::kLoadPlugin;
  guarded(result, step, [&] {
    client();
    step = Step::kCompile;
    const int64_t argument_bytes = sum_of(request.inputs);
    require_memory(argument_bytes, largest_of(request.inputs), 0, 0);
    baseline_ = std::make_unique<Baseline>();
    Baseline& baseline = *baseline_;
    baseline.request = request;
    baseline.compiled = known ? std::move(known) : compile(request.program);
    result->figures = baseline.compiled->figures;
    require_memory(argument_bytes, largest_of(request.inputs), result->figures.output_bytes,
                   result->figures.temp_bytes);

    step = Step::kRun;
    const xla::Executable& executable = baseline.compiled->executable;
    baseline.inputs = make_inputs(request.inputs, {.seed = request.seed});
    baseline.outputs = to_host(executable.run(baseline.inputs).outputs);
    baseline.infos = infos_of(executable, baseline.outputs);
    look_at_values(baseline.infos, &result->health);
    if (request.check_health) check_health(&baseline, &result->health);
    result->outputs = baseline.infos;
    if (!request.time_unhealthy && !result->health.is_good()) return;

    // Against a second compilation, as every candidate is one.
    std::optional<Compiled> again;
    if (result->figures.compile_seconds < kRecompileLimitSeconds) {
      step = Step::kCompile;
      again = compile(request.program);
      step = Step::kRun;
    }
    const xla::Executable& other = again ? again->executable : executable;
    other.run(baseline.inputs);
    baseline.seconds = executable.run(baseline.inputs).seconds;
    const measure::PairedTimes times =
        measure::time_pairs(timed(executable, baseline.inputs), timed(other, baseline.inputs),
                            baseline.seconds, request.noise);
    baseline.seconds = measure::median(times.baseline);
    result->seconds = baseline.seconds;
    result->self_ratio = times.ratio;
    result->noise_floor = times.ratio.distance_from_one();
  });
}

// Compares a run's outputs with the reference, one at a time: memory holds one copy on the host.
std::vector<OutputComparison> Session::compare_run(const Baseline& baseline,
                                                   const std::vector<xla::Buffer>& outputs) {
  std::vector<OutputComparison> comparisons;
  for (size_t i = 0; i < outputs.size(); ++i) {
    comparisons.push_back(measure::compare_output(baseline.infos[i].element_type,
                                                  baseline.outputs[i], outputs[i].to_host()));
  }
  return comparisons;
}

// Runs the default again as it is, with inputs a little off, and with other inputs. The inputs are
// replaced one set after another, so that memory holds one set at a time.
void Session::check_health(Baseline* baseline, Health* health) {
  const std::vector<InputSpec>& specs = baseline->request.inputs;
  const uint64_t seed = baseline->request.seed;
  const auto compare_with = [&](const InputDraw& draw) {
    baseline->inputs.clear();
    baseline->inputs = make_inputs(specs, draw);
    return compare_run(*baseline, baseline->compiled->executable.run(baseline->inputs).outputs);
  };
  const std::vector<OutputComparison> repeated =
      compare_run(*baseline, baseline->compiled->executable.run(baseline->inputs).outputs);
  const std::vector<OutputComparison> nearby =
      compare_with({.seed = seed, .perturbation = kSmallChange});
  const std::vector<OutputComparison> elsewhere = compare_with({.seed = seed + 1});
  baseline->inputs.clear();
  baseline->inputs = make_inputs(specs, {.seed = seed});

  double most = 0;
  bool any_moves = baseline->outputs.empty();
  bool any_real = false;
  bool any_responds = false;
  for (size_t i = 0; i < baseline->infos.size(); ++i) {
    OutputInfo& info = baseline->infos[i];
    const bool is_real = is_real_valued(info);
    any_moves = any_moves || elsewhere[i].mismatches > 0;
    any_real = any_real || is_real;
    any_responds = any_responds || (is_real && nearby[i].mismatches > 0);
    if (repeated[i].mismatches > 0) health->deterministic = false;
    const OutputComparison& moved =
        repeated[i].relative_error() > nearby[i].relative_error() ? repeated[i] : nearby[i];
    info.tolerance = measure::output_tolerance(info.element_type, moved);
    info.sensitivity = moved.difference();
    if (!(info.sensitivity <= 1e30)) info.sensitivity = 1e30;
    most = std::max(most, info.sensitivity);
  }
  health->moves = any_moves;
  health->responsive = any_responds || !any_real;
  health->calm = most <= measure::kLargestTolerance;
  if (!health->moves) {
    add_note(health, "the outputs do not depend on the inputs");
  } else if (!health->responsive) {
    add_note(health, "a change of one millionth in the inputs moves no output: they are saturated");
  }
  if (!health->deterministic) add_note(health, "the outputs change from run to run");
  if (!health->calm) {
    add_note(health, "a change of one millionth in the inputs moves the outputs by " +
                         std::to_string(std::lround(100 * std::min(most, 1e6))) + " %");
  }
}

// ---- Candidates ----

MeasureResult Session::measure(const MeasureRequest& request) {
  MeasureResult result;
  if (!baseline_) {
    result.failure = measure::FailureKind::kSystem;
    result.error = "no baseline is loaded";
    return result;
  }
  measure::reset_peak_memory();
  result.load_average = measure::load_average();
  fill_measure(request, &result);
  result.peak_memory_bytes = measure::peak_memory_bytes();
  return result;
}

void Session::fill_measure(const MeasureRequest& request, MeasureResult* result) {
  Step step = Step::kCompile;
  guarded(result, step, [&] {
    const Baseline& baseline = *baseline_;
    const xla::Executable& executable = baseline.compiled->executable;
    Compiled candidate = recall_or_compile(request.program);
    result->figures = candidate.figures;
    if (request.count_copies) {
      result->figures.num_copies = count_copies(candidate.executable);
      result->default_copies = count_copies(executable);
    }
    step = Step::kRun;
    if (candidate.executable.outputs() != executable.outputs()) {
      result->failure = measure::FailureKind::kWrongNumbers;
      result->error = "the outputs have other types or shapes than the default's";
      return;
    }
    require_memory(0, 0, candidate.figures.output_bytes, candidate.figures.temp_bytes);

    double first_seconds = 0;
    {
      const xla::RunResult first = candidate.executable.run(baseline.inputs);
      first_seconds = first.seconds;
      if (request.check_outputs) result->outputs = compare_run(baseline, first.outputs);
    }
    for (size_t i = 0; i < result->outputs.size() && result->ok(); ++i) {
      measure::Tolerance tolerance = baseline.infos[i].tolerance;
      tolerance.relative_error = std::max(tolerance.relative_error, request.allowed_error);
      const std::string wrong = measure::judge_output(result->outputs[i], tolerance);
      if (wrong.empty()) continue;
      result->failure = measure::FailureKind::kWrongNumbers;
      result->error = "wrong numbers: output " + std::to_string(i) + " " + wrong;
    }
    if (!result->ok()) return;

    const double stop_ratio = request.timing.stop_ratio;
    double warm_seconds = first_seconds;
    // A single run may have met an interruption: only several tell that it is hopeless.
    for (int run = 0; run < 3; ++run) {
      warm_seconds = std::min(warm_seconds, candidate.executable.run(baseline.inputs).seconds);
      if (stop_ratio == 0 || warm_seconds <= 2 * stop_ratio * baseline.seconds) break;
    }
    // Twice the limit in all of the first runs: no pairs are needed to see that.
    if (stop_ratio > 0 && warm_seconds > 2 * stop_ratio * baseline.seconds) {
      const double ratio = warm_seconds / baseline.seconds;
      result->ratio = {.median = ratio, .low = ratio, .high = ratio, .geometric = ratio};
      result->seconds = warm_seconds;
      result->default_seconds = baseline.seconds;
      result->dropped_early = true;
      return;
    }
    executable.run(baseline.inputs);
    const measure::PairedTimes times = measure::time_pairs(
        timed(executable, baseline.inputs), timed(candidate.executable, baseline.inputs),
        baseline.seconds, request.timing);
    result->seconds = measure::median(times.candidate);
    result->default_seconds = measure::median(times.baseline);
    result->ratio = times.ratio;
    result->dropped_early = times.dropped_early;
    result->runs_per_time = times.runs_per_time;
    if (!times.dropped_early) remember(request.program, std::move(candidate));
  });
}

// ---- Single programs ----

measure::OptimizedResult Session::optimized(const measure::Program& program) {
  measure::OptimizedResult result;
  Step step = Step::kLoadPlugin;
  guarded(&result, step, [&] {
    client();
    step = Step::kCompile;
    const Compiled compiled = compile(program);
    result.figures = compiled.figures;
    result.module = compiled.executable.optimized_program();
    result.cost = compiled.executable.cost_analysis();
  });
  return result;
}

measure::RunReport Session::run(const measure::RunRequest& request) {
  measure::RunReport report;
  measure::reset_peak_memory();
  report.load_average = measure::load_average();
  fill_run(request, &report);
  report.peak_memory_bytes = measure::peak_memory_bytes();
  return report;
}

void Session::fill_run(const measure::RunRequest& request, measure::RunReport* report) {
  Step step = Step::kLoadPlugin;
  guarded(report, step, [&] {
    client();
    step = Step::kCompile;
    if (!request.input_data.empty() && request.input_data.size() != request.inputs.size()) {
      throw std::invalid_argument(std::to_string(request.input_data.size()) + " arrays for " +
                                  std::to_string(request.inputs.size()) + " parameters");
    }
    const int64_t argument_bytes = sum_of(request.inputs);
    require_memory(argument_bytes, largest_of(request.inputs), 0, 0);
    const Compiled compiled = compile(request.program);
    report->figures = compiled.figures;
    require_memory(argument_bytes, largest_of(request.inputs), compiled.figures.output_bytes,
                   compiled.figures.temp_bytes);

    step = Step::kRun;
    std::vector<xla::Buffer> inputs;
    if (request.input_data.empty()) {
      inputs = make_inputs(request.inputs, {.seed = request.seed});
    } else {
      for (size_t i = 0; i < request.inputs.size(); ++i) {
        const InputSpec& spec = request.inputs[i];
        inputs.push_back(
            client().buffer_from_host({spec.element_type, spec.dimensions}, request.input_data[i]));
      }
    }
    {
      const xla::RunResult first = compiled.executable.run(inputs);
      report->first_seconds = first.seconds;
      std::vector<std::string> outputs = to_host(first.outputs);
      report->outputs = infos_of(compiled.executable, outputs);
      if (request.return_outputs) report->output_data = std::move(outputs);
    }
    double total = 0;
    for (int run = 0; run < request.max_runs; ++run) {
      if (run >= request.min_runs && total >= request.budget_seconds) break;
      report->seconds.push_back(compiled.executable.run(inputs).seconds);
      total += report->seconds.back();
    }
  });
}

}  // namespace lagom::worker

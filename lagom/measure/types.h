#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/measure/compare.h"
#include "lagom/measure/inputs.h"
#include "lagom/measure/statistics.h"
#include "lagom/util/flags.h"

/// What can be asked of a worker and what it answers. Times are in seconds.
///
/// A *baseline* (or *default*) is the program as the compiler takes it; a *candidate* is another
/// program for the same inputs, timed in pairs with the default. A *failure* of a candidate is a
/// value of the result, never an exception.
namespace lagom::measure {

/// A program to compile: the bytes of a HloModuleProto, opaque here.
struct Program {
  std::string module;
  Flags flags;  ///< Names that the plugin does not know are dropped and reported.
  /// The one parameter is a tuple; the inputs are its elements.
  bool tuple_arguments = false;

  friend bool operator==(const Program&, const Program&) = default;
};

enum class FailureKind {
  kNone,
  kCompile,       ///< The compiler refused the program.
  kRun,           ///< It compiled, and running it failed.
  kWrongNumbers,  ///< It ran, and its outputs are not the default's.
  kCrash,         ///< The worker died of it.
  kTimeout,       ///< No answer in time.
  kMemory,        ///< Too much memory.
  kStopped,       ///< The caller asked to stop.
  kSystem,        ///< No worker, no plugin, a broken message.
};
std::string_view failure_kind_name(FailureKind kind);  ///< "compile", "wrong numbers"...

/// Part of every answer. `error` is one line that says what happened.
struct Outcome {
  FailureKind failure = FailureKind::kNone;
  std::string error;

  bool ok() const { return failure == FailureKind::kNone; }
};

/// When to stop timing pairs.
struct TimingOptions {
  int min_pairs = 5;
  int max_pairs = 400;
  double target_width = 0.02;  ///< Of the ratio's confidence interval, relative to the ratio.
  /// Also narrow enough: this share of the ratio's distance from 1. A candidate that takes a tenth
  /// of the time need not be known to 2 %. 0: not asked.
  double effect_share = 0;
  double budget_seconds = 5;  ///< For the timed part; min_pairs are taken even past it.
  /// A candidate whose first runs take more than this many times the default is given up.
  /// 0: never.
  double stop_ratio = 0;
};

/// Compiler's figures for one program.
struct ProgramFigures {
  double compile_seconds = 0;
  int64_t code_size_bytes = 0;  ///< 0 where the plugin does not say, as below.
  int64_t argument_bytes = 0;
  int64_t output_bytes = 0;
  int64_t temp_bytes = 0;
  std::vector<std::string> dropped_flags;  ///< Flags that the plugin does not know.
  /// Instructions of the optimised program that only move data (copy, transpose); -1: not counted.
  int64_t num_copies = -1;
};

// ---- hello ----

struct WorkerInfo : Outcome {
  std::string plugin;          ///< Path of its file.
  std::string plugin_version;  ///< PJRT's "0.115".
  std::string platform;        ///< "cpu", "cuda"...
  std::string platform_version;
  std::string device_kind;
  int num_devices = 0;
  int pid = 0;
};

/// What measurements on different devices must not be mixed by: platform, versions, CPUs.
std::string device_key(const WorkerInfo& info, const std::vector<int>& cpus);

// ---- load_baseline ----

struct BaselineRequest {
  Program program;
  std::vector<InputSpec> inputs;  ///< One per parameter, or per element of the tuple.
  uint64_t seed = 1;
  TimingOptions noise = {.min_pairs = 5, .budget_seconds = 2};  ///< For default against default.
  /// Runs the program on other inputs too, to see that its outputs move, and move little for a
  /// change of one millionth. Off: tolerances are the floors of the types.
  bool check_health = true;
  /// False: where the outputs turn out unhealthy nothing is timed, since other inputs will be
  /// tried.
  bool time_unhealthy = true;
};

/// One output of the default.
struct OutputInfo {
  PrimitiveType element_type = PrimitiveType::kInvalid;
  std::vector<int64_t> dimensions;
  OutputStatistics statistics;
  double sensitivity = 0;  ///< Relative change under a millionth, or share of changed integers.
  Tolerance tolerance;     ///< What candidates are held to.
};

/// Whether the program and its inputs are fit for comparing candidates.
struct Health {
  bool finite = true;         ///< No NaN and no infinity in the outputs.
  bool moves = true;          ///< Other inputs give other outputs.
  bool deterministic = true;  ///< Two runs on one input agree bit by bit.
  /// A change of one millionth (one rounding step in types that are coarser) moves some output. If
  /// not, outputs are saturated, as a softmax that gives one and zeros, and hide wrong numbers.
  bool responsive = true;
  bool calm = true;           ///< The same change moves no output by more than 5 %.
  double denormal_share = 0;  ///< Of the outputs' float values.
  std::string note;           ///< What is wrong, in words; "" when nothing is.

  /// Whether a comparison of outputs would show wrong numbers.
  bool is_good() const { return finite && moves && responsive && calm; }
};

struct BaselineResult : Outcome {
  double seconds = 0;      ///< Median of the default.
  Ratio self_ratio;        ///< Default against default.
  double noise_floor = 0;  ///< A ratio closer to 1 than this means nothing.
  Health health;
  std::vector<OutputInfo> outputs;
  ProgramFigures figures;
  int64_t peak_memory_bytes = 0;
  double load_average = 0;
};

// ---- measure ----

struct MeasureRequest {
  Program program;
  TimingOptions timing;
  bool check_outputs = true;
  /// Relative error of float outputs that is allowed whatever the program's own tolerance, for
  /// candidates that are less precise on purpose.
  double allowed_error = 0;
  bool count_copies = false;  ///< In the candidate, and in the default for `default_copies`.
  /// Wall time beside the budget for timing after which the candidate has failed (kTimeout); 0: the
  /// worker's own limit. For the parent: it is not sent.
  double limit_seconds = 0;
};

struct MeasureResult : Outcome {
  std::optional<double> seconds;          ///< Median of the candidate; absent when it failed.
  double default_seconds = 0;             ///< Median of the default, taken in the same pairs.
  Ratio ratio;                            ///< Candidate / default.
  bool dropped_early = false;             ///< Over stop_ratio: `ratio` is from very few runs.
  int runs_per_time = 1;                  ///< Short programs run several times for one time.
  std::vector<OutputComparison> outputs;  ///< Empty when they were not checked.
  ProgramFigures figures;
  int64_t default_copies = -1;  ///< The default's ProgramFigures::num_copies.
  int64_t peak_memory_bytes = 0;
  double load_average = 0;
};

// ---- optimized ----

struct OptimizedResult : Outcome {
  std::string module;                  ///< Bytes of the optimised HloModuleProto.
  std::map<std::string, double> cost;  ///< The plugin's own estimates; may be empty.
  ProgramFigures figures;
};

// ---- run ----

struct RunRequest {
  Program program;
  std::vector<InputSpec> inputs;
  uint64_t seed = 1;
  std::vector<std::string> input_data;  ///< Values instead of drawn ones; empty or one per input.
  int min_runs = 5;
  int max_runs = 1000;
  double budget_seconds = 2;
  bool return_outputs = false;
};

struct RunReport : Outcome {
  std::vector<double> seconds;  ///< Of every run after the first.
  double first_seconds = 0;
  std::vector<OutputInfo> outputs;  ///< Of the first run; sensitivity and tolerance are not set.
  std::vector<std::string> output_data;  ///< When asked for: row-major bytes.
  ProgramFigures figures;
  int64_t peak_memory_bytes = 0;
  double load_average = 0;
};

}  // namespace lagom::measure

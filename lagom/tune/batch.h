#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lagom/tune/tuner.h"

/// Tuning many programs into one folder: what was reached is kept, and an interrupted run goes on.
namespace lagom::tune {

/// What a program mostly is: "depthwise convolution", "3-D convolution", "convolution",
/// "recurrent", "graph" (gathers and scatters beside dots), "dot", "other".
std::string program_family(const hlo::Module& module);

/// One program's line of a summary.
struct BatchEntry {
  std::string program, family;
  std::string key;    ///< Of the program's bytes and the settings: who has it need not be tuned.
  std::string error;  ///< Why there is no result; empty otherwise.
  std::string note;
  double default_seconds = 0, tuned_seconds = 0;
  double speedup = 1, low = 1, high = 1;  ///< With the interval of the final measurement.
  double conditions_speedup = 0;  ///< Of the forms by conditions.h; 0: none, 1 where they lost.
  double noise_floor = 0;
  double default_compile_seconds = 0, tuned_compile_seconds = 0;
  double elapsed_seconds = 0;
  int known_kernels = 0, kernels = 0;  ///< Found in the database; looked at.
  int trials = 0, kernel_trials = 0;   ///< Measurements of the whole; of kernels and forms alone.
  /// Share of the machine's GEMM rate; 0 when it is not known.
  double default_share = 0, tuned_share = 0;
  std::map<std::string, int> forms;  ///< Instructions that got each form.
};

BatchEntry batch_entry(const hlo::Module& module, const TuneResult& result);

/// Results of many programs in a file of JSON lines, a line per program; the last one of a program
/// counts. Lines are appended whole under a lock; a line torn by a kill is skipped.
class BatchSummary {
 public:
  explicit BatchSummary(std::filesystem::path file);

  /// The program's entry; nullptr when there is none.
  const BatchEntry* find(const std::string& program) const;
  void add(const BatchEntry& entry);
  /// By program name.
  std::vector<BatchEntry> entries() const;

 private:
  std::filesystem::path file_;
  std::map<std::string, BatchEntry> by_program_;
};

/// Programs among the paths: files as they are, folders by what lies directly in them, in the order
/// of names. Throws SystemError for a path that is not there, std::invalid_argument when two
/// programs have one name or a folder holds none.
std::vector<std::filesystem::path> find_programs(const std::vector<std::string>& paths);

/// Markdown: a table of programs, geometric means by family and over all, forms by rule.
std::string summary_markdown(const std::vector<BatchEntry>& entries);

/// exp of the mean logarithm of the speed-ups; 1 for none.
double geometric_mean(const std::vector<double>& speedups);

}  // namespace lagom::tune

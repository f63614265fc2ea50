#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lagom/measure/worker.h"
#include "lagom/tune/tuner.h"

/// Measured data sets of one's own programs, in TpuGraphs' form (arXiv 2308.13490, section 3).
namespace lagom::collect {

enum class CollectionKind {
  kKernel,  ///< Like `tile`: a small graph per distinct heavy kernel, measured alone.
  kGraph,   ///< Like `layout`: whole programs.
};

struct CollectOptions {
  CollectionKind kind = CollectionKind::kKernel;
  std::filesystem::path out;
  int configurations = 16;  ///< Rows per kernel or program to reach, failures included.
  tune::Strategy strategy = tune::Strategy::kRandom;  ///< Graphs: kRandom or kGenetic.
  uint64_t seed = 1;
  /// Only every num_shards-th kernel or program, from number `shard`; folders of all shards can be
  /// one.
  int shard = 0, num_shards = 1;
  double max_compile_seconds = 0,
         max_run_seconds = 0;    ///< Programs that take longer are left out; 0: none.
  double seconds_per_row = 0.2;  ///< For timing, beside compiling.
  /// Table of programs (splits.h): files then go into folders train, valid and test.
  std::filesystem::path splits;
  /// kKernel: rows come from this folder, as tune::Database writes it, and nothing is measured:
  /// what tuning measured is data too. It must hold measurements of one device only.
  std::filesystem::path from_database;
  measure::WorkerOptions worker;
  std::function<bool()> should_stop;
  /// A line for people after each kernel or program, and sometimes between.
  std::function<void(const std::string&)> on_progress;
};

struct CollectSummary {
  size_t written = 0;   ///< Kernels or programs that got a file.
  size_t kept = 0;      ///< Had one already.
  size_t left_out = 0;  ///< Too slow, or nothing could be measured.
  size_t rows = 0, failures = 0;
  bool stopped = false;
};

/// Measures configurations of the programs' kernels, or of the programs, and writes a file for each
/// (measured_file.h): OUT/kernel/SIGNATURE.npz, or OUT/graph/PROGRAM.npz; with splits,
/// OUT/kernel/train/SIGNATURE.npz and so on.
///
/// Rows are kept in a log until a file is complete, so that a kill loses one row at most and the
/// next call goes on; files that are there are kept. Kernels are named by the hash of their module,
/// and measured once however many programs have them. A program that cannot be read or run is one
/// line of progress, not an error. Throws as ProgramSplits, FormatError for a program that the table
/// of splits has not, and std::invalid_argument for a database of no or several devices.
CollectSummary collect(const std::vector<std::filesystem::path>& programs,
                       const CollectOptions& options);

/// The configurations that are measured of a kernel: as it is, every form, one flag, forms with
/// layouts and flags; `count` at most.
std::vector<rewrite::Configuration> kernel_configurations(const tune::SearchSpace& space,
                                                          const tune::Kernel& kernel, int count,
                                                          uint64_t seed);

}  // namespace lagom::collect

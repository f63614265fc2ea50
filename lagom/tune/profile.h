#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lagom/hlo/module.h"
#include "lagom/measure/worker.h"
#include "lagom/tune/space.h"

namespace lagom::tune {

/// What this machine reaches at best with the compiler at hand.
struct MachineRate {
  double flops_per_second = 0;  ///< f32 matrix product, 1024 x 1024 x 1024.
  double bytes_per_second = 0;  ///< Element-wise sum of two arrays of 64 MiB.
};

MachineRate measure_machine_rate(measure::Worker& worker);

/// One distinct kernel of a program, measured alone.
struct ProfileRow {
  std::string opcode, shape;
  std::string signature;
  std::vector<std::string> instructions;  ///< Where it stands.
  std::string op_name, source;            ///< Of the first.
  double executions = 0;                  ///< Per run of the program: places times trip counts.
  double seconds = 0;                     ///< Of one execution, alone.
  double flops = 0, bytes = 0;            ///< Of one execution, by the shapes.
  std::string error;                      ///< Why it has no time.

  double total_seconds() const { return seconds * executions; }
};

struct Profile {
  double program_seconds = 0;
  std::vector<ProfileRow> rows;  ///< Largest total first.
  MachineRate machine;
  bool stopped = false;  ///< Not all kernels were measured.
};

struct ProfileOptions {
  double seconds_per_kernel = 0.2;
  uint64_t seed = 1;
  std::function<bool()> should_stop;
  std::function<void(size_t done, size_t all)> on_progress;
};

/// Cuts out and times each distinct heavy kernel. The sum need not be the program's time: alone a
/// kernel is not fused with its neighbours, and what is not heavy is not measured.
/// Throws SystemError when the program itself does not run.
Profile profile(const hlo::Module& module, const SearchSpace& space, measure::Worker& worker,
                const ProfileOptions& options);

/// How often each computation runs per run of the program, loops of unknown length counted once.
double executions_of(const hlo::Module& module, const hlo::Computation& computation);

}  // namespace lagom::tune

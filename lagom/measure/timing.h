#pragma once

#include <functional>
#include <vector>

#include "lagom/measure/statistics.h"
#include "lagom/measure/types.h"

namespace lagom::measure {

/// Runs a program once; gives the seconds it took.
using TimedRun = std::function<double()>;

struct PairedTimes {
  std::vector<double> baseline;   ///< Seconds of one run...
  std::vector<double> candidate;  ///< ...one of each per pair.
  Ratio ratio;
  int runs_per_time = 1;
  bool dropped_early = false;
};

/// Times two programs in pairs whose order alternates (D C, C D, D C...), so that drift and the
/// habit of going first cancel, until the interval of their ratio is narrow enough or the budget
/// ends. Both must be warm.
///
/// `baseline_seconds` is about what one run of the baseline takes: programs shorter than a few
/// milliseconds run several times for one time.
PairedTimes time_pairs(const TimedRun& baseline, const TimedRun& candidate, double baseline_seconds,
                       const TimingOptions& options);

}  // namespace lagom::measure

#include "lagom/measure/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace lagom::measure {
namespace {

// One time is at least this long, so that the clock and a single interrupt do not matter.
constexpr double kShortestTime = 4e-3;
constexpr int kMostRunsPerTime = 2000;
// A candidate over the stop ratio in this many pairs is given up.
constexpr int kPairsBeforeDrop = 2;

double mean_of(const TimedRun& run, int times) {
  double sum = 0;
  for (int i = 0; i < times; ++i) sum += run();
  return sum / times;
}

}  // namespace

PairedTimes time_pairs(const TimedRun& baseline, const TimedRun& candidate, double baseline_seconds,
                       const TimingOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  PairedTimes times;
  if (baseline_seconds < kShortestTime) {
    const double runs = std::ceil(kShortestTime / std::max(baseline_seconds, 1e-7));
    times.runs_per_time = std::min(static_cast<int>(runs), kMostRunsPerTime);
  }
  for (int pair = 0; pair < std::max(options.max_pairs, 1); ++pair) {
    const bool baseline_first = pair % 2 == 0;
    double first = mean_of(baseline_first ? baseline : candidate, times.runs_per_time);
    double second = mean_of(baseline_first ? candidate : baseline, times.runs_per_time);
    if (!baseline_first) std::swap(first, second);
    times.baseline.push_back(std::max(first, 1e-9));
    times.candidate.push_back(std::max(second, 1e-9));

    times.ratio = paired_ratio(times.baseline, times.candidate);
    if (options.stop_ratio > 0 && pair + 1 >= kPairsBeforeDrop &&
        times.ratio.low > options.stop_ratio) {
      times.dropped_early = true;
      break;
    }
    if (pair + 1 < options.min_pairs) continue;
    const double width = times.ratio.relative_width() * times.ratio.median;
    if (width <= std::max(options.target_width * times.ratio.median,
                          options.effect_share * std::fabs(1 - times.ratio.median))) {
      break;
    }
    if (elapsed() >= options.budget_seconds) break;
  }
  return times;
}

}  // namespace lagom::measure

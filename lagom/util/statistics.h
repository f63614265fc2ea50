#pragma once

// Small statistics that reports share.

#include <cstdint>
#include <span>
#include <vector>

namespace lagom {

/// 0 of nothing.
double mean_of(std::span<const double> values);
/// Standard deviation with n - 1; 0 of fewer than two values.
double deviation_of(std::span<const double> values);
/// The value at `share` of the way through sorted values, interpolated between neighbours. Throws
/// std::invalid_argument when there are none.
double quantile_of(std::span<const double> sorted, double share);

/// The ends of a 95 % interval.
struct Interval {
  double low = 0, high = 0;
};
/// Those of a bootstrap's draws (percentiles); of none, both are NaN.
Interval percentile_interval(std::vector<double> draws);

/// Ranks from 1; equal values share the mean of theirs.
std::vector<double> average_ranks(std::span<const double> values);

/// Spearman's rank correlation of pairs that come in groups (tokens of a window), which are not
/// independent: the interval is the percentile bootstrap over whole groups, with the ranks of all
/// pairs kept. NaN when one side is constant.
struct Correlation {
  double rho = 0;
  Interval interval;
};
/// groups: the size of each group, in order; their sum is the number of pairs. A function of its
/// arguments. Throws std::invalid_argument when the sizes do not fit.
Correlation spearman(std::span<const double> x, std::span<const double> y,
                     std::span<const int64_t> groups, int64_t resamples = 1000);

}  // namespace lagom

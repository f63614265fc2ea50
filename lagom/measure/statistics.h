#pragma once

#include <span>

/// Statistics of paired times. A ratio is candidate / default: below 1 the candidate is faster.
namespace lagom::measure {

/// The middle value, or the mean of the two middle ones. 0 for no values.
double median(std::span<const double> values);

/// A ratio of times with its uncertainty.
struct Ratio {
  double median = 1;     ///< Of the pairs' ratios.
  double low = 1;        ///< Lower end of the median's confidence interval...
  double high = 1;       ///< ...and its upper end.
  double geometric = 1;  ///< Geometric mean of the pairs' ratios.
  double coverage = 0;   ///< Probability that the interval holds the true median.
  int pairs = 0;

  double speedup() const { return 1 / median; }
  /// The whole width of the interval relative to the median.
  double relative_width() const { return (high - low) / median; }
  /// The largest distance of the interval from 1. Of default against default it is the noise
  /// floor: a difference smaller than this means nothing.
  double distance_from_one() const;
};

/// The ratio of `candidate[i] / baseline[i]` over all pairs.
///
/// The interval is the sign test's: the k-th smallest to the k-th largest ratio with the largest k
/// whose coverage is still at least `confidence` (k = 1, the whole range, where there are too few
/// pairs; five pairs cover 93.75 %). It assumes nothing about the distribution.
/// Throws std::invalid_argument for spans of different sizes or a time that is not positive.
Ratio paired_ratio(std::span<const double> baseline, std::span<const double> candidate,
                   double confidence = 0.95);

}  // namespace lagom::measure

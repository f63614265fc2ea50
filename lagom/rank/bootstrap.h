#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lagom/rank/metrics.h"

namespace lagom::rank {

/// Means over graphs with the ends of their 95 % intervals.
struct MetricsSummary {
  GraphMetrics mean, low, high;
  /// Of each seed over the graphs, as given.
  std::vector<GraphMetrics> seed_means;
};

/// What graphs and seeds like these would give.
///
/// runs[s][g]: graph g by seed s of one recipe; one seed is enough. The mean is over both. The
/// interval is the percentile bootstrap (Efron 1979): graphs are drawn with replacement, and where
/// there are several seeds they too, `resamples` times; low and high are the 2.5 and 97.5 % points
/// of the means, interpolated between neighbours. Of one graph and one seed the interval is the
/// mean itself: it says nothing then. A function of its arguments, `random_seed` included.
/// Throws std::invalid_argument without a graph, without a seed, when seeds have different numbers
/// of graphs, and for less than one resample.
MetricsSummary summarize(std::span<const std::vector<GraphMetrics>> runs, int64_t resamples = 2000,
                         uint64_t random_seed = 1);

}  // namespace lagom::rank

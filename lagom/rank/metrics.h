#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// How well scores rank configurations. Vocabulary: a *score* here is a predicted runtime or
/// anything that orders like one: lower is faster. Spans of one call have equal lengths; NaN
/// anywhere is std::invalid_argument.
namespace lagom::rank {

/// Kendall's tau-b, as scipy.stats.kendalltau: (P - Q) / sqrt((P + Q + Ta) (P + Q + Tb)) with P
/// concordant and Q discordant pairs, Ta and Tb pairs tied in one of the two only. 0 where it is
/// undefined (fewer than two values, or all of one side equal). O(n log n) (Knight 1966).
double kendall_tau(std::span<const double> a, std::span<const double> b);

/// Share of the pairs of different runtimes whose scores are in the same order; a tie of scores is
/// wrong (the OPAMetric of TensorFlow Ranking). 0 where all runtimes are equal. O(n log n).
double ordered_pair_accuracy(std::span<const double> scores, std::span<const double> runtimes);

/// Indices from the lowest score to the highest; of equal scores the lower index first.
std::vector<int64_t> order_by_score(std::span<const double> scores);

/// Best runtime among the k lowest scores over the best of all: 1 at best. All configurations when
/// there are fewer than k. Runtimes must be above 0.
double top_k_slowdown(std::span<const double> scores, std::span<const double> runtimes, int64_t k);

/// The metrics of one graph.
struct GraphMetrics {
  double kendall_tau = 0, ordered_pair_accuracy = 0;
  double top1_slowdown = 1, top5_slowdown = 1, top10_slowdown = 1;
};

/// Throws std::invalid_argument for fewer than two configurations, and for runtimes that are no
/// measurements: 0 or less, as the placeholders of TpuGraphs' test files are.
GraphMetrics graph_metrics(std::span<const double> scores, std::span<const double> runtimes);

GraphMetrics mean_of(std::span<const GraphMetrics> graphs);

/// A collection's score in the competition "Predict AI Model Runtime": for tile kernels 1 - (best
/// of the top 5 / best of all - 1), for layout graphs Kendall's tau; means over the graphs. The
/// whole score is the mean over the collections.
double tile_score(std::span<const GraphMetrics> graphs);
double layout_score(std::span<const GraphMetrics> graphs);

}  // namespace lagom::rank

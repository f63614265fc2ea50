#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lagom/graph/duplicates.h"
#include "lagom/graph/graph_cache.h"

/// Looks for graphs whose runtimes cannot be those of one program on one machine.
namespace lagom::graph {

struct AuditOptions {
  int64_t min_rows = 30;  ///< Order along the rows is judged only from here on.
  /// Kendall's tau between row number and runtime that is called drift: of the runtimes relative to
  /// their configuration's mean, where at least `min_rows` rows repeat one...
  double max_repeat_drift = 0.5;
  /// ...and of the runtimes themselves elsewhere, where a search may well have found faster and
  /// faster configurations.
  double max_drift = 0.8;
  /// A gap in the sorted runtimes, as a ratio, that parts them into two bands.
  double min_gap = 1.2;
  /// Bands that follow each other in blocks: standard deviations by which the rows change bands
  /// less often than in random order.
  double min_block_z = 6;
  /// Slowest / fastest - 1 of one configuration. The data set's hosts say under 1 %.
  double max_repeat_spread = 0.05;
  double max_ratio = 1000;  ///< Slowest over fastest of all rows.
};

struct GraphAudit {
  int64_t rows = 0, distinct = 0;   ///< Configurations, and those among them that differ.
  double fastest = 0, slowest = 0;  ///< As comparable_runtimes.
  RepeatNoise noise;
  double drift = 0;    ///< Kendall's tau along the rows.
  double gap = 1;      ///< The widest gap with at least 2 % of the rows on both of its sides.
  double block_z = 0;  ///< How much rarer than at random the rows step over it.
  std::vector<std::string> findings;  ///< What is suspicious, in words; empty for most graphs.
};

/// Without labels there is nothing to find.
GraphAudit audit_graph(const GraphCache& graph, const AuditOptions& options = {});
/// The same of values in the order of the rows.
GraphAudit audit_runtimes(const DuplicateGroups& groups, std::span<const double> values,
                          const AuditOptions& options = {});

}  // namespace lagom::graph

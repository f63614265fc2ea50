#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lagom/graph/graph_cache.h"

/// Configurations that were measured more than once: a search comes back to them. They are merged
/// for training; what is evaluated or submitted keeps every row.
namespace lagom::graph {

/// Which rows of a graph have equal configurations.
struct DuplicateGroups {
  std::vector<int64_t> group_of_row;  ///< [c]; groups are numbered by their first rows.
  std::vector<int64_t> first_row;     ///< [groups], ascending.

  int64_t num_groups() const { return static_cast<int64_t>(first_row.size()); }
  int64_t num_rows() const { return static_cast<int64_t>(group_of_row.size()); }
};
/// Compares all configurations, value by value: config_feat or layouts, and what other tools put
/// beside to describe a configuration, extra arrays named node_config_*, config_flags* and
/// config_graph. A tile without bounds is a configuration, too. Throws FormatError for such an
/// array with another number of rows.
DuplicateGroups find_duplicates(const GraphCache& graph);

/// Time of each row that may be compared with others of its graph: runtime / normaliser where there
/// are normalisers, since rows may come from several machines or hours, else the runtime in ns.
std::vector<double> comparable_runtimes(const GraphCache& graph);

enum class MergeRule { kFirst, kMean, kMin };
/// [groups]: one value per group. Throws std::invalid_argument when there is not one value per row.
std::vector<double> merge_rows(const DuplicateGroups& groups, std::span<const double> values,
                               MergeRule rule);

/// What repeats of equal configurations say about the measurement.
struct RepeatNoise {
  int64_t repeated_groups = 0;  ///< Configurations with two rows or more.
  int64_t repeats = 0;          ///< Rows beyond the first of each: degrees of freedom.
  /// Standard deviation relative to the configuration's mean, pooled over groups; 0 without
  /// repeats.
  double relative_deviation = 0;
  double largest_spread = 0;  ///< Of any group: slowest / fastest - 1.
};
RepeatNoise noise_of_repeats(const DuplicateGroups& groups, std::span<const double> values);

}  // namespace lagom::graph

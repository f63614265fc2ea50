#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lagom/graph/collection.h"
#include "lagom/graph/graph_cache.h"

namespace lagom::graph {

/// Least, largest, mean and deviation of each column of rows that come in pieces.
class ColumnStatistics {
 public:
  explicit ColumnStatistics(int64_t num_columns);

  /// values: [rows, columns], float or int8_t.
  template <typename T>
  void add(std::span<const T> values);

  int64_t rows() const { return rows_; }
  int64_t num_columns() const { return static_cast<int64_t>(mean_.size()); }
  // [columns] each; zeros before the first row.
  const std::vector<double>& min() const { return min_; }
  const std::vector<double>& max() const { return max_; }
  const std::vector<double>& mean() const { return mean_; }
  std::vector<double> deviation() const;  ///< Of the population: divided by the number of rows.
  bool is_constant(int64_t column) const {
    return min_[static_cast<size_t>(column)] == max_[static_cast<size_t>(column)];
  }

 private:
  int64_t rows_ = 0;
  std::vector<double> min_, max_, mean_;
  std::vector<double> squares_;  ///< Sums of squared distances from the mean.
};

/// Of the files of one split, the training split where a model is to be normalised.
struct FeatureStatistics {
  int feature_version = 0, list_padding = 0;
  int64_t graphs = 0;
  ColumnStatistics nodes;  ///< Of node_feat, over all nodes.
  /// Of config_feat over all rows (24 columns), or of node_config_feat over all rows and
  /// configurable nodes (18).
  ColumnStatistics configs;
};
/// Throws std::invalid_argument without files, FormatError for a file that cannot be read or
/// differs from the first in kind, feature version or padding.
FeatureStatistics feature_statistics(const std::vector<GraphFile>& files);

}  // namespace lagom::graph

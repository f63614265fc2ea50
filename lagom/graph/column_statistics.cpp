#include "lagom/graph/column_statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "lagom/util/error.h"

namespace lagom::graph {
namespace {

/// Every code counts as often as it is used.
void add_layouts(const GraphCache& graph, ColumnStatistics& statistics) {
  constexpr int64_t kRowsAtOnce = 256;
  const auto width = static_cast<size_t>(graph.num_config_nodes() * kLayoutConfigFeatures);
  std::vector<int64_t> rows;
  std::vector<int8_t> layouts;
  for (int64_t begin = 0; begin < graph.num_configs(); begin += kRowsAtOnce) {
    rows.resize(static_cast<size_t>(std::min(kRowsAtOnce, graph.num_configs() - begin)));
    std::iota(rows.begin(), rows.end(), begin);
    layouts.resize(rows.size() * width);
    graph.read_layouts(rows, layouts);
    statistics.add<int8_t>(layouts);
  }
}

void check_alike(const GraphCache& graph, const GraphCache& first) {
  graph.require_feature_version(first.feature_version());
  if (graph.kind() != first.kind() || graph.list_padding() != first.list_padding()) {
    throw FormatError(graph.path(), "", "is of another kind or padding than " + first.path());
  }
}

}  // namespace

ColumnStatistics::ColumnStatistics(int64_t num_columns)
    : min_(static_cast<size_t>(num_columns), 0), max_(min_), mean_(min_), squares_(min_) {}

template <typename T>
void ColumnStatistics::add(std::span<const T> values) {
  const size_t columns = mean_.size();
  const size_t count = values.size() / columns;
  if (count == 0) return;
  // The piece on its own, then both together (Chan, Golub and LeVeque 1979): sums stay small.
  std::vector<double> low(columns), high(columns), mean(columns, 0), squares(columns, 0);
  std::copy_n(values.begin(), columns, low.begin());
  high = low;
  for (size_t i = 0; i < count; ++i) {
    for (size_t c = 0; c < columns; ++c) {
      const auto value = static_cast<double>(values[i * columns + c]);
      low[c] = std::min(low[c], value);
      high[c] = std::max(high[c], value);
      mean[c] += value;
    }
  }
  for (double& sum : mean) sum /= static_cast<double>(count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t c = 0; c < columns; ++c) {
      const double distance = static_cast<double>(values[i * columns + c]) - mean[c];
      squares[c] += distance * distance;
    }
  }
  const auto before = static_cast<double>(rows_), added = static_cast<double>(count);
  for (size_t c = 0; c < columns; ++c) {
    const double shift = mean[c] - mean_[c];
    min_[c] = rows_ == 0 ? low[c] : std::min(min_[c], low[c]);
    max_[c] = rows_ == 0 ? high[c] : std::max(max_[c], high[c]);
    mean_[c] += shift * added / (before + added);
    squares_[c] += squares[c] + shift * shift * before * added / (before + added);
  }
  rows_ += static_cast<int64_t>(count);
}

template void ColumnStatistics::add(std::span<const float>);
template void ColumnStatistics::add(std::span<const int8_t>);

std::vector<double> ColumnStatistics::deviation() const {
  std::vector<double> result(squares_.size(), 0);
  for (size_t c = 0; rows_ > 0 && c < result.size(); ++c) {
    result[c] = std::sqrt(squares_[c] / static_cast<double>(rows_));
  }
  return result;
}

FeatureStatistics feature_statistics(const std::vector<GraphFile>& files) {
  if (files.empty()) throw std::invalid_argument("there are no graphs to take statistics of");
  const GraphCache first(files.front().path);
  const bool is_tile = first.kind() == GraphKind::kTile;
  FeatureStatistics result{
      .feature_version = first.feature_version(),
      .list_padding = first.list_padding(),
      .graphs = static_cast<int64_t>(files.size()),
      .nodes = ColumnStatistics(num_node_features(first.feature_version())),
      .configs = ColumnStatistics(is_tile ? kTileConfigFeatures : kLayoutConfigFeatures)};
  for (const GraphFile& file : files) {
    const GraphCache graph(file.path);
    check_alike(graph, first);
    result.nodes.add(graph.node_feat());
    if (is_tile) {
      result.configs.add(graph.config_feat());
    } else if (graph.kind() == GraphKind::kLayout) {
      add_layouts(graph, result.configs);
    }
  }
  return result;
}

}  // namespace lagom::graph

#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lagom/cost_model/graph_data.h"

namespace lagom::cost_model {

/// What is done to a node's columns before the first layer.
enum class NodeTransform {
  kStandardize,     ///< (x - mean) / deviation; 1st place.
  kLogStandardize,  ///< The same of sign(x) log(1 + |x|).
  kSignedLog,       ///< sign(x) log(1 + |x|) alone; 2nd place.
  kMinMax,          ///< (x - min) / (max - min); the official baselines.
};
std::span<const std::string_view> option_names(NodeTransform);

/// How a model's inputs are scaled. Made from the training split alone and kept with the model.
/// Columns that are constant there become 0.
struct Normalization {
  FeatureFormat format;
  NodeTransform transform = NodeTransform::kStandardize;
  std::vector<double> node_shift, node_scale;      ///< [columns]: (f(x) - shift) * scale
  std::vector<double> config_shift, config_scale;  ///< [config_columns]

  /// One node's columns, or several nodes' behind each other.
  void apply_to_nodes(std::span<const float> in, std::span<float> out) const;
  void apply_to_configs(std::span<const float> in, std::span<float> out) const;
};

/// Throws FormatError when the graphs' formats differ, std::invalid_argument without graphs.
Normalization fit_normalization(const std::vector<LabeledGraph>& graphs, NodeTransform transform);

}  // namespace lagom::cost_model

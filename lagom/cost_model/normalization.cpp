#include "lagom/cost_model/normalization.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "lagom/graph/column_statistics.h"

namespace lagom::cost_model {
namespace {

constexpr std::string_view kNames[] = {"standardize", "log_standardize", "signed_log", "min_max"};
constexpr int64_t kRowsAtOnce = 1024;

float signed_log(float x) {
  return std::copysign(std::log1p(std::abs(x)), x);
}

bool takes_log(NodeTransform transform) {
  return transform == NodeTransform::kLogStandardize || transform == NodeTransform::kSignedLog;
}

void scale_columns(const graph::ColumnStatistics& statistics, bool by_range, bool leave,
                   std::vector<double>& shift, std::vector<double>& scale) {
  const auto columns = static_cast<size_t>(statistics.num_columns());
  shift.assign(columns, 0);
  scale.assign(columns, 0);
  const std::vector<double> deviation = statistics.deviation();
  for (size_t c = 0; c < columns; ++c) {
    if (statistics.is_constant(static_cast<int64_t>(c))) continue;
    if (leave) {
      scale[c] = 1;
    } else if (by_range) {
      shift[c] = statistics.min()[c];
      scale[c] = 1 / (statistics.max()[c] - statistics.min()[c]);
    } else {
      shift[c] = statistics.mean()[c];
      scale[c] = 1 / deviation[c];
    }
  }
}

void apply(std::span<const float> in, std::span<float> out, const std::vector<double>& shift,
           const std::vector<double>& scale, bool log) {
  const size_t columns = shift.size();
  for (size_t i = 0; i < in.size(); ++i) {
    const size_t c = i % columns;
    const float value = log ? signed_log(in[i]) : in[i];
    out[i] = static_cast<float>((value - shift[c]) * scale[c]);
  }
}

}  // namespace

std::span<const std::string_view> option_names(NodeTransform) {
  return kNames;
}

void Normalization::apply_to_nodes(std::span<const float> in, std::span<float> out) const {
  apply(in, out, node_shift, node_scale, takes_log(transform));
}

void Normalization::apply_to_configs(std::span<const float> in, std::span<float> out) const {
  if (!config_shift.empty()) apply(in, out, config_shift, config_scale, /*log=*/false);
}

Normalization fit_normalization(const std::vector<LabeledGraph>& graphs, NodeTransform transform) {
  if (graphs.empty()) throw std::invalid_argument("there are no graphs to train on");
  Normalization result{.format = graphs.front().data->format, .transform = transform};
  graph::ColumnStatistics nodes(graph::num_node_features(result.format.feature_version));
  graph::ColumnStatistics configs(result.format.config_columns);
  std::vector<float> logs;
  for (const LabeledGraph& graph : graphs) {
    require_format(*graph.data, result.format);
    if (takes_log(transform)) {
      logs.resize(graph.data->node_feat.size());
      std::transform(graph.data->node_feat.begin(), graph.data->node_feat.end(), logs.begin(),
                     signed_log);
      nodes.add<float>(logs);
    } else {
      nodes.add(graph.data->node_feat);
    }
    if (result.format.config_columns == 0) continue;
    std::vector<int64_t> rows;
    for (int64_t begin = 0; begin < graph.data->num_configs; begin += kRowsAtOnce) {
      rows.resize(static_cast<size_t>(std::min(kRowsAtOnce, graph.data->num_configs - begin)));
      std::iota(rows.begin(), rows.end(), begin);
      configs.add<float>(graph.data->read(rows).columns);
    }
  }
  const bool by_range = transform == NodeTransform::kMinMax;
  scale_columns(nodes, by_range, transform == NodeTransform::kSignedLog, result.node_shift,
                result.node_scale);
  scale_columns(configs, by_range, /*leave=*/false, result.config_shift, result.config_scale);
  return result;
}

}  // namespace lagom::cost_model

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lagom::rank {

/// A graph and configurations of it, as TpuGraphs' arrays (graph::OpGraph) and the measured data
/// sets' own (docs/formats.md). The spans live as long as the caller keeps them; those of parts
/// that there are not are empty.
struct ConfiguredGraph {
  std::string name;  ///< For messages.
  int feature_version = 1, list_padding = 0;
  std::span<const uint8_t> node_opcode;  ///< [n]
  std::span<const float> node_feat;      ///< [n, columns of the feature version]
  std::span<const int64_t> edge_index;   ///< [m, 2]: {user, operand}
  std::span<const int64_t> node_splits;  ///< First nodes of computations.

  int64_t num_configs = 0;
  std::span<const float> config_feat;            ///< [c, 24]: tiles.
  std::span<const int64_t> node_config_ids;      ///< [nc], ascending
  std::span<const int8_t> node_config_feat;      ///< [c, nc, 18]: layouts.
  std::span<const int16_t> node_config_form;     ///< [c, nc]
  std::span<const uint8_t> node_config_barrier;  ///< [c, nc]
  std::span<const float> config_flags;           ///< [c, flags]
  // Where each configuration is a graph of its own, the nodes above are those of all:
  std::span<const int64_t> graph_splits;  ///< First nodes; graph 0: as it is. Ends with n.
  std::span<const int32_t> config_graph;  ///< [c]
};

/// Says which configurations of a graph are fast without running them.
class Ranker {
 public:
  virtual ~Ranker() = default;

  /// [c]: predicted *costs*, in no unit: of two configurations of this graph the one with the lower
  /// cost is predicted to be the faster. Costs of different graphs do not compare. They go where
  /// lagom/rank/metrics.h asks for scores.
  /// Throws FormatError for a graph of another feature version or kind than the ranker knows.
  virtual std::vector<double> costs(const ConfiguredGraph& graph) = 0;
};

}  // namespace lagom::rank

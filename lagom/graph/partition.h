#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

/// Graphs cut into segments of bounded size, for Graph Segment Training (Cao et al. 2023,
/// arXiv 2305.12322).
namespace lagom::graph {

enum class PartitionMethod {
  kMetis,        ///< Few edges between segments: METIS' k-way partition.
  kContiguous,   ///< Equal ranges of nodes as they stand, which for HLO is a topological order.
  kComputation,  ///< Ranges that end at node_splits where they can.
};
std::span<const std::string_view> option_names(PartitionMethod);

struct PartitionOptions {
  PartitionMethod method = PartitionMethod::kMetis;
  int64_t max_nodes = 5000;  ///< Of a segment; from 1.
  uint64_t seed = 1;         ///< Of METIS.

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("method", self.method);
    visit("max_nodes", self.max_nodes);
  }
};

struct Partition {
  std::vector<int32_t> segment_of_node;  ///< [n], from 0.
  std::vector<int64_t> segment_nodes;    ///< Nodes of each segment: 1 to max_nodes.
  int64_t cut_edges = 0;                 ///< Edges between segments: lost to training.

  int64_t num_segments() const { return static_cast<int64_t>(segment_nodes.size()); }
};

/// Cuts a graph of `num_nodes` nodes and edges [m, 2]; directions, edges that stand twice and edges
/// from a node to itself make no difference. node_splits as OpGraph has them, used by kComputation.
/// Equal arguments give equal partitions. A graph without nodes has no segments.
/// Throws std::invalid_argument for a bound below 1 and an edge that leaves the graph.
Partition partition_graph(int64_t num_nodes, std::span<const int64_t> edge_index,
                          std::span<const int64_t> node_splits, const PartitionOptions& options);

}  // namespace lagom::graph

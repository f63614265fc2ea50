#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lagom/cost_model/graph_data.h"
#include "lagom/cost_model/normalization.h"
#include "lagom/cost_model/reduction.h"
#include "lagom/tensor/segment.h"

/// One graph and C of its configurations as tensors.
///
/// What does not depend on the configuration (features, edges) is there once; what does is stored
/// for configurable nodes only, node-major: [nc, C, ...]. Networks make [N, C, F] of it.
namespace lagom::cost_model {

/// What is done to graphs before a network sees them.
struct DataOptions {
  NodeTransform transform = NodeTransform::kStandardize;
  ReductionOptions reduction;
  int64_t position_steps = 0;  ///< Columns of random_walk_returns; 0: none.
  /// Whether linked configurable nodes agree on the tensor between them; over at most this many
  /// edges (config_links). 0: not asked.
  int64_t link_hops = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("transform", self.transform);
    visit("reduction", self.reduction);
    visit("position_steps", self.position_steps);
    visit("link_hops", self.link_hops);
  }
};

inline constexpr int64_t kNodeLayoutColumns = 6;  ///< A node's own layout, among its features.
/// Per configurable node: share of its links to operands that agree, disagree, leave it open; then
/// the same to users.
inline constexpr int64_t kAgreementColumns = 6;
inline constexpr int64_t kBarrierBits = 8;

struct PreparedGraph;
using PreparedGraphPtr = std::shared_ptr<const PreparedGraph>;

/// A part of a graph that is cut (lagom/cost_model/segments.h), as a graph of its own.
struct GraphSegment {
  PreparedGraphPtr graph;              ///< Its nodes, and the edges and links between them.
  std::vector<int64_t> config_places;  ///< Its configurable nodes among the whole's, ascending.
};

/// The part of a batch that all configurations share. Immutable once made.
struct PreparedGraph {
  std::string id, path;
  FeatureFormat format;
  ReductionReport report;
  int64_t num_nodes = 0, num_config_nodes = 0;
  at::Tensor node_feat;                 ///< [N, F] float, normalised; regions have zeros.
  at::Tensor node_opcode;               ///< [N] int64
  at::Tensor node_layout;               ///< [N, 6] int64: the node's own minor_to_major as stored.
  at::Tensor node_positions;            ///< [N, position_steps] float; undefined without.
  at::Tensor node_region;               ///< [N] bool: stands for a contracted region.
  at::Tensor config_nodes;              ///< [nc] int64, ascending
  at::Tensor edge_kind;                 ///< [E] int64, EdgeKind
  tensor::SegmentIndexPtr to_operands;  ///< Users to operands: what the official edges say.
  tensor::SegmentIndexPtr to_users;     ///< Operands to users: as data flows.
  tensor::SegmentIndexPtr to_both;      ///< Both, 2 E edges: those to users first.
  ConfigLinks links;
  std::vector<int64_t> node_splits;  ///< First nodes of computations, ascending.

  // Where each configuration is a graph of its own (format.has_config_graphs):
  std::vector<int64_t> graph_splits, edge_splits;  ///< [graphs + 1]: first nodes and edges.
  at::Tensor node_graph;                           ///< [N] int64
  tensor::SegmentIndexPtr graph_nodes;             ///< Nodes to their graphs.
  std::vector<int32_t> users, operands;            ///< [E]

  int64_t num_graphs() const { return static_cast<int64_t>(graph_splits.size()) - 1; }

  /// Empty: it is not cut. Else the nodes and edges are here, and undefined in the fields above.
  std::vector<GraphSegment> segments;
  int64_t cut_edges = 0;           ///< Edges between segments: they are in none.
  bool configs_elsewhere = false;  ///< Of a segment: its graph's configurable nodes are in others.
};

/// The three indices of edges from `users` to `operands`, of a graph that has its `num_nodes`.
void set_edges(PreparedGraph& graph, std::span<const int32_t> users,
               std::span<const int32_t> operands);

/// Throws FormatError when the graph is of another format than the normalisation.
PreparedGraphPtr prepare_graph(const GraphData& graph, const Normalization& normalization,
                               const DataOptions& options);

struct Batch {
  PreparedGraphPtr graph;
  int64_t num_configs = 0;
  // Undefined where the graph's format has no such part.
  at::Tensor layouts;    ///< [nc, C, 18] int8: -1..5
  at::Tensor forms;      ///< [nc, C] int64
  at::Tensor barriers;   ///< [nc, C, 8] float: 0 or 1
  at::Tensor columns;    ///< [C, config_columns] float, normalised
  at::Tensor agreement;  ///< [nc, C, 6] float; undefined without links
  /// [C] int64: which of the graph's graphs each configuration is; graph 0 is as it is. Only those
  /// that some configuration is, and 0, are there.
  at::Tensor config_graph;
  // Labels; undefined where there are none.
  at::Tensor runtimes;       ///< [C] double, relative: 1 is the default's or the graph's typical.
  at::Tensor uncertainties;  ///< [C] double, the same unit; zeros when not measured

  int64_t num_nodes() const { return graph->num_nodes; }
};

/// Without labels. `rows` are those of the graph's configurable nodes.
Batch make_batch(const PreparedGraphPtr& graph, const ConfigRows& rows,
                 const Normalization& normalization);

/// Of a graph that is cut, without nodes: what configurations say of the whole graph.
Batch make_whole_batch(const PreparedGraphPtr& graph, const ConfigRows& rows,
                       const Normalization& normalization);

/// One segment of a graph that is cut, with these rows of its configurations.
Batch segment_batch(const PreparedGraph& graph, const GraphData& data,
                    std::span<const int64_t> rows, int64_t segment,
                    const Normalization& normalization);

/// Configurations `order` of a batch, which may leave some out or repeat them.
Batch select_configs(const Batch& batch, const at::Tensor& order);

}  // namespace lagom::cost_model

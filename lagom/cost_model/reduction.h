#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Makes a graph smaller before a network sees it: most nodes of a program are far from every node
/// that a configuration changes.
namespace lagom::cost_model {

enum class ReductionKind {
  kNone,         ///< All nodes and edges.
  kConfigEdges,  ///< 1st place: edges with a configurable end, and their ends.
  kHops,         ///< Configurable nodes and what is at most `hops` edges away, either way.
  /// 3rd place: configurable nodes, their neighbours, and each connected region of the rest as one
  /// node without features.
  kContract,
};
std::span<const std::string_view> option_names(ReductionKind);

struct ReductionOptions {
  ReductionKind kind = ReductionKind::kConfigEdges;
  int64_t hops = 3;  ///< For kHops.

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("kind", self.kind);
    visit("hops", self.hops);
  }
};

/// What connects two nodes of a reduced graph.
enum class EdgeKind : uint8_t {
  kData,    ///< The user reads what the operand makes.
  kCall,    ///< The user calls the computation whose root the operand is.
  kRegion,  ///< One end is a contracted region.
};
inline constexpr int kNumEdgeKinds = 3;
/// Opcode number of contracted regions; no feature version uses it.
inline constexpr uint8_t kRegionOpcode = 127;

/// The graph as it was: spans that the caller keeps.
struct GraphView {
  std::span<const uint8_t> node_opcode;      ///< [n]
  std::span<const int64_t> edge_index;       ///< [m, 2]: {user, operand}
  std::span<const uint8_t> is_root;          ///< [n]
  std::span<const int64_t> node_config_ids;  ///< [nc], ascending
  int64_t num_nodes() const { return static_cast<int64_t>(node_opcode.size()); }
};

struct ReductionReport {
  int64_t nodes_before = 0, nodes_after = 0, edges_before = 0, edges_after = 0;
  int64_t regions = 0;         ///< Nodes after that stand for a region.
  int64_t lonely_configs = 0;  ///< Configurable nodes that have no edge afterwards.

  /// "13780 -> 2216 nodes, 23045 -> 2037 edges"
  std::string to_string() const;
};

struct ReducedGraph {
  std::vector<int32_t> nodes;        ///< Numbers in the whole graph, ascending; -1 for a region.
  std::vector<uint8_t> node_opcode;  ///< Of the same.
  std::vector<int32_t> users, operands;  ///< [edges], places in `nodes`; without repeats.
  std::vector<EdgeKind> edge_kind;       ///< [edges]
  std::vector<int32_t> config_nodes;     ///< [nc], places in `nodes`; none is ever dropped.
  ReductionReport report;

  int64_t num_nodes() const { return static_cast<int64_t>(nodes.size()); }
  int64_t num_edges() const { return static_cast<int64_t>(users.size()); }
};

/// A graph without configurable nodes (a kernel with tiles) is kept whole whatever the options say.
/// Throws std::invalid_argument for less than one hop.
ReducedGraph reduce_graph(const GraphView& graph, const ReductionOptions& options);

/// Pairs of configurable nodes with a path from one to the other that passes no third one: between
/// them a tensor can keep its layout or must be copied. Numbers are places in `node_config_ids`;
/// `users[i]` comes later in the program than `operands[i]`. Paths go over at most `max_hops`
/// edges.
struct ConfigLinks {
  std::vector<int32_t> users, operands;
};
ConfigLinks config_links(const GraphView& graph, int64_t max_hops);

}  // namespace lagom::cost_model

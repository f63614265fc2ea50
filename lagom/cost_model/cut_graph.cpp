// A graph's segments as graphs of their own.

#include <ATen/ATen.h>

#include <algorithm>

#include "lagom/cost_model/segments.h"
#include "lagom/graph/partition.h"

namespace lagom::cost_model {
namespace {

/// The edges in the order of `edge_kind`.
struct EdgeList {
  explicit EdgeList(const tensor::SegmentIndex& to_operands)
      : users(static_cast<size_t>(to_operands.num_edges())), operands(users) {
    const tensor::Csr& csr = to_operands.by_output();
    for (int64_t row = 0; row < csr.num_rows(); ++row) {
      for (int64_t k = csr.offsets[static_cast<size_t>(row)];
           k < csr.offsets[static_cast<size_t>(row) + 1]; ++k) {
        const auto edge = static_cast<size_t>(csr.edges[static_cast<size_t>(k)]);
        users[edge] = csr.neighbors[static_cast<size_t>(k)];
        operands[edge] = static_cast<int32_t>(row);
      }
    }
  }
  std::vector<int32_t> users, operands;
};

graph::Partition partition_of(const PreparedGraph& graph, const EdgeList& edges,
                              const SegmentOptions& options) {
  graph::PartitionOptions partition{.max_nodes = options.max_nodes};
  partition.method = options.method == SegmentMethod::kMetis ? graph::PartitionMethod::kMetis
                     : options.method == SegmentMethod::kContiguous
                         ? graph::PartitionMethod::kContiguous
                         : graph::PartitionMethod::kComputation;
  std::vector<int64_t> edge_index;
  edge_index.reserve(2 * edges.users.size());
  for (size_t e = 0; e < edges.users.size(); ++e) {
    edge_index.push_back(edges.users[e]);
    edge_index.push_back(edges.operands[e]);
  }
  return graph::partition_graph(graph.num_nodes, edge_index, graph.node_splits, partition);
}

/// Rows of a tensor over nodes; a view where they lie side by side.
at::Tensor rows_of(const at::Tensor& x, const std::vector<int64_t>& rows) {
  if (!x.defined()) return x;
  const auto count = static_cast<int64_t>(rows.size());
  if (rows.back() - rows.front() + 1 == count) return x.narrow(0, rows.front(), count);
  return x.index_select(0, at::tensor(rows, at::kLong));
}

/// What belongs to each segment.
struct Members {
  std::vector<std::vector<int64_t>> nodes, edges, config_places;
  std::vector<int32_t> place_of_node;  ///< Within its segment.
};

Members members_of(const PreparedGraph& graph, const EdgeList& edges,
                   const graph::Partition& partition) {
  const auto count = static_cast<size_t>(partition.num_segments());
  Members members;
  for (auto* lists : {&members.nodes, &members.edges, &members.config_places}) lists->resize(count);
  const auto segment_of = [&](int64_t node) {
    return static_cast<size_t>(partition.segment_of_node[static_cast<size_t>(node)]);
  };
  for (int64_t node = 0; node < graph.num_nodes; ++node) {
    std::vector<int64_t>& nodes = members.nodes[segment_of(node)];
    members.place_of_node.push_back(static_cast<int32_t>(nodes.size()));
    nodes.push_back(node);
  }
  for (size_t e = 0; e < edges.users.size(); ++e) {
    const size_t segment = segment_of(edges.users[e]);
    if (segment == segment_of(edges.operands[e])) {
      members.edges[segment].push_back(static_cast<int64_t>(e));
    }
  }
  const auto* configs = graph.config_nodes.const_data_ptr<int64_t>();
  for (int64_t place = 0; place < graph.num_config_nodes; ++place) {
    members.config_places[segment_of(configs[place])].push_back(place);
  }
  return members;
}

/// Links with both ends in each segment, between places in its own configurable nodes.
std::vector<ConfigLinks> links_of(const PreparedGraph& graph, const Members& members) {
  std::vector<ConfigLinks> links(members.nodes.size());
  if (graph.links.users.empty()) return links;
  const auto nc = static_cast<size_t>(graph.num_config_nodes);
  std::vector<size_t> segment(nc);
  std::vector<int32_t> place(nc);
  for (size_t s = 0; s < members.config_places.size(); ++s) {
    for (size_t i = 0; i < members.config_places[s].size(); ++i) {
      const auto node = static_cast<size_t>(members.config_places[s][i]);
      segment[node] = s;
      place[node] = static_cast<int32_t>(i);
    }
  }
  for (size_t k = 0; k < graph.links.users.size(); ++k) {
    const auto user = static_cast<size_t>(graph.links.users[k]);
    const auto operand = static_cast<size_t>(graph.links.operands[k]);
    if (segment[user] != segment[operand]) continue;
    links[segment[user]].users.push_back(place[user]);
    links[segment[user]].operands.push_back(place[operand]);
  }
  return links;
}

std::shared_ptr<PreparedGraph> make_segment(const PreparedGraph& graph, const EdgeList& edges,
                                            const Members& members, size_t number) {
  const std::vector<int64_t>& nodes = members.nodes[number];
  const std::vector<int64_t>& config_places = members.config_places[number];
  auto out = std::make_shared<PreparedGraph>();
  out->id = graph.id;
  out->path = graph.path;
  out->format = graph.format;
  out->num_nodes = static_cast<int64_t>(nodes.size());
  out->num_config_nodes = static_cast<int64_t>(config_places.size());
  out->configs_elsewhere = config_places.empty() && graph.num_config_nodes > 0;
  out->node_feat = rows_of(graph.node_feat, nodes);
  out->node_opcode = rows_of(graph.node_opcode, nodes);
  out->node_layout = rows_of(graph.node_layout, nodes);
  out->node_positions = rows_of(graph.node_positions, nodes);
  out->node_region = rows_of(graph.node_region, nodes);
  std::vector<int64_t> config_nodes;
  const auto* configs = graph.config_nodes.const_data_ptr<int64_t>();
  const auto local = [&](int64_t node) { return members.place_of_node[static_cast<size_t>(node)]; };
  for (const int64_t place : config_places) config_nodes.push_back(local(configs[place]));
  out->config_nodes = at::tensor(config_nodes, at::kLong);
  std::vector<int32_t> users, operands;
  for (const int64_t e : members.edges[number]) {
    users.push_back(local(edges.users[static_cast<size_t>(e)]));
    operands.push_back(local(edges.operands[static_cast<size_t>(e)]));
  }
  set_edges(*out, users, operands);
  if (graph.edge_kind.defined()) {
    out->edge_kind = graph.edge_kind.index_select(0, at::tensor(members.edges[number], at::kLong));
  }
  return out;
}

}  // namespace

PreparedGraphPtr cut_graph(const PreparedGraphPtr& graph, const SegmentOptions& options) {
  if (!options.cuts() || graph->num_nodes == 0) return graph;
  TORCH_CHECK_VALUE(!graph->format.has_config_graphs, graph->path,
                    ": a graph per configuration is not cut into segments");
  const EdgeList edges(*graph->to_operands);
  const graph::Partition partition = partition_of(*graph, edges, options);
  auto out = std::make_shared<PreparedGraph>();
  out->id = graph->id;
  out->path = graph->path;
  out->format = graph->format;
  out->report = graph->report;
  out->num_nodes = graph->num_nodes;
  out->num_config_nodes = graph->num_config_nodes;
  out->cut_edges = partition.cut_edges;
  const Members members = members_of(*graph, edges, partition);
  if (members.nodes.size() == 1) {
    out->segments = {{.graph = graph, .config_places = members.config_places[0]}};
    return out;
  }
  const std::vector<ConfigLinks> links = links_of(*graph, members);
  for (size_t s = 0; s < members.nodes.size(); ++s) {
    const auto segment = make_segment(*graph, edges, members, s);
    segment->links = links[s];
    out->segments.push_back({.graph = segment, .config_places = members.config_places[s]});
  }
  return out;
}

}  // namespace lagom::cost_model

#include "lagom/cost_model/batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lagom/cost_model/positions.h"
#include "lagom/graph/op_graph.h"

namespace lagom::cost_model {
namespace {

using graph::kFeatureRank;
using graph::kLayoutConfigFeatures;
using tensor::SegmentIndex;

constexpr size_t kFirstLayoutColumn = 134;  // minor_to_major ends v1's columns

template <typename T>
at::Tensor tensor_of(const std::vector<T>& values, at::IntArrayRef sizes, at::ScalarType type) {
  const at::Tensor view = at::from_blob(const_cast<T*>(values.data()), sizes,
                                        at::TensorOptions().dtype(c10::CppTypeToScalarType<T>()));
  return view.to(type, /*non_blocking=*/false, /*copy=*/true);
}

void fill_node_features(const GraphData& graph, const ReducedGraph& reduced,
                        const Normalization& normalization, PreparedGraph& out) {
  const auto columns = static_cast<size_t>(graph::num_node_features(graph.format.feature_version));
  const size_t n = reduced.nodes.size();
  std::vector<float> features(n * columns, 0);
  std::vector<int64_t> layout(n * kNodeLayoutColumns, -1), opcode(n);
  std::vector<uint8_t> region(n, 0);
  for (size_t i = 0; i < n; ++i) {
    opcode[i] = reduced.node_opcode[i];
    if (reduced.nodes[i] < 0) {
      region[i] = 1;
      continue;
    }
    const auto row =
        graph.node_feat.subspan(static_cast<size_t>(reduced.nodes[i]) * columns, columns);
    normalization.apply_to_nodes(row, std::span(features).subspan(i * columns, columns));
    for (size_t d = 0; d < kNodeLayoutColumns; ++d) {
      layout[i * kNodeLayoutColumns + d] = static_cast<int64_t>(row[kFirstLayoutColumn + d]);
    }
  }
  const auto rows = static_cast<int64_t>(n);
  out.node_feat = tensor_of(features, {rows, static_cast<int64_t>(columns)}, at::kFloat);
  out.node_opcode = tensor_of(opcode, {rows}, at::kLong);
  out.node_layout = tensor_of(layout, {rows, kNodeLayoutColumns}, at::kLong);
  out.node_region = tensor_of(region, {rows}, at::kBool);
}

void fill_edge_kinds(const ReducedGraph& reduced, PreparedGraph& out) {
  std::vector<int64_t> kinds;
  for (const EdgeKind kind : reduced.edge_kind) kinds.push_back(static_cast<int64_t>(kind));
  out.edge_kind = tensor_of(kinds, {reduced.num_edges()}, at::kLong);
}

enum Agreement { kAgree = 0, kDisagree = 1, kOpen = 2 };

/// Whether what one node makes has the layout that another one reads. Layouts may name the
/// minor-most dimensions only: those that both name count.
Agreement compare_layouts(const int8_t* made, const int8_t* user) {
  Agreement result = kOpen;
  for (const size_t tensor : {size_t{1}, size_t{2}}) {
    const int8_t* read = user + tensor * kFeatureRank;
    bool is_equal = true;
    size_t compared = 0;
    for (; compared < kFeatureRank && made[compared] >= 0 && read[compared] >= 0; ++compared) {
      is_equal = is_equal && made[compared] == read[compared];
    }
    if (compared == 0) continue;
    if (is_equal) return kAgree;
    result = kDisagree;
  }
  return result;
}

/// [nc, C, 6] of layouts [C, nc, 18].
at::Tensor agreement_of(const ConfigLinks& links, const ConfigRows& rows, int64_t nc) {
  at::Tensor out = at::zeros({nc, rows.count, kAgreementColumns});
  auto* values = out.mutable_data_ptr<float>();
  std::vector<float> operand_links(static_cast<size_t>(nc), 0), user_links(operand_links);
  for (size_t k = 0; k < links.users.size(); ++k) {
    ++operand_links[static_cast<size_t>(links.users[k])];
    ++user_links[static_cast<size_t>(links.operands[k])];
  }
  const auto at = [&](int64_t c, int32_t node) {
    return rows.layouts.data() + (c * nc + node) * kLayoutConfigFeatures;
  };
  for (size_t k = 0; k < links.users.size(); ++k) {
    const int32_t user = links.users[k], operand = links.operands[k];
    for (int64_t c = 0; c < rows.count; ++c) {
      const auto state = compare_layouts(at(c, operand), at(c, user));
      values[(user * rows.count + c) * kAgreementColumns + state] +=
          1 / operand_links[static_cast<size_t>(user)];
      values[(operand * rows.count + c) * kAgreementColumns + 3 + state] +=
          1 / user_links[static_cast<size_t>(operand)];
    }
  }
  return out;
}

/// Which graph each node belongs to, of a graph that has its `graph_splits`.
void set_node_graphs(PreparedGraph& graph) {
  std::vector<int32_t> graphs, nodes;
  for (int64_t g = 0; g < graph.num_graphs(); ++g) {
    const int64_t count =
        graph.graph_splits[static_cast<size_t>(g) + 1] - graph.graph_splits[static_cast<size_t>(g)];
    graphs.insert(graphs.end(), static_cast<size_t>(count), static_cast<int32_t>(g));
  }
  nodes.resize(graphs.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  graph.node_graph = tensor_of(graphs, {graph.num_nodes}, at::kLong);
  graph.graph_nodes =
      std::make_shared<SegmentIndex>(graph.num_graphs(), graph.num_nodes, graphs, nodes);
}

void fill_config_graphs(const GraphData& graph, const ReducedGraph& reduced, PreparedGraph& out) {
  // Without configurable nodes nothing was dropped.
  out.graph_splits.assign(graph.graph_splits.begin(), graph.graph_splits.end());
  out.users.assign(reduced.users.begin(), reduced.users.end());
  out.operands.assign(reduced.operands.begin(), reduced.operands.end());
  size_t edge = 0;
  for (const int64_t split : out.graph_splits) {
    while (edge < out.users.size() && out.users[edge] < split) ++edge;
    out.edge_splits.push_back(static_cast<int64_t>(edge));
  }
  set_node_graphs(out);
}

/// Some of the graphs, ascending, as a union of their own.
PreparedGraphPtr select_graphs(const PreparedGraph& all, const std::vector<int64_t>& graphs) {
  auto out = std::make_shared<PreparedGraph>();
  out->id = all.id;
  out->path = all.path;
  out->format = all.format;
  out->graph_splits = out->edge_splits = {0};
  std::vector<int64_t> nodes, edges;
  for (const int64_t g : graphs) {
    const auto at = static_cast<size_t>(g);
    const auto shift =
        static_cast<int32_t>(static_cast<int64_t>(nodes.size()) - all.graph_splits[at]);
    for (int64_t i = all.graph_splits[at]; i < all.graph_splits[at + 1]; ++i) nodes.push_back(i);
    for (int64_t e = all.edge_splits[at]; e < all.edge_splits[at + 1]; ++e) {
      edges.push_back(e);
      out->users.push_back(all.users[static_cast<size_t>(e)] + shift);
      out->operands.push_back(all.operands[static_cast<size_t>(e)] + shift);
    }
    out->graph_splits.push_back(static_cast<int64_t>(nodes.size()));
    out->edge_splits.push_back(static_cast<int64_t>(edges.size()));
  }
  out->num_nodes = static_cast<int64_t>(nodes.size());
  const at::Tensor rows = at::tensor(nodes, at::kLong);
  const auto pick = [&](const at::Tensor& x) { return x.defined() ? x.index_select(0, rows) : x; };
  out->node_feat = pick(all.node_feat);
  out->node_opcode = pick(all.node_opcode);
  out->node_layout = pick(all.node_layout);
  out->node_positions = pick(all.node_positions);
  out->node_region = pick(all.node_region);
  out->config_nodes = all.config_nodes;
  out->edge_kind = all.edge_kind.index_select(0, at::tensor(edges, at::kLong));
  out->node_splits = {0};
  set_edges(*out, out->users, out->operands);
  set_node_graphs(*out);
  return out;
}

/// The graphs of the rows and graph 0, and which of them each row is.
void set_config_graphs(Batch& batch, const ConfigRows& rows) {
  std::vector<int64_t> used(rows.graphs.begin(), rows.graphs.end());
  used.push_back(0);
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  std::vector<int64_t> places;
  for (const int32_t graph : rows.graphs) {
    places.push_back(std::lower_bound(used.begin(), used.end(), graph) - used.begin());
  }
  batch.config_graph = tensor_of(places, {rows.count}, at::kLong);
  if (static_cast<int64_t>(used.size()) < batch.graph->num_graphs()) {
    batch.graph = select_graphs(*batch.graph, used);
  }
}

/// First kept node of each computation. nodes: ascending, then regions (-1).
std::vector<int64_t> kept_splits(std::span<const int64_t> splits,
                                 const std::vector<int32_t>& nodes) {
  const auto end = std::find(nodes.begin(), nodes.end(), -1);
  std::vector<int64_t> kept;
  for (const int64_t split : splits) {
    const int64_t place = std::lower_bound(nodes.begin(), end, split) - nodes.begin();
    if (kept.empty() || place > kept.back()) kept.push_back(place);
  }
  return kept;
}

}  // namespace

void set_edges(PreparedGraph& graph, std::span<const int32_t> users,
               std::span<const int32_t> operands) {
  const int64_t n = graph.num_nodes;
  graph.to_operands = std::make_shared<SegmentIndex>(n, n, operands, users);
  graph.to_users = std::make_shared<SegmentIndex>(n, n, users, operands);
  std::vector<int32_t> outputs(users.begin(), users.end()),
      inputs(operands.begin(), operands.end());
  outputs.insert(outputs.end(), operands.begin(), operands.end());
  inputs.insert(inputs.end(), users.begin(), users.end());
  graph.to_both = std::make_shared<SegmentIndex>(n, n, outputs, inputs);
}

PreparedGraphPtr prepare_graph(const GraphData& graph, const Normalization& normalization,
                               const DataOptions& options) {
  require_format(graph, normalization.format);
  const auto columns = static_cast<size_t>(graph::num_node_features(graph.format.feature_version));
  std::vector<uint8_t> is_root(graph.node_opcode.size());
  for (size_t i = 0; i < is_root.size(); ++i) is_root[i] = graph.node_feat[i * columns] != 0;
  const GraphView view{.node_opcode = graph.node_opcode,
                       .edge_index = graph.edge_index,
                       .is_root = is_root,
                       .node_config_ids = graph.node_config_ids};
  const ReducedGraph reduced = reduce_graph(view, options.reduction);

  auto out = std::make_shared<PreparedGraph>();
  out->id = graph.id;
  out->path = graph.path;
  out->format = graph.format;
  out->report = reduced.report;
  out->num_nodes = reduced.num_nodes();
  out->num_config_nodes = graph.num_config_nodes();
  fill_node_features(graph, reduced, normalization, *out);
  set_edges(*out, reduced.users, reduced.operands);
  fill_edge_kinds(reduced, *out);
  out->node_splits = kept_splits(graph.node_splits, reduced.nodes);
  out->config_nodes = tensor_of(reduced.config_nodes, {out->num_config_nodes}, at::kLong);
  if (options.position_steps > 0) {
    const std::vector<float> returns = random_walk_returns(graph.edge_index, graph.num_nodes(),
                                                           reduced.nodes, options.position_steps);
    out->node_positions = tensor_of(returns, {out->num_nodes, options.position_steps}, at::kFloat);
  }
  if (out->format.has_config_graphs) fill_config_graphs(graph, reduced, *out);
  if (options.link_hops > 0) out->links = config_links(view, options.link_hops);
  return out;
}

Batch make_batch(const PreparedGraphPtr& graph, const ConfigRows& rows,
                 const Normalization& normalization) {
  const int64_t nc = graph->num_config_nodes, c = rows.count;
  Batch batch = make_whole_batch(graph, rows, normalization);
  if (graph->format.has_config_graphs) set_config_graphs(batch, rows);
  if (graph->format.has_layouts) {
    batch.layouts = tensor_of(rows.layouts, {c, nc, kLayoutConfigFeatures}, at::kChar)
                        .transpose(0, 1)
                        .contiguous();  // [nc, C, 18]
    if (!graph->links.users.empty()) batch.agreement = agreement_of(graph->links, rows, nc);
  }
  if (graph->format.has_forms) {
    batch.forms = tensor_of(rows.forms, {c, nc}, at::kLong).t().contiguous();  // [nc, C]
    const at::Tensor bits = tensor_of(rows.barriers, {c, nc}, at::kByte).t().unsqueeze(-1);
    const at::Tensor shifts = at::arange(kBarrierBits, at::kByte);
    batch.barriers = at::bitwise_and(at::bitwise_right_shift(bits, shifts), 1).to(at::kFloat);
  }
  return batch;
}

Batch make_whole_batch(const PreparedGraphPtr& graph, const ConfigRows& rows,
                       const Normalization& normalization) {
  Batch batch{.graph = graph, .num_configs = rows.count};
  if (graph->format.config_columns > 0) {
    std::vector<float> scaled(rows.columns.size());
    normalization.apply_to_configs(rows.columns, scaled);
    batch.columns = tensor_of(scaled, {rows.count, graph->format.config_columns}, at::kFloat);
  }
  return batch;
}

Batch segment_batch(const PreparedGraph& graph, const GraphData& data,
                    std::span<const int64_t> rows, int64_t segment,
                    const Normalization& normalization) {
  const GraphSegment& part = graph.segments.at(static_cast<size_t>(segment));
  return make_batch(part.graph, data.read(rows, part.config_places), normalization);
}

Batch select_configs(const Batch& batch, const at::Tensor& order) {
  const auto select = [&](const at::Tensor& x, int64_t dim) {
    return x.defined() ? x.index_select(dim, order) : x;
  };
  return {.graph = batch.graph,
          .num_configs = order.size(0),
          .layouts = select(batch.layouts, 1),
          .forms = select(batch.forms, 1),
          .barriers = select(batch.barriers, 1),
          .columns = select(batch.columns, 0),
          .agreement = select(batch.agreement, 1),
          .config_graph = select(batch.config_graph, 0),
          .runtimes = select(batch.runtimes, 0),
          .uncertainties = select(batch.uncertainties, 0)};
}

}  // namespace lagom::cost_model

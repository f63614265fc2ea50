#include "lagom/cost_model/reduction.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>
#include <tuple>

#include "lagom/graph/op_graph.h"
#include "lagom/hlo/opcode.h"

namespace lagom::cost_model {
namespace {

using hlo::Opcode;

constexpr std::string_view kNames[] = {"none", "config_edges", "hops", "contract"};

/// Opcode numbers, of any feature version, whose users reach into another computation.
std::vector<bool> calling_opcodes() {
  std::vector<bool> calls(256, false);
  for (const Opcode opcode :
       {Opcode::kFusion, Opcode::kCall, Opcode::kWhile, Opcode::kConditional, Opcode::kReduce,
        Opcode::kReduceWindow, Opcode::kSelectAndScatter, Opcode::kScatter, Opcode::kSort,
        Opcode::kMap, Opcode::kAllReduce, Opcode::kReduceScatter, Opcode::kCustomCall}) {
    calls[graph::opcode_number(opcode)] = true;
  }
  return calls;
}

EdgeKind kind_of(const GraphView& graph, int64_t user, int64_t operand) {
  static const std::vector<bool> kCalls = calling_opcodes();
  return graph.is_root[static_cast<size_t>(operand)] != 0 &&
                 kCalls[graph.node_opcode[static_cast<size_t>(user)]]
             ? EdgeKind::kCall
             : EdgeKind::kData;
}

template <typename Visitor>
void for_each_edge(const GraphView& graph, Visitor&& visit) {
  for (size_t e = 0; e + 1 < graph.edge_index.size(); e += 2) {
    visit(graph.edge_index[e], graph.edge_index[e + 1]);
  }
}

/// 0 for configurable nodes, hops to the next one for others, at most `hops` + 1.
std::vector<int64_t> distances(const GraphView& graph, int64_t hops) {
  std::vector<int64_t> distance(graph.node_opcode.size(), hops + 1);
  for (const int64_t node : graph.node_config_ids) distance[static_cast<size_t>(node)] = 0;
  for (int64_t round = 1; round <= hops; ++round) {
    std::vector<int64_t> next = distance;
    for_each_edge(graph, [&](int64_t user, int64_t operand) {
      const auto u = static_cast<size_t>(user), o = static_cast<size_t>(operand);
      if (distance[u] == round - 1) next[o] = std::min(next[o], round);
      if (distance[o] == round - 1) next[u] = std::min(next[u], round);
    });
    distance = std::move(next);
  }
  return distance;
}

std::vector<bool> kept_nodes(const GraphView& graph, const ReductionOptions& options) {
  const size_t n = graph.node_opcode.size();
  if (options.kind == ReductionKind::kNone || graph.node_config_ids.empty()) {
    return std::vector<bool>(n, true);
  }
  const int64_t hops = options.kind == ReductionKind::kHops ? options.hops : 1;
  if (hops < 1) throw std::invalid_argument("ReductionOptions: hops must be at least 1");
  const std::vector<int64_t> distance = distances(graph, hops);
  std::vector<bool> keep(n);
  for (size_t i = 0; i < n; ++i) keep[i] = distance[i] <= hops;
  return keep;
}

/// Place of each node's region among the regions, -1 for kept nodes: connected parts of the rest.
std::pair<std::vector<int32_t>, int32_t> regions_of(const GraphView& graph,
                                                    const std::vector<bool>& keep) {
  std::vector<int32_t> parent(keep.size());
  std::iota(parent.begin(), parent.end(), 0);
  const auto root = [&](int32_t node) {
    while (parent[static_cast<size_t>(node)] != node) {
      const int32_t up = parent[static_cast<size_t>(node)];
      parent[static_cast<size_t>(node)] = parent[static_cast<size_t>(up)];
      node = up;
    }
    return node;
  };
  for_each_edge(graph, [&](int64_t user, int64_t operand) {
    if (keep[static_cast<size_t>(user)] || keep[static_cast<size_t>(operand)]) return;
    const int32_t a = root(static_cast<int32_t>(user)), b = root(static_cast<int32_t>(operand));
    parent[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
  });
  std::vector<int32_t> region(keep.size(), -1), number(keep.size(), -1);
  int32_t count = 0;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (keep[i]) continue;
    int32_t& of_root = number[static_cast<size_t>(root(static_cast<int32_t>(i)))];
    if (of_root < 0) of_root = count++;
    region[i] = of_root;
  }
  return {std::move(region), count};
}

}  // namespace

std::span<const std::string_view> option_names(ReductionKind) {
  return kNames;
}

std::string ReductionReport::to_string() const {
  std::string text = std::to_string(nodes_before) + " -> " + std::to_string(nodes_after) +
                     " nodes, " + std::to_string(edges_before) + " -> " +
                     std::to_string(edges_after) + " edges";
  if (regions > 0) text += ", " + std::to_string(regions) + " regions";
  if (lonely_configs > 0) {
    text += ", " + std::to_string(lonely_configs) + " configurable nodes without edges";
  }
  return text;
}

ReducedGraph reduce_graph(const GraphView& graph, const ReductionOptions& options) {
  const std::vector<bool> keep = kept_nodes(graph, options);
  const bool has_configs = !graph.node_config_ids.empty();
  std::vector<bool> is_config(keep.size(), false);
  for (const int64_t node : graph.node_config_ids) is_config[static_cast<size_t>(node)] = true;

  ReducedGraph reduced;
  std::vector<int32_t> place(keep.size(), -1);
  for (size_t i = 0; i < keep.size(); ++i) {
    if (!keep[i]) continue;
    place[i] = static_cast<int32_t>(reduced.nodes.size());
    reduced.nodes.push_back(static_cast<int32_t>(i));
    reduced.node_opcode.push_back(graph.node_opcode[i]);
  }
  if (has_configs && options.kind == ReductionKind::kContract) {
    const auto [region, count] = regions_of(graph, keep);
    const auto first = static_cast<int32_t>(reduced.nodes.size());
    for (size_t i = 0; i < keep.size(); ++i) {
      if (!keep[i]) place[i] = first + region[i];
    }
    reduced.nodes.insert(reduced.nodes.end(), static_cast<size_t>(count), -1);
    reduced.node_opcode.insert(reduced.node_opcode.end(), static_cast<size_t>(count),
                               kRegionOpcode);
    reduced.report.regions = count;
  }
  std::set<std::pair<int32_t, int32_t>> seen;
  for_each_edge(graph, [&](int64_t user, int64_t operand) {
    const auto u = static_cast<size_t>(user), o = static_cast<size_t>(operand);
    if (place[u] < 0 || place[o] < 0 || place[u] == place[o]) return;
    if (has_configs && options.kind == ReductionKind::kConfigEdges && !is_config[u] &&
        !is_config[o]) {
      return;
    }
    if (!seen.emplace(place[u], place[o]).second) return;
    reduced.users.push_back(place[u]);
    reduced.operands.push_back(place[o]);
    reduced.edge_kind.push_back(keep[u] && keep[o] ? kind_of(graph, user, operand)
                                                   : EdgeKind::kRegion);
  });
  std::vector<bool> has_edge(reduced.nodes.size(), false);
  for (size_t e = 0; e < reduced.users.size(); ++e) {
    has_edge[static_cast<size_t>(reduced.users[e])] = true;
    has_edge[static_cast<size_t>(reduced.operands[e])] = true;
  }
  for (const int64_t node : graph.node_config_ids) {
    reduced.config_nodes.push_back(place[static_cast<size_t>(node)]);
    if (!has_edge[static_cast<size_t>(reduced.config_nodes.back())]) {
      ++reduced.report.lonely_configs;
    }
  }
  reduced.report.nodes_before = graph.num_nodes();
  reduced.report.nodes_after = reduced.num_nodes();
  reduced.report.edges_before = static_cast<int64_t>(graph.edge_index.size() / 2);
  reduced.report.edges_after = reduced.num_edges();
  return reduced;
}

ConfigLinks config_links(const GraphView& graph, int64_t max_hops) {
  const size_t n = graph.node_opcode.size();
  std::vector<std::vector<int32_t>> operands(n);
  for_each_edge(graph, [&](int64_t user, int64_t operand) {
    operands[static_cast<size_t>(user)].push_back(static_cast<int32_t>(operand));
  });
  std::vector<int32_t> config_place(n, -1);
  for (size_t i = 0; i < graph.node_config_ids.size(); ++i) {
    config_place[static_cast<size_t>(graph.node_config_ids[i])] = static_cast<int32_t>(i);
  }
  ConfigLinks links;
  std::vector<int32_t> visited(n, -1), front, next;
  for (size_t i = 0; i < graph.node_config_ids.size(); ++i) {
    front = {static_cast<int32_t>(graph.node_config_ids[i])};
    visited[static_cast<size_t>(front[0])] = static_cast<int32_t>(i);
    for (int64_t hop = 0; hop < max_hops && !front.empty(); ++hop) {
      next.clear();
      for (const int32_t node : front) {
        for (const int32_t operand : operands[static_cast<size_t>(node)]) {
          const auto o = static_cast<size_t>(operand);
          if (visited[o] == static_cast<int32_t>(i)) continue;
          visited[o] = static_cast<int32_t>(i);
          if (config_place[o] >= 0) {
            links.users.push_back(static_cast<int32_t>(i));
            links.operands.push_back(config_place[o]);
          } else {
            next.push_back(operand);
          }
        }
      }
      std::swap(front, next);
    }
  }
  return links;
}

}  // namespace lagom::cost_model

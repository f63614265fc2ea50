#include "lagom/collect/rewritten_graphs.h"

#include <string>
#include <unordered_map>

#include "lagom/hlo/text_writer.h"

namespace lagom::collect {
namespace {

/// Adds a graph of the same options behind the others.
void append(const graph::OpGraph& graph, RewrittenGraphs& all) {
  graph::OpGraph& to = all.graph;
  const int64_t first = to.num_nodes();
  to.node_opcode.insert(to.node_opcode.end(), graph.node_opcode.begin(), graph.node_opcode.end());
  to.node_feat.insert(to.node_feat.end(), graph.node_feat.begin(), graph.node_feat.end());
  for (const int64_t node : graph.edge_index) to.edge_index.push_back(first + node);
  all.graph_splits.push_back(to.num_nodes());
}

}  // namespace

RewrittenGraphs make_rewritten_graphs(const hlo::Module& module,
                                      const std::vector<rewrite::Configuration>& configurations,
                                      const graph::OpGraphOptions& options) {
  RewrittenGraphs all{
      .graph = {.feature_version = options.feature_version, .list_padding = options.list_padding},
      .graph_splits = {0}};
  std::unordered_map<std::string, int32_t> by_text;
  const auto graph_of = [&](const hlo::Module& program) {
    const auto next = static_cast<int32_t>(by_text.size());
    const auto [it, is_new] = by_text.emplace(hlo::write_hlo_text(program), next);
    if (is_new) append(graph::make_op_graph(program, options), all);
    return it->second;
  };
  graph_of(module);
  for (const rewrite::Configuration& configuration : configurations) {
    all.config_graph.push_back(
        configuration.decisions.empty() ? 0 : graph_of(rewrite::apply(module, configuration)));
  }
  all.graph.node_splits = {0, all.graph.num_nodes()};
  return all;
}

}  // namespace lagom::collect

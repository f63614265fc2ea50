#pragma once

#include <cstdint>
#include <vector>

#include "lagom/graph/op_graph.h"
#include "lagom/hlo/module.h"
#include "lagom/rewrite/configuration.h"

namespace lagom::collect {

/// A program in each of its configurations: the *rewritten* encoding, which shows a form by the
/// instructions that it is made of instead of by its rule's number, so that rules that came later
/// mean something too.
///
/// One disjoint union of graphs: graph 0 is the program as it is, equal programs are there once.
struct RewrittenGraphs {
  graph::OpGraph graph;               ///< All of them, one after the other.
  std::vector<int64_t> graph_splits;  ///< [graphs + 1]: first nodes; ends with their number.
  std::vector<int32_t> config_graph;  ///< [configs]: which one each configuration is.
};

/// Flags change nothing here. Throws std::invalid_argument as rewrite::apply and make_op_graph.
RewrittenGraphs make_rewritten_graphs(const hlo::Module& module,
                                      const std::vector<rewrite::Configuration>& configurations,
                                      const graph::OpGraphOptions& options);

}  // namespace lagom::collect

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lagom/graph/edge_list.h"

/// Graphs of known families, for trying whole-graph classification.
///
/// A graph is made of *modules* of 100 to 400 nodes, each grown by one of five *laws*, and a few
/// edges between them. A family is a law: of its graphs each module follows it with probability
/// `purity`, and each of the other four equally often. So a part of a graph says little of the
/// family, and all modules together say it surely.
namespace lagom::graph {

/// What a node that is added to a module of earlier nodes is tied to.
enum class GrowthLaw {
  kUniform,       ///< Two of them, any.
  kPreferential,  ///< Two, in proportion to their degrees: a power law of degrees.
  kTriangles,     ///< One and a neighbour of it: many triangles.
  kStars,         ///< One of the few hubs; every 30th node is a new hub, tied to the one before.
  kLattice,       ///< The two before it, one in ten of these ties going anywhere instead.
};
std::span<const std::string_view> option_names(GrowthLaw);

struct FamilyOptions {
  GrowthLaw family = GrowthLaw::kUniform;
  int64_t num_nodes = 2000;
  double purity = 0.4;  ///< In [0, 1].
  uint64_t seed = 1;
};
/// Nodes are in the order of growth, modules one after the other. Throws std::invalid_argument for
/// fewer than 2 nodes.
EdgeListGraph random_family_graph(const FamilyOptions& options);

}  // namespace lagom::graph

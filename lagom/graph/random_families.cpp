#include "lagom/graph/random_families.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "lagom/util/random_stream.h"

namespace lagom::graph {
namespace {

constexpr int64_t kLeastNodes = 100, kMostNodes = 400, kHubEvery = 30, kEdgesBetween = 3;
constexpr double kRewired = 0.1;

class ModuleGrower {
 public:
  ModuleGrower(GrowthLaw law, int64_t first, EdgeListGraph& graph, Random& random)
      : law_(law),
        first_(first),
        graph_(graph),
        random_(random),
        first_edge_(graph.edge_index.size()) {}

  void add(int64_t node) {
    first_tie_.push_back(-1);
    if (node == first_) return;
    const int64_t before = node - first_;
    switch (law_) {
      case GrowthLaw::kUniform:
        tie(node, first_ + random_.below(before));
        tie(node, first_ + random_.below(before));
        break;
      case GrowthLaw::kPreferential:
        tie(node, by_degree(node));
        tie(node, by_degree(node));
        break;
      case GrowthLaw::kTriangles: {
        const int64_t one = first_ + random_.below(before);
        tie(node, one);
        if (one > first_) tie(node, first_tie_[static_cast<size_t>(one - first_)]);
        break;
      }
      case GrowthLaw::kStars:
        if (before % kHubEvery == 0) {
          tie(node, node - kHubEvery);
        } else {
          const int64_t hubs = (before + kHubEvery - 1) / kHubEvery;
          tie(node, first_ + kHubEvery * random_.below(hubs));
        }
        break;
      case GrowthLaw::kLattice:
        for (const int64_t back : {1, 2}) {
          if (back > before) continue;
          const bool is_rewired = random_.unit() < kRewired;
          tie(node, is_rewired ? first_ + random_.below(before) : node - back);
        }
        break;
    }
  }

 private:
  void tie(int64_t node, int64_t to) {
    graph_.edge_index.insert(graph_.edge_index.end(), {node, to});
    if (first_tie_.back() < 0) first_tie_.back() = to;
  }
  /// An end of a random edge of the module.
  int64_t by_degree(int64_t node) {
    const auto ends = static_cast<int64_t>(graph_.edge_index.size() - first_edge_);
    // The node's own first edge is not yet one to follow.
    for (int64_t tries = 0; ends > 0 && tries < 20; ++tries) {
      const int64_t end = graph_.edge_index[first_edge_ + static_cast<size_t>(random_.below(ends))];
      if (end != node) return end;
    }
    return first_;
  }
  GrowthLaw law_;
  int64_t first_;
  EdgeListGraph& graph_;
  Random& random_;
  size_t first_edge_;
  std::vector<int64_t> first_tie_;  ///< Of each node so far: what it was first tied to.
};

GrowthLaw law_of_module(const FamilyOptions& options, Random& random) {
  if (random.unit() < options.purity) return options.family;
  const auto laws = static_cast<int64_t>(option_names(GrowthLaw{}).size());
  const int64_t other = random.below(laws - 1);
  const auto family = static_cast<int64_t>(options.family);
  return static_cast<GrowthLaw>(other < family ? other : other + 1);
}

}  // namespace

std::span<const std::string_view> option_names(GrowthLaw) {
  static constexpr std::array<std::string_view, 5> kNames = {"uniform", "preferential", "triangles",
                                                             "stars", "lattice"};
  return kNames;
}

EdgeListGraph random_family_graph(const FamilyOptions& options) {
  if (options.num_nodes < 2) {
    throw std::invalid_argument("random_family_graph: expected at least 2 nodes, got " +
                                std::to_string(options.num_nodes));
  }
  Random random = random_stream(static_cast<int64_t>(options.seed),
                                static_cast<int64_t>(options.family), /*purpose=*/6);
  EdgeListGraph graph{.num_nodes = options.num_nodes, .edge_index = {}};
  for (int64_t first = 0; first < options.num_nodes;) {
    const int64_t wanted = kLeastNodes + random.below(kMostNodes - kLeastNodes + 1);
    const int64_t end = std::min(options.num_nodes, first + wanted);
    ModuleGrower module(law_of_module(options, random), first, graph, random);
    for (int64_t node = first; node < end; ++node) module.add(node);
    for (int64_t i = 0; first > 0 && i < kEdgesBetween; ++i) {
      const int64_t inside = first + random.below(end - first);
      // Mostly to what lies near, as calls between a program's parts do.
      const int64_t reach = std::min<int64_t>(first, 4 * kMostNodes);
      const int64_t outside = first - 1 - random.below(reach);
      graph.edge_index.insert(graph.edge_index.end(), {inside, outside});
    }
    first = end;
  }
  return graph;
}

}  // namespace lagom::graph

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lagom::cost_model {

/// Where nodes stand in a graph, from its edges alone (Dwivedi et al. 2022, arXiv 2110.07875): out
/// [nodes, steps], entry k the probability that a random walk over edges in both directions is back
/// at its start after k + 1 steps. Walks go through the whole graph, also where only some nodes are
/// asked for; a node of -1 gets zeros, as does one without edges.
std::vector<float> random_walk_returns(std::span<const int64_t> edge_index, int64_t num_nodes,
                                       std::span<const int32_t> nodes, int64_t steps);

}  // namespace lagom::cost_model

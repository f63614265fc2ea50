#include "lagom/cost_model/positions.h"

#include <cstddef>
#include <numeric>
#include <utility>

namespace lagom::cost_model {

std::vector<float> random_walk_returns(std::span<const int64_t> edge_index, int64_t num_nodes,
                                       std::span<const int32_t> nodes, int64_t steps) {
  std::vector<int64_t> offsets(static_cast<size_t>(num_nodes) + 1, 0);
  for (const int64_t end : edge_index) ++offsets[static_cast<size_t>(end) + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  std::vector<int32_t> neighbors(edge_index.size());
  std::vector<int64_t> at(offsets.begin(), offsets.end() - 1);
  for (size_t e = 0; e + 1 < edge_index.size(); e += 2) {
    for (const auto& [from, to] : {std::pair{edge_index[e], edge_index[e + 1]},
                                   std::pair{edge_index[e + 1], edge_index[e]}}) {
      neighbors[static_cast<size_t>(at[static_cast<size_t>(from)]++)] = static_cast<int32_t>(to);
    }
  }
  std::vector<float> out(nodes.size() * static_cast<size_t>(steps), 0);
  // Walks are sparse for the first steps: only nodes with a share are visited.
  std::vector<double> share(static_cast<size_t>(num_nodes), 0), next(share);
  std::vector<int32_t> active, reached;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] < 0) continue;
    const auto start = static_cast<size_t>(nodes[i]);
    active = {nodes[i]};
    share[start] = 1;
    for (int64_t step = 0; step < steps; ++step) {
      reached.clear();
      for (const int32_t node : active) {
        const auto n = static_cast<size_t>(node);
        const int64_t begin = offsets[n], end = offsets[n + 1];
        for (int64_t k = begin; k < end; ++k) {
          const auto to = static_cast<size_t>(neighbors[static_cast<size_t>(k)]);
          if (next[to] == 0) reached.push_back(static_cast<int32_t>(to));
          next[to] += share[n] / static_cast<double>(end - begin);
        }
        share[n] = 0;
      }
      std::swap(active, reached);
      std::swap(share, next);
      out[i * static_cast<size_t>(steps) + static_cast<size_t>(step)] =
          static_cast<float>(share[start]);
    }
    for (const int32_t node : active) share[static_cast<size_t>(node)] = 0;
  }
  return out;
}

}  // namespace lagom::cost_model

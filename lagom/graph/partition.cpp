#include "lagom/graph/partition.h"

#include <metis.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

namespace lagom::graph {
namespace {

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Neighbours of every node, each once, without the node itself.
struct Adjacency {
  std::vector<idx_t> begin, neighbours;
};

Adjacency symmetric_adjacency(int64_t num_nodes, std::span<const int64_t> edges) {
  std::vector<int64_t> begin(static_cast<size_t>(num_nodes) + 1, 0);
  const auto for_each_end = [&](auto&& visit) {
    for (size_t e = 0; e + 1 < edges.size(); e += 2) {
      if (edges[e] == edges[e + 1]) continue;
      visit(edges[e], edges[e + 1]);
      visit(edges[e + 1], edges[e]);
    }
  };
  for_each_end([&](int64_t from, int64_t) { ++begin[static_cast<size_t>(from) + 1]; });
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  if (begin.back() > std::numeric_limits<idx_t>::max()) {
    throw std::invalid_argument("partition: more edges than METIS can count");
  }
  std::vector<idx_t> all(static_cast<size_t>(begin.back()));
  std::vector<int64_t> at(begin.begin(), begin.end() - 1);
  for_each_end([&](int64_t from, int64_t to) {
    all[static_cast<size_t>(at[static_cast<size_t>(from)]++)] = static_cast<idx_t>(to);
  });
  Adjacency adjacency;
  adjacency.begin.reserve(static_cast<size_t>(num_nodes) + 1);
  adjacency.begin.push_back(0);
  for (size_t node = 0; node < static_cast<size_t>(num_nodes); ++node) {
    const auto first = all.begin() + begin[node], last = all.begin() + begin[node + 1];
    std::sort(first, last);
    adjacency.neighbours.insert(adjacency.neighbours.end(), first, std::unique(first, last));
    adjacency.begin.push_back(static_cast<idx_t>(adjacency.neighbours.size()));
  }
  return adjacency;
}

/// METIS keeps a balance, not a bound.
std::vector<int32_t> metis_segments(int64_t num_nodes, std::span<const int64_t> edges,
                                    const PartitionOptions& options) {
  Adjacency adjacency = symmetric_adjacency(num_nodes, edges);
  // One part more than the bound asks for where they would have to be exactly equal.
  const int64_t wanted = divide_up(num_nodes, options.max_nodes);
  const bool is_tight = wanted * options.max_nodes < num_nodes + num_nodes / 32;
  idx_t count = static_cast<idx_t>(num_nodes), constraints = 1, cut = 0;
  idx_t parts = static_cast<idx_t>(std::min(num_nodes, wanted + (is_tight ? 1 : 0)));
  std::array<idx_t, METIS_NOPTIONS> metis_options;
  METIS_SetDefaultOptions(metis_options.data());
  metis_options[METIS_OPTION_SEED] = static_cast<idx_t>(options.seed % 1'000'000'007);
  metis_options[METIS_OPTION_NUMBERING] = 0;
  std::vector<int32_t> segments(static_cast<size_t>(num_nodes));
  static_assert(sizeof(idx_t) == sizeof(int32_t));
  const int status = METIS_PartGraphKway(
      &count, &constraints, adjacency.begin.data(), adjacency.neighbours.data(), nullptr, nullptr,
      nullptr, &parts, nullptr, nullptr, metis_options.data(), &cut, segments.data());
  if (status != METIS_OK) throw std::runtime_error("partition: METIS failed");
  return segments;
}

/// Ranges that begin at these nodes, each cut into equal pieces within the bound; neighbouring
/// small ones share a segment.
std::vector<int32_t> range_segments(int64_t num_nodes, std::span<const int64_t> splits,
                                    int64_t max_nodes) {
  std::vector<int64_t> begins = {0};
  for (const int64_t split : splits) {
    if (split > begins.back() && split < num_nodes) begins.push_back(split);
  }
  begins.push_back(num_nodes);
  std::vector<int32_t> segments(static_cast<size_t>(num_nodes));
  int32_t segment = -1;
  int64_t room = 0;
  for (size_t r = 0; r + 1 < begins.size(); ++r) {
    const int64_t size = begins[r + 1] - begins[r];
    const int64_t pieces = divide_up(size, max_nodes);
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const int64_t begin = begins[r] + size * piece / pieces;
      const int64_t end = begins[r] + size * (piece + 1) / pieces;
      if (end - begin > room) {
        ++segment;
        room = max_nodes;
      }
      std::fill(segments.begin() + begin, segments.begin() + end, segment);
      room -= end - begin;
    }
  }
  return segments;
}

/// Cuts segments that are too large into equal parts, by the order of nodes, and gives segments
/// numbers without gaps, by their first nodes.
void bound_and_number(std::vector<int32_t>& segments, int64_t max_nodes) {
  const int32_t count = *std::max_element(segments.begin(), segments.end()) + 1;
  std::vector<int64_t> sizes(static_cast<size_t>(count), 0), seen(sizes);
  for (const int32_t segment : segments) ++sizes[static_cast<size_t>(segment)];
  std::vector<std::vector<int32_t>> numbers(static_cast<size_t>(count));
  for (size_t s = 0; s < numbers.size(); ++s) {
    numbers[s].assign(static_cast<size_t>(divide_up(sizes[s], max_nodes)), -1);
  }
  int32_t next = 0;
  for (int32_t& segment : segments) {
    const auto s = static_cast<size_t>(segment);
    const auto pieces = static_cast<int64_t>(numbers[s].size());
    int32_t& number = numbers[s][static_cast<size_t>(seen[s]++ * pieces / sizes[s])];
    if (number < 0) number = next++;
    segment = number;
  }
}

}  // namespace

std::span<const std::string_view> option_names(PartitionMethod) {
  static constexpr std::array<std::string_view, 3> kNames = {"metis", "contiguous", "computation"};
  return kNames;
}

Partition partition_graph(int64_t num_nodes, std::span<const int64_t> edge_index,
                          std::span<const int64_t> node_splits, const PartitionOptions& options) {
  if (options.max_nodes < 1) {
    throw std::invalid_argument("partition: max_nodes: expected at least 1, found " +
                                std::to_string(options.max_nodes));
  }
  if (num_nodes > std::numeric_limits<idx_t>::max()) {
    throw std::invalid_argument("partition: more nodes than METIS can count");
  }
  for (const int64_t node : edge_index) {
    if (node >= 0 && node < num_nodes) continue;
    throw std::invalid_argument("partition: an edge names node " + std::to_string(node) + " of " +
                                std::to_string(num_nodes));
  }
  Partition partition;
  if (num_nodes == 0) return partition;
  const bool is_whole = num_nodes <= options.max_nodes;
  if (options.method == PartitionMethod::kMetis && !is_whole && !edge_index.empty()) {
    partition.segment_of_node = metis_segments(num_nodes, edge_index, options);
  } else if (options.method == PartitionMethod::kComputation) {
    partition.segment_of_node = range_segments(num_nodes, node_splits, options.max_nodes);
  } else {
    partition.segment_of_node = range_segments(num_nodes, {}, options.max_nodes);
  }
  bound_and_number(partition.segment_of_node, options.max_nodes);
  const auto count = static_cast<size_t>(
      *std::max_element(partition.segment_of_node.begin(), partition.segment_of_node.end()) + 1);
  partition.segment_nodes.assign(count, 0);
  for (const int32_t segment : partition.segment_of_node) {
    ++partition.segment_nodes[static_cast<size_t>(segment)];
  }
  for (size_t e = 0; e + 1 < edge_index.size(); e += 2) {
    partition.cut_edges += partition.segment_of_node[static_cast<size_t>(edge_index[e])] !=
                           partition.segment_of_node[static_cast<size_t>(edge_index[e + 1])];
  }
  return partition;
}

}  // namespace lagom::graph

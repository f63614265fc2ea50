#include "lagom/graph/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <stdexcept>

namespace lagom::graph {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

/// A chain with jumps back, as programs have them.
std::vector<int64_t> random_edges(int64_t nodes, int64_t edges, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> index;
  for (int64_t e = 0; e < edges; ++e) {
    const auto user = static_cast<int64_t>(random() % static_cast<uint64_t>(nodes));
    index.push_back(user);
    index.push_back(std::max<int64_t>(0, user - static_cast<int64_t>(random() % 30)));
  }
  return index;
}

void check(const Partition& partition, int64_t nodes, const std::vector<int64_t>& edges,
           int64_t bound) {
  ASSERT_EQ(partition.segment_of_node.size(), static_cast<size_t>(nodes));
  std::vector<int64_t> sizes(partition.segment_nodes.size(), 0);
  for (const int32_t segment : partition.segment_of_node) {
    ASSERT_GE(segment, 0);
    ASSERT_LT(segment, partition.num_segments());
    ++sizes[static_cast<size_t>(segment)];
  }
  EXPECT_EQ(sizes, partition.segment_nodes);
  for (const int64_t size : sizes) {
    EXPECT_GE(size, 1);
    EXPECT_LE(size, bound);
  }
  int64_t cut = 0;
  for (size_t e = 0; e < edges.size(); e += 2) {
    cut += partition.segment_of_node.at(static_cast<size_t>(edges[e])) !=
           partition.segment_of_node.at(static_cast<size_t>(edges[e + 1]));
  }
  EXPECT_EQ(partition.cut_edges, cut);
}

TEST(PartitionTest, EveryMethodKeepsTheBoundOnRandomGraphs) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 60; ++round) {
    const auto nodes = static_cast<int64_t>(1 + random() % 400);
    const std::vector<int64_t> edges = random_edges(nodes, random() % 900, random());
    const auto bound = static_cast<int64_t>(1 + random() % 120);
    std::set<int64_t> splits = {0, nodes};
    for (int i = 0; i < 4; ++i) splits.insert(static_cast<int64_t>(random() % nodes));
    const std::vector<int64_t> node_splits(splits.begin(), splits.end());
    for (const PartitionMethod method :
         {PartitionMethod::kMetis, PartitionMethod::kContiguous, PartitionMethod::kComputation}) {
      const PartitionOptions options{.method = method, .max_nodes = bound};
      const Partition partition = partition_graph(nodes, edges, node_splits, options);
      check(partition, nodes, edges, bound);
      EXPECT_EQ(partition_graph(nodes, edges, node_splits, options).segment_of_node,
                partition.segment_of_node);
      if (nodes <= bound && method != PartitionMethod::kComputation) {
        EXPECT_EQ(partition.num_segments(), 1);
      }
    }
  }
}

TEST(PartitionTest, MetisCutsTheBridgeBetweenTwoCliques) {
  // Nodes of the two stand in turn, so that ranges cut almost every edge.
  std::vector<int64_t> edges;
  for (int64_t a = 0; a < 40; ++a) {
    for (int64_t b = 0; b < a; ++b) {
      if (a % 2 == b % 2) edges.insert(edges.end(), {a, b});
    }
  }
  edges.insert(edges.end(), {6, 7});

  const Partition metis =
      partition_graph(40, edges, {}, {.method = PartitionMethod::kMetis, .max_nodes = 21});

  EXPECT_EQ(metis.cut_edges, 1);
  EXPECT_THAT(metis.segment_nodes, ElementsAre(20, 20));
  EXPECT_GT(
      partition_graph(40, edges, {}, {.method = PartitionMethod::kContiguous, .max_nodes = 21})
          .cut_edges,
      100);
}

TEST(PartitionTest, RangesAreEqualOrEndWhereComputationsDo) {
  const auto contiguous =
      partition_graph(10, {}, {}, {.method = PartitionMethod::kContiguous, .max_nodes = 4});
  EXPECT_THAT(contiguous.segment_nodes, ElementsAre(3, 3, 4));

  // Ranges of 2, 1, 6 and 1 nodes: the first two share a segment, the third needs two.
  const std::vector<int64_t> splits = {0, 2, 3, 9, 10};
  const auto computation =
      partition_graph(10, {}, splits, {.method = PartitionMethod::kComputation, .max_nodes = 4});
  EXPECT_THAT(computation.segment_of_node, ElementsAre(0, 0, 0, 1, 1, 1, 2, 2, 2, 2));
}

TEST(PartitionTest, DisconnectedAndTinyGraphs) {
  EXPECT_EQ(partition_graph(0, {}, {}, {}).num_segments(), 0);
  EXPECT_THAT(partition_graph(1, {}, {}, {.max_nodes = 1}).segment_of_node, ElementsAre(0));
  const std::vector<int64_t> loops = {0, 0, 1, 1, 2, 2, 2, 2};
  check(partition_graph(3, loops, {}, {.max_nodes = 2}), 3, loops, 2);
  // One edge, 99 nodes without any.
  const std::vector<int64_t> one = {100, 3};
  const Partition partition = partition_graph(101, one, {}, {.max_nodes = 10});
  check(partition, 101, one, 10);
  EXPECT_EQ(partition.cut_edges, 0);
  EXPECT_THAT(partition_graph(5, {}, {}, {.max_nodes = 1}).segment_nodes, Each(1));
}

TEST(PartitionTest, RefusesABoundBelowOneAndEdgesThatLeaveTheGraph) {
  EXPECT_THROW(partition_graph(3, {}, {}, {.max_nodes = 0}), std::invalid_argument);
  const std::vector<int64_t> outside = {0, 3};
  EXPECT_THROW(partition_graph(3, outside, {}, {}), std::invalid_argument);
  const std::vector<int64_t> negative = {-1, 0};
  EXPECT_THROW(partition_graph(3, negative, {}, {}), std::invalid_argument);
}

}  // namespace
}  // namespace lagom::graph

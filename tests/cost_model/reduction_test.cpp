#include "lagom/cost_model/reduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lagom/cost_model/positions.h"
#include "lagom/graph/op_graph.h"

namespace lagom::cost_model {
namespace {

using ::testing::ElementsAre;

/// 0 <- 1 <- 2 <- 3 <- 4 <- 5 <- 6, and 7 <- 6; nodes 1 and 4 are configurable. Node 7 is the root
/// of a computation that 6, a fusion, calls.
class ReductionTest : public ::testing::Test {
 protected:
  ReducedGraph reduce(ReductionKind kind, int64_t hops = 1) const {
    return reduce_graph(view(), {.kind = kind, .hops = hops});
  }
  GraphView view() const {
    return {
        .node_opcode = opcode, .edge_index = edges, .is_root = is_root, .node_config_ids = configs};
  }

  std::vector<uint8_t> opcode = {1, 1, 1, 1, 1, 1, graph::opcode_number(hlo::Opcode::kFusion), 1};
  std::vector<int64_t> edges = {1, 0, 2, 1, 3, 2, 4, 3, 5, 4, 6, 5, 6, 7, 6, 7};
  std::vector<uint8_t> is_root = {0, 0, 0, 0, 0, 0, 0, 1};
  std::vector<int64_t> configs = {1, 4};
};

TEST_F(ReductionTest, NoneKeepsAllNodesAndEachEdgeOnce) {
  const ReducedGraph g = reduce(ReductionKind::kNone);
  EXPECT_EQ(g.num_nodes(), 8);
  EXPECT_EQ(g.num_edges(), 7);
  EXPECT_EQ(g.edge_kind[6], EdgeKind::kCall);
  EXPECT_EQ(g.edge_kind[5], EdgeKind::kData);
  EXPECT_THAT(g.config_nodes, ElementsAre(1, 4));
  EXPECT_EQ(g.report.to_string(), "8 -> 8 nodes, 8 -> 7 edges");
}

TEST_F(ReductionTest, ConfigEdgesDropTheEdgeBetweenTwoNeighbours) {
  const ReducedGraph g = reduce(ReductionKind::kConfigEdges);
  EXPECT_THAT(g.nodes, ElementsAre(0, 1, 2, 3, 4, 5));
  // 3 <- 2 joins no configurable node.
  EXPECT_THAT(g.users, ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(g.operands, ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(g.config_nodes, ElementsAre(1, 4));
}

TEST_F(ReductionTest, HopsKeepEdgesBetweenAllKeptNodes) {
  const ReducedGraph one = reduce(ReductionKind::kHops, 1);
  EXPECT_THAT(one.nodes, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(one.num_edges(), 5);
  const ReducedGraph two = reduce(ReductionKind::kHops, 2);
  EXPECT_THAT(two.nodes, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THROW(reduce(ReductionKind::kHops, 0), std::invalid_argument);
}

TEST_F(ReductionTest, ContractionMakesOneNodeOfEachConnectedRest) {
  const ReducedGraph g = reduce(ReductionKind::kContract);
  EXPECT_THAT(g.nodes, ElementsAre(0, 1, 2, 3, 4, 5, -1));
  EXPECT_EQ(g.node_opcode.back(), kRegionOpcode);
  EXPECT_EQ(g.report.regions, 1);
  EXPECT_THAT(g.users, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(g.operands, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(g.edge_kind.back(), EdgeKind::kRegion);
}

TEST_F(ReductionTest, WithoutConfigurableNodesNothingIsDropped) {
  configs.clear();
  EXPECT_EQ(reduce(ReductionKind::kConfigEdges).num_nodes(), 8);
  EXPECT_EQ(reduce(ReductionKind::kContract).num_edges(), 7);
}

TEST_F(ReductionTest, LonelyConfigurableNodesStay) {
  edges.clear();
  const ReducedGraph g = reduce(ReductionKind::kConfigEdges);
  EXPECT_THAT(g.nodes, ElementsAre(1, 4));
  EXPECT_EQ(g.report.lonely_configs, 2);
}

TEST_F(ReductionTest, LinksPassNoThirdConfigurableNode) {
  configs = {1, 3, 4, 6};
  const ConfigLinks links = config_links(view(), /*max_hops=*/8);
  EXPECT_THAT(links.users, ElementsAre(1, 2, 3));
  EXPECT_THAT(links.operands, ElementsAre(0, 1, 2));
  EXPECT_THAT(config_links(view(), /*max_hops=*/1).users, ElementsAre(2));
}

TEST(RandomWalkTest, OnAPathOfThreeNodes) {
  // 0 - 1 - 2: from an end one goes to the middle for sure and comes back with 1/2.
  const std::vector<int64_t> edges = {1, 0, 2, 1};
  const std::vector<int32_t> nodes = {0, 1, -1};
  EXPECT_THAT(random_walk_returns(edges, 3, nodes, 3), ElementsAre(0, 0.5, 0, 0, 1, 0, 0, 0, 0));
}

}  // namespace
}  // namespace lagom::cost_model

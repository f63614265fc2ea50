#include "lagom/graph/edge_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lagom/graph/random_families.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "tests/testing/command.h"

namespace lagom::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(EdgeListTest, CommentsAndEmptyLinesArePassedOver) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.write("a.edgelist", "# Nodes: 3\n\n10 7\n 7\t42 \r\n10 42\n");
  const EdgeListGraph graph = read_edge_list(path);
  EXPECT_EQ(graph.num_nodes, 3);  // 7, 10, 42
  EXPECT_THAT(graph.edge_index, ElementsAre(1, 0, 0, 2, 1, 2));
}

TEST(EdgeListTest, WithoutEdgesItIsOneNode) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(read_edge_list(folder.write("a.edgelist", "# nothing\n")).num_nodes, 1);
}

TEST(EdgeListTest, WhatIsWrittenIsRead) {
  const testing::TemporaryFolder folder;
  const EdgeListGraph graph = random_family_graph({.num_nodes = 300});
  write_edge_list(folder / "a.edgelist", graph, "a graph");
  const EdgeListGraph again = read_edge_list(folder / "a.edgelist");
  EXPECT_EQ(again.num_nodes, 300);
  EXPECT_EQ(again.edge_index, graph.edge_index);
}

TEST(EdgeListTest, BrokenLinesAreNamed) {
  const testing::TemporaryFolder folder;
  for (const char* text : {"1 2\n3\n", "1 2\n3 x\n", "1 2\n3 -4\n", "1 2\n3 4 5\n", "1 2\na b\n"}) {
    const std::string path = folder.write("a.edgelist", text);
    EXPECT_THAT([&] { read_edge_list(path); },
                ThrowsMessage<FormatError>(HasSubstr("a.edgelist: line 2: expected two numbers")))
        << text;
  }
  EXPECT_THROW(read_edge_list(folder / "none.edgelist"), SystemError);
}

TEST(EdgeListTest, TheFolderSaysTheLabel) {
  const testing::TemporaryFolder folder;
  write_file(folder / "adware/airpush/b.edgelist", "0 1\n");
  write_file(folder / "trojan/artemis/a.edgelist", "0 1\n");
  write_file(folder / "trojan/artemis/notes.txt", "not a graph");
  const auto types = list_edge_lists(folder.path(), 1),
             families = list_edge_lists(folder.path(), 2);
  ASSERT_EQ(types.size(), 2u);
  EXPECT_EQ(types[0].label, "adware");
  EXPECT_EQ(types[1].label, "trojan");
  EXPECT_EQ(families[1].label, "artemis");
  EXPECT_THAT([&] { list_edge_lists(folder.path(), 3); },
              ThrowsMessage<FormatError>(HasSubstr("expected 3 folders")));
  EXPECT_THROW(list_edge_lists(folder / "adware/airpush/b.edgelist", 1), SystemError);
  EXPECT_THROW(list_edge_lists(folder / "trojan/none", 1), SystemError);
}

/// 0 - 1, 0 - 2, 0 - 3, 1 - 2: degrees 3, 2, 2, 1; node 4 has none.
TEST(LocalDegreeProfileTest, IsWorkedByHand) {
  const std::vector<int64_t> edges = {0, 1, 1, 0, 2, 0, 0, 3, 1, 2, 3, 3, 0, 1};
  const std::vector<float> f = local_degree_profile(5, edges);
  const auto row = [&](size_t i) {
    return std::vector<float>(f.begin() + 5 * static_cast<long>(i),
                              f.begin() + 5 * static_cast<long>(i) + 5);
  };
  const float third = static_cast<float>(std::sqrt(2.0) / 3);  // of 2, 2, 1
  EXPECT_THAT(row(0), ElementsAre(3, 1, 2, ::testing::FloatEq(5.0F / 3),
                                  ::testing::FloatNear(third, 1e-6)));
  EXPECT_THAT(row(1), ElementsAre(2, 2, 3, 2.5F, 0.5F));
  EXPECT_THAT(row(3), ElementsAre(1, 3, 3, 3, 0));
  EXPECT_THAT(row(4), ElementsAre(0, 0, 0, 0, 0));
}

/// Counts that tell the laws apart, by brute force.
TEST(RandomFamiliesTest, LawsAreWhatTheySay) {
  for (size_t law = 0; law < option_names(GrowthLaw{}).size(); ++law) {
    const EdgeListGraph graph = random_family_graph(
        {.family = static_cast<GrowthLaw>(law), .num_nodes = 3000, .purity = 1, .seed = 4});
    std::vector<std::vector<int64_t>> near(3000);
    for (size_t e = 0; e < graph.edge_index.size(); e += 2) {
      ASSERT_LT(graph.edge_index[e + 1], graph.edge_index[e]);
      near[static_cast<size_t>(graph.edge_index[e])].push_back(graph.edge_index[e + 1]);
      near[static_cast<size_t>(graph.edge_index[e + 1])].push_back(graph.edge_index[e]);
    }
    int64_t triangles = 0, leaves = 0;
    size_t largest = 0;
    for (const auto& nodes : near) {
      leaves += nodes.size() == 1;
      largest = std::max(largest, nodes.size());
      for (const int64_t a : nodes) {
        for (const int64_t b : near[static_cast<size_t>(a)]) {
          triangles += std::count(nodes.begin(), nodes.end(), b);
        }
      }
    }
    triangles /= 6;
    switch (static_cast<GrowthLaw>(law)) {
      case GrowthLaw::kUniform:
        EXPECT_LT(triangles, 900);
        EXPECT_LT(largest, 30u);
        break;
      case GrowthLaw::kPreferential:
        EXPECT_GT(largest, 30u);
        break;
      case GrowthLaw::kTriangles:
        EXPECT_GT(triangles, 2500);
        break;
      case GrowthLaw::kStars:
        EXPECT_GT(leaves, 2500);
        break;
      case GrowthLaw::kLattice:
        EXPECT_GT(triangles, 1800);
        EXPECT_LT(largest, 20u);
        break;
    }
  }
}

TEST(RandomFamiliesTest, EqualOptionsGiveEqualGraphs) {
  EXPECT_EQ(random_family_graph({.seed = 3}).edge_index,
            random_family_graph({.seed = 3}).edge_index);
  EXPECT_NE(random_family_graph({.seed = 3}).edge_index,
            random_family_graph({.seed = 4}).edge_index);
  EXPECT_THROW(random_family_graph({.num_nodes = 1}), std::invalid_argument);
}

}  // namespace
}  // namespace lagom::graph

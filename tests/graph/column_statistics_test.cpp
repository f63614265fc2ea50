#include "lagom/graph/column_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lagom/util/error.h"
#include "tests/testing/command.h"
#include "tests/testing/npz_arrays.h"

namespace lagom::graph {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ColumnStatisticsTest, PiecesGiveTheStatisticsOfTheWhole) {
  ColumnStatistics statistics(2);
  statistics.add<float>(std::vector<float>{1, 5, 2, 5});
  statistics.add<float>({});
  statistics.add<float>(std::vector<float>{6, 5});
  EXPECT_EQ(statistics.rows(), 3);
  EXPECT_THAT(statistics.min(), ElementsAre(1, 5));
  EXPECT_THAT(statistics.max(), ElementsAre(6, 5));
  EXPECT_THAT(statistics.mean(), ElementsAre(3, 5));
  // (4 + 1 + 9) / 3
  EXPECT_THAT(statistics.deviation(), ElementsAre(DoubleNear(std::sqrt(14.0 / 3), 1e-12), 0));
  EXPECT_FALSE(statistics.is_constant(0));
  EXPECT_TRUE(statistics.is_constant(1));
}

TEST(ColumnStatisticsTest, LargeMeansLoseNoDeviation) {
  ColumnStatistics statistics(1);
  for (int i = 0; i < 1000; ++i) statistics.add<float>(std::vector<float>{16777214, 16777216});
  EXPECT_THAT(statistics.deviation(), ElementsAre(DoubleNear(1, 1e-9)));
}

class FeatureStatisticsTest : public ::testing::Test {
 protected:
  GraphFile write(const std::string& name, const testing::NpzArrays& arrays) const {
    testing::write_npz(folder_ / (name + ".npz"), arrays);
    transcode_graph(folder_ / (name + ".npz"), folder_ / (name + ".graph"));
    return graph_file(folder_ / (name + ".graph"));
  }
  testing::TemporaryFolder folder_;
};

TEST_F(FeatureStatisticsTest, CoverAllNodesAndConfigurations) {
  const FeatureStatistics statistics = feature_statistics(
      {write("a", testing::small_layout_graph()), write("b", testing::small_layout_graph())});
  EXPECT_EQ(statistics.graphs, 2);
  EXPECT_EQ(statistics.nodes.rows(), 4);
  EXPECT_EQ(statistics.nodes.mean()[0], 0.5);
  EXPECT_EQ(statistics.configs.rows(), 6);
  EXPECT_DOUBLE_EQ(statistics.configs.mean()[0], (1 - 1 + 1) / 3.0);
  EXPECT_TRUE(statistics.configs.is_constant(17));
}

TEST_F(FeatureStatisticsTest, FilesThatDifferAreRefused) {
  testing::NpzArrays padded = testing::small_layout_graph();
  padded["list_padding"] = formats::Array::of<int32_t>({}, {-1});
  const GraphFile a = write("a", testing::small_layout_graph());
  for (const GraphFile& other : {write("b", testing::small_tile_graph()), write("c", padded)}) {
    EXPECT_THAT([&] { feature_statistics({a, other}); },
                ThrowsMessage<FormatError>(HasSubstr("is of another kind or padding")));
  }
  EXPECT_THROW(feature_statistics({}), std::invalid_argument);
}

}  // namespace
}  // namespace lagom::graph

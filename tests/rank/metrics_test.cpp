#include "lagom/rank/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace lagom::rank {
namespace {

using ::testing::ElementsAre;
using Values = std::vector<double>;

/// All pairs, one by one.
struct SlowCounts {
  double concordant = 0, discordant = 0, tied_a = 0, tied_b = 0, ordered_b = 0;
};
SlowCounts count_slowly(const Values& a, const Values& b) {
  SlowCounts c;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = i + 1; j < a.size(); ++j) {
      const double product = (a[i] - a[j]) * (b[i] - b[j]);
      c.concordant += product > 0;
      c.discordant += product < 0;
      c.tied_a += a[i] == a[j] && b[i] != b[j];
      c.tied_b += a[i] != a[j] && b[i] == b[j];
      c.ordered_b += b[i] != b[j];
    }
  }
  return c;
}

TEST(KendallTauTest, WorkedByHand) {
  EXPECT_EQ(kendall_tau(Values{1, 2, 3}, Values{10, 20, 30}), 1);
  EXPECT_EQ(kendall_tau(Values{3, 2, 1}, Values{10, 20, 30}), -1);
  EXPECT_NEAR(kendall_tau(Values{1, 2, 3, 4}, Values{1, 3, 2, 4}), 4.0 / 6, 1e-15);
  // Pairs: (1,2) and (1,3) concordant, (2,3) tied in a: 2 / sqrt(2 * 3).
  EXPECT_NEAR(kendall_tau(Values{1, 2, 2}, Values{1, 2, 3}), 2 / std::sqrt(6.0), 1e-15);
}

TEST(KendallTauTest, UndefinedIsZero) {
  EXPECT_EQ(kendall_tau(Values{}, Values{}), 0);
  EXPECT_EQ(kendall_tau(Values{1}, Values{2}), 0);
  EXPECT_EQ(kendall_tau(Values{5, 5, 5}, Values{1, 2, 3}), 0);
  EXPECT_EQ(kendall_tau(Values{1, 2, 3}, Values{5, 5, 5}), 0);
}

TEST(MetricsTest, AgreeWithCountingAllPairs) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const size_t n = 2 + random() % 60;
    const unsigned distinct = 1 + random() % 40;
    Values a(n), b(n);
    for (double& v : a) v = random() % distinct;
    for (double& v : b) v = 1 + random() % distinct;
    const SlowCounts c = count_slowly(a, b);
    const double pairs = c.concordant + c.discordant;
    const double scale = std::sqrt((pairs + c.tied_a) * (pairs + c.tied_b));
    EXPECT_NEAR(
        kendall_tau(a, b),
        pairs + c.tied_a == 0 || pairs + c.tied_b == 0 ? 0 : (c.concordant - c.discordant) / scale,
        1e-12);
    EXPECT_NEAR(ordered_pair_accuracy(a, b), c.ordered_b == 0 ? 0 : c.concordant / c.ordered_b,
                1e-12);
  }
}

TEST(OrderedPairAccuracyTest, TiesOfScoresAreWrongAndOfRuntimesIgnored) {
  EXPECT_EQ(ordered_pair_accuracy(Values{1, 1, 1}, Values{1, 2, 3}), 0);
  EXPECT_EQ(ordered_pair_accuracy(Values{1, 2, 3}, Values{1, 1, 2}), 1);
  EXPECT_EQ(ordered_pair_accuracy(Values{1, 2, 3}, Values{7, 7, 7}), 0);
}

TEST(OrderByScoreTest, EqualScoresKeepTheLowerIndexFirst) {
  EXPECT_THAT(order_by_score(Values{2, 1, 2, 1, 0}), ElementsAre(4, 1, 3, 0, 2));
}

TEST(TopKSlowdownTest, IsTheBestOfTheChosenOverTheBest) {
  const Values scores = {1, 2, 3, 4}, runtimes = {30, 20, 40, 10};
  EXPECT_EQ(top_k_slowdown(scores, runtimes, 1), 3);
  EXPECT_EQ(top_k_slowdown(scores, runtimes, 2), 2);
  EXPECT_EQ(top_k_slowdown(scores, runtimes, 4), 1);
  EXPECT_EQ(top_k_slowdown(scores, runtimes, 99), 1);
  // Of equal scores the first counts.
  EXPECT_EQ(top_k_slowdown(Values{0, 0, 0, 0}, runtimes, 1), 3);
}

TEST(GraphMetricsTest, RefusesPlaceholdersAndNaN) {
  EXPECT_THROW(graph_metrics(Values{1, 2}, Values{0, 0}), std::invalid_argument);
  EXPECT_THROW(graph_metrics(Values{1, 2}, Values{1, -1}), std::invalid_argument);
  EXPECT_THROW(graph_metrics(Values{1}, Values{1}), std::invalid_argument);
  EXPECT_THROW(graph_metrics(Values{1, 2, 3}, Values{1, 2}), std::invalid_argument);
  EXPECT_THROW(graph_metrics(Values{1, std::nan("")}, Values{1, 2}), std::invalid_argument);
}

TEST(CompetitionScoreTest, MeansOfTheGraphs) {
  const std::vector<GraphMetrics> graphs = {{.kendall_tau = 0.5, .top5_slowdown = 1},
                                            {.kendall_tau = 0.1, .top5_slowdown = 1.5}};
  EXPECT_DOUBLE_EQ(layout_score(graphs), 0.3);
  EXPECT_DOUBLE_EQ(tile_score(graphs), 0.75);  // 1 - 0 and 1 - 0.5
}

}  // namespace
}  // namespace lagom::rank

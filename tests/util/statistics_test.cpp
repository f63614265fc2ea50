#include "lagom/util/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace lagom {
namespace {

TEST(StatisticsTest, MeansDeviationsAndQuantiles) {
  const std::vector<double> values = {1, 2, 4, 5};
  EXPECT_EQ(mean_of(values), 3);
  EXPECT_DOUBLE_EQ(deviation_of(values), std::sqrt(10.0 / 3));  // (4 + 1 + 1 + 4) / 3
  EXPECT_EQ(quantile_of(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile_of(values, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile_of(values, 0.9), 4.7);  // place 2.7
  EXPECT_EQ(deviation_of(std::vector<double>{7}), 0);
  EXPECT_THROW(quantile_of({}, 0.5), std::invalid_argument);
}

TEST(StatisticsTest, EqualValuesShareARank) {
  EXPECT_EQ(average_ranks(std::vector<double>{5, 1, 5, 0, 5}),
            (std::vector<double>{4, 2, 4, 1, 4}));
}

TEST(StatisticsTest, SpearmanIsPearsonOfRanks) {
  // Ranks 1, 2.5, 2.5, 4 and 3, 1, 2, 4; products of deviations 1.5, squares 4.5 and 5.
  const std::vector<double> x = {1, 2, 2, 40}, y = {3, -1, 2, 5};
  const std::vector<int64_t> groups = {2, 2};
  EXPECT_DOUBLE_EQ(spearman(x, y, groups).rho, 1.5 / std::sqrt(22.5));
}

TEST(StatisticsTest, IntervalsAreOverGroups) {
  // Every group holds the same pairs: whichever are drawn, the correlation is the same.
  std::vector<double> x, y;
  for (int group = 0; group < 5; ++group) {
    x.insert(x.end(), {1, 2, 3});
    y.insert(y.end(), {1, 3, 2});
  }
  const Correlation same = spearman(x, y, std::vector<int64_t>(5, 3));
  EXPECT_NEAR(same.rho, 0.5, 1e-12);
  EXPECT_NEAR(same.interval.low, 0.5, 1e-12);
  EXPECT_NEAR(same.interval.high, 0.5, 1e-12);
  EXPECT_TRUE(
      std::isnan(spearman(x, std::vector<double>(15, 1.0), std::vector<int64_t>(5, 3)).rho));
  EXPECT_THROW(spearman(x, y, std::vector<int64_t>(4, 3)), std::invalid_argument);
}

TEST(StatisticsTest, PercentilesLeaveOutWhatIsNaN) {
  std::vector<double> draws = {NAN};
  for (int i = 0; i <= 40; ++i) draws.push_back(i);
  const Interval interval = percentile_interval(draws);
  EXPECT_DOUBLE_EQ(interval.low, 1);
  EXPECT_DOUBLE_EQ(interval.high, 39);
  EXPECT_TRUE(std::isnan(percentile_interval({}).low));
}

}  // namespace
}  // namespace lagom

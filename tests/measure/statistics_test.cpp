#include "lagom/measure/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

namespace lagom::measure {
namespace {

TEST(MedianTest, OddEvenAndEmpty) {
  EXPECT_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_EQ(median(std::vector<double>{4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({}), 0);
}

TEST(PairedRatioTest, RatiosAreOfCandidateToBaseline) {
  const std::vector<double> baseline{1, 2, 4};
  const std::vector<double> candidate{0.5, 1, 1};

  const Ratio ratio = paired_ratio(baseline, candidate);

  EXPECT_EQ(ratio.median, 0.5);
  EXPECT_EQ(ratio.low, 0.25);
  EXPECT_EQ(ratio.high, 0.5);
  EXPECT_NEAR(ratio.geometric, std::cbrt(0.5 * 0.5 * 0.25), 1e-12);
  EXPECT_EQ(ratio.speedup(), 2);
  EXPECT_EQ(ratio.pairs, 3);
  EXPECT_DOUBLE_EQ(ratio.coverage, 0.75);  // 1 - 2 * (1/2)^3
}

TEST(PairedRatioTest, FivePairsCoverTheirRange) {
  const std::vector<double> baseline(5, 1.0);
  const std::vector<double> candidate{1.1, 0.9, 1.0, 1.2, 0.8};

  const Ratio ratio = paired_ratio(baseline, candidate);

  EXPECT_EQ(ratio.low, 0.8);
  EXPECT_EQ(ratio.high, 1.2);
  EXPECT_DOUBLE_EQ(ratio.coverage, 0.9375);
  EXPECT_DOUBLE_EQ(ratio.relative_width(), 0.4);
  EXPECT_DOUBLE_EQ(ratio.distance_from_one(), 0.2);
}

TEST(PairedRatioTest, TwentyPairsDropFiveAtEachEnd) {
  // For n = 20 the sign test's 95 % interval runs from the 6th smallest to the 6th largest
  // (coverage 0.9586).
  std::vector<double> baseline(20, 1.0);
  std::vector<double> candidate;
  for (int i = 1; i <= 20; ++i) candidate.push_back(i);

  const Ratio ratio = paired_ratio(baseline, candidate);

  EXPECT_EQ(ratio.low, 6);
  EXPECT_EQ(ratio.high, 15);
  EXPECT_NEAR(ratio.coverage, 0.9586, 1e-4);
}

TEST(PairedRatioTest, IntervalHoldsTheTrueMedianAsOftenAsItSays) {
  std::mt19937 generator(7);
  std::lognormal_distribution<double> noise(0, 0.2);
  int inside = 0;
  constexpr int kTrials = 2000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> baseline(15, 1.0);
    std::vector<double> candidate;
    for (int i = 0; i < 15; ++i) candidate.push_back(noise(generator));
    const Ratio ratio = paired_ratio(baseline, candidate);
    inside += ratio.low <= 1 && 1 <= ratio.high ? 1 : 0;
  }
  EXPECT_GE(inside, kTrials * 0.95);
}

TEST(PairedRatioTest, SwappingSidesInvertsTheRatio) {
  const std::vector<double> a{1, 2, 3, 4, 5, 6, 7};
  const std::vector<double> b{2, 2, 5, 4, 4, 9, 7};

  const Ratio ab = paired_ratio(a, b);
  const Ratio ba = paired_ratio(b, a);

  EXPECT_NEAR(ab.median * ba.median, 1, 1e-12);
  EXPECT_NEAR(ab.low * ba.high, 1, 1e-12);
  EXPECT_NEAR(ab.geometric * ba.geometric, 1, 1e-12);
}

TEST(PairedRatioTest, RefusesUnpairedOrImpossibleTimes) {
  EXPECT_THROW(paired_ratio(std::vector<double>{1, 2}, std::vector<double>{1}),
               std::invalid_argument);
  EXPECT_THROW(paired_ratio(std::vector<double>{0}, std::vector<double>{1}), std::invalid_argument);
  EXPECT_EQ(paired_ratio({}, {}).pairs, 0);
}

}  // namespace
}  // namespace lagom::measure

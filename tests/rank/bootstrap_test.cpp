#include "lagom/rank/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>

namespace lagom::rank {
namespace {

std::vector<GraphMetrics> run_of(const std::vector<double>& taus) {
  std::vector<GraphMetrics> run;
  for (const double tau : taus) run.push_back({.kendall_tau = tau, .top1_slowdown = 2 - tau});
  return run;
}

TEST(BootstrapTest, MeansAreOverSeedsAndGraphs) {
  const std::vector<std::vector<GraphMetrics>> runs = {run_of({0, 1}), run_of({0.5, 0.9})};
  const MetricsSummary summary = summarize(runs);
  EXPECT_DOUBLE_EQ(summary.mean.kendall_tau, 0.6);
  EXPECT_DOUBLE_EQ(summary.mean.top1_slowdown, 1.4);
  ASSERT_EQ(summary.seed_means.size(), 2u);
  EXPECT_DOUBLE_EQ(summary.seed_means[0].kendall_tau, 0.5);
  EXPECT_DOUBLE_EQ(summary.seed_means[1].kendall_tau, 0.7);
  EXPECT_LT(summary.low.kendall_tau, 0.6);
  EXPECT_GT(summary.high.kendall_tau, 0.6);
}

TEST(BootstrapTest, EqualGraphsLeaveNoInterval) {
  const std::vector<std::vector<GraphMetrics>> runs = {run_of({0.25, 0.25, 0.25})};
  const MetricsSummary summary = summarize(runs);
  EXPECT_DOUBLE_EQ(summary.low.kendall_tau, 0.25);
  EXPECT_DOUBLE_EQ(summary.high.kendall_tau, 0.25);
}

// A draw of two of the graphs 0 and 1 has the mean 0, 1/2, 1 with the chances 1/4, 1/2, 1/4: the
// 2.5 and 97.5 % points are 0 and 1.
TEST(BootstrapTest, TwoGraphsReachBothEnds) {
  const std::vector<std::vector<GraphMetrics>> runs = {run_of({0, 1})};
  const MetricsSummary summary = summarize(runs);
  EXPECT_DOUBLE_EQ(summary.low.kendall_tau, 0);
  EXPECT_DOUBLE_EQ(summary.high.kendall_tau, 1);
}

// For many graphs the interval is that of the normal distribution: 1.96 deviations of the mean.
TEST(BootstrapTest, ManyGraphsGiveTheNormalInterval) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal(0.4, 0.2);
  std::vector<double> taus(400);
  for (double& tau : taus) tau = normal(random);
  double mean = 0, squares = 0;
  for (const double tau : taus) mean += tau / 400;
  for (const double tau : taus) squares += (tau - mean) * (tau - mean);
  const double half = 1.96 * std::sqrt(squares / 400 / 400);

  const std::vector<std::vector<GraphMetrics>> runs = {run_of(taus)};
  const MetricsSummary summary = summarize(runs, /*resamples=*/4000);
  EXPECT_NEAR(summary.low.kendall_tau, mean - half, 0.1 * half);
  EXPECT_NEAR(summary.high.kendall_tau, mean + half, 0.1 * half);
}

TEST(BootstrapTest, SeedsThatDifferWidenTheInterval) {
  const std::vector<std::vector<GraphMetrics>> alike = {run_of({0.4, 0.6}), run_of({0.4, 0.6})};
  const std::vector<std::vector<GraphMetrics>> apart = {run_of({0, 0.2}), run_of({0.8, 1})};
  const MetricsSummary a = summarize(alike), b = summarize(apart);
  EXPECT_DOUBLE_EQ(a.mean.kendall_tau, b.mean.kendall_tau);
  EXPECT_LT(b.low.kendall_tau, a.low.kendall_tau);
  EXPECT_GT(b.high.kendall_tau, a.high.kendall_tau);
}

TEST(BootstrapTest, RunsThatDoNotFitAreRefused) {
  using Runs = std::vector<std::vector<GraphMetrics>>;
  EXPECT_THROW(summarize(Runs{}), std::invalid_argument);
  EXPECT_THROW(summarize(Runs{{}}), std::invalid_argument);
  EXPECT_THROW(summarize(Runs{run_of({1}), run_of({1, 0})}), std::invalid_argument);
  EXPECT_THROW(summarize(Runs{run_of({1})}, 0), std::invalid_argument);
}

}  // namespace
}  // namespace lagom::rank

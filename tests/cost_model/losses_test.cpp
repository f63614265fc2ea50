#include "lagom/cost_model/losses.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/tensor/gradients.h"

namespace lagom::cost_model {
namespace {

/// All losses off.
LossOptions none() {
  LossOptions options;
  options.hinge = 0;
  return options;
}

class LossesTest : public ::testing::Test {
 protected:
  double loss(const LossOptions& options) const {
    return ranking_loss(costs, runtimes, noise, options).item<double>();
  }
  double cost(int64_t i) const { return costs[i].item<double>(); }
  double runtime(int64_t i) const { return runtimes[i].item<double>(); }

  /// Mean of f(difference of costs) over pairs whose runtimes differ by more than the floor.
  template <typename F>
  double mean_over_pairs(F f, double floor = 0, bool over_all = false) const {
    double sum = 0;
    int pairs = 0;
    for (int64_t i = 0; i < costs.size(0); ++i) {
      for (int64_t j = 0; j < costs.size(0); ++j) {
        if (runtime(i) - runtime(j) <= floor * runtime(j)) continue;
        sum += f(cost(i) - cost(j));
        ++pairs;
      }
    }
    return sum / (over_all ? static_cast<double>(costs.numel() * costs.numel()) : pairs);
  }

  at::Tensor costs = at::tensor({0.3, -1.2, 2.5, 0.7, 0.1}, at::kDouble);
  at::Tensor runtimes = at::tensor({1.0, 1.01, 3.0, 2.0, 2.0}, at::kDouble);
  at::Tensor noise = at::zeros({5}, at::kDouble);
};

TEST_F(LossesTest, PairwiseLossesEqualSlowLoops) {
  LossOptions options = none();
  options.hinge = 1;
  options.margin = 0.8;
  const auto hinge = [](double margin) {
    return [margin](double d) { return std::max(0.0, margin - d); };
  };
  EXPECT_NEAR(loss(options), mean_over_pairs(hinge(0.8)), 1e-12);
  options.noise_floor = 0.05;
  EXPECT_NEAR(loss(options), mean_over_pairs(hinge(0.8), 0.05), 1e-12);
  options.over_all_pairs = true;
  EXPECT_NEAR(loss(options), mean_over_pairs(hinge(0.8), 0.05, true), 1e-12);

  options = none();
  options.logistic = 2;
  EXPECT_NEAR(loss(options), 2 * mean_over_pairs([](double d) { return std::log1p(std::exp(-d)); }),
              1e-12);
  options = none();
  options.diff_mat = 1;
  options.diff_mat_margin = 0.1;
  EXPECT_NEAR(loss(options), mean_over_pairs(hinge(0.1)) / 0.1, 1e-12);
}

TEST_F(LossesTest, OverlappingIntervalsCarryNoWeight) {
  noise = at::tensor({0.0, 0.0, 0.6, 0.5, 0.0}, at::kDouble);
  const at::Tensor pairs = pairs_that_count(runtimes, noise, 0, at::kDouble);
  EXPECT_EQ(pairs[2][3].item<double>(), 0);  // 3 +- 0.6 and 2 +- 0.5
  EXPECT_EQ(pairs[2][4].item<double>(), 1);
  EXPECT_EQ(pairs[3][4].item<double>(), 0);  // equal
}

TEST_F(LossesTest, ListMleIsMinusTheLogOfTheOrdersProbability) {
  LossOptions options = none();
  options.list_mle = 1;
  options.temperature = 2;
  const auto slow = [&](const std::vector<int64_t>& order, double sign) {
    double sum = 0;
    for (size_t k = 0; k < order.size(); ++k) {
      double rest = 0;
      for (size_t l = k; l < order.size(); ++l) rest += std::exp(sign * cost(order[l]) / 2);
      sum += std::log(rest) - sign * cost(order[k]) / 2;
    }
    return sum;
  };
  EXPECT_NEAR(loss(options), slow({0, 1, 3, 4, 2}, -1), 1e-12);
  options.fastest_first = false;
  EXPECT_NEAR(loss(options), slow({2, 3, 4, 1, 0}, 1), 1e-12);
}

TEST_F(LossesTest, PointwiseLosses) {
  LossOptions options = none();
  options.mse = 1;
  EXPECT_NEAR(loss(options), (0.49 + 2.21 * 2.21 + 0.25 + 1.69 + 3.61) / 5, 1e-12);
  options = none();
  options.mape = 1;
  EXPECT_NEAR(loss(options), (0.7 + 2.21 / 1.01 + 0.5 / 3 + 0.65 + 0.95) / 5, 1e-12);
}

TEST_F(LossesTest, CostsCanBeLogarithmsOfRuntimes) {
  LossOptions options = none();
  options.log_mse = 1;
  const at::Tensor exact = runtimes.log();
  EXPECT_NEAR(ranking_loss(exact, runtimes, noise, options).item<double>(), 0, 1e-20);
  EXPECT_NEAR(ranking_loss(exact + 0.5, runtimes, noise, options).item<double>(), 0.25, 1e-12);
}

TEST_F(LossesTest, GradientsMeetFiniteDifferences) {
  LossOptions options;
  options.hinge = 0.5;
  options.logistic = options.list_mle = options.diff_mat = options.mse = options.mape = 1;
  options.log_mse = 1;
  testing::expect_gradients_meet_differences(
      [&](const auto& in) { return ranking_loss(in[0], runtimes, noise, options); }, {costs});
}

TEST_F(LossesTest, LargeCostsKeepLossesAndGradientsFinite) {
  LossOptions options;
  options.logistic = options.list_mle = options.diff_mat = options.mse = options.mape = 1;
  for (const double scale : {1e4, 1e6}) {
    for (const bool fastest_first : {true, false}) {
      options.fastest_first = fastest_first;
      const at::Tensor large =
          at::tensor({-1.0, 1.0, 0.0, -1.0, 1.0}, at::kFloat).mul(scale).requires_grad_();
      const at::Tensor value = ranking_loss(large, runtimes, noise, options);
      value.backward();
      EXPECT_TRUE(std::isfinite(value.item<double>()));
      EXPECT_TRUE(large.grad().isfinite().all().item<bool>());
    }
  }
}

TEST_F(LossesTest, NothingToOrderGivesZeroAndNoNan) {
  LossOptions options;
  options.logistic = options.diff_mat = 1;
  runtimes = at::ones({5}, at::kDouble);
  const at::Tensor x = costs.clone().requires_grad_();
  const at::Tensor value = ranking_loss(x, runtimes, noise, options);
  value.backward();
  EXPECT_EQ(value.item<double>(), 0);
  EXPECT_EQ(x.grad().abs().sum().item<double>(), 0);
  const at::Tensor one = at::ones({1}, at::kDouble);
  EXPECT_EQ(ranking_loss(one, one, one, options).item<double>(), 0);
}

TEST_F(LossesTest, OptionsOutOfRangeAreRefused) {
  LossOptions options;
  options.temperature = 0;
  EXPECT_THROW(options.validate(), c10::ValueError);
}

}  // namespace
}  // namespace lagom::cost_model

#include "lagom/cost_model/fused_vector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace lagom::cost_model::detail {
namespace {

double probability(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}
double density(double x) {
  return std::exp(-0.5 * x * x) / std::sqrt(2 * std::acos(-1.0));
}
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

class FusedVectorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_vector_kernels()) GTEST_SKIP() << "this CPU has no AVX-512";
    for (double x = -30; x <= 30; x += 0.0371) {
      xs.push_back(static_cast<float>(x));
      gates.push_back(static_cast<float>(sigmoid(3 * x)));
      residuals.push_back(static_cast<float>(std::sin(5 * x)));
      grads.push_back(static_cast<float>(std::cos(7 * x)));
    }
  }
  /// Not a multiple of a register's 16.
  int64_t count() const { return static_cast<int64_t>(xs.size()); }

  std::vector<float> xs, gates, residuals, grads;
};

TEST_F(FusedVectorTest, EqualsDoubleWithAndWithoutGateAndResidual) {
  ASSERT_NE(count() % 16, 0);
  for (const float* gate : std::initializer_list<const float*>{nullptr, gates.data()}) {
    for (const float* residual : std::initializer_list<const float*>{nullptr, residuals.data()}) {
      std::vector<float> out(xs.size() + 1, 7), slopes(xs.size() + 1, 7);
      vector_gelu(xs.data(), gate, residual, count(), out.data());
      vector_gelu_backward(xs.data(), gate, residual, grads.data(), count(), slopes.data());
      for (size_t i = 0; i < xs.size(); ++i) {
        const float v =
            xs[i] * (gate == nullptr ? 1 : gate[i]) + (residual == nullptr ? 0 : residual[i]);
        const double scale = std::max(1.0F, std::abs(v));
        EXPECT_NEAR(out[i], v * probability(v), 3e-7 * scale) << v;
        EXPECT_NEAR(slopes[i], grads[i] * (probability(v) + v * density(v)), 1e-6) << v;
      }
      EXPECT_EQ(out.back(), 7);
      EXPECT_EQ(slopes.back(), 7);
    }
  }
}

TEST_F(FusedVectorTest, SigmoidsOfRowsHaveTheirBias) {
  const std::vector<float> bias = {-100, -1, 0, 0.5, 100};
  const auto width = static_cast<int64_t>(bias.size());
  std::vector<float> values(xs.begin(), xs.begin() + 4 * width);
  vector_bias_sigmoid(values.data(), 4, width, bias.data());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], sigmoid(xs[i] + bias[i % bias.size()]), 2e-7);
  }
}

TEST_F(FusedVectorTest, ExponentialsAreAddedUp) {
  std::vector<float> out(xs.size()), sum(xs.size(), 1);
  const std::vector<float> largest(xs.size(), 0);
  vector_exp_row(xs.data(), 1, largest.data(), count(), out.data(), sum.data());
  for (size_t i = 0; i < xs.size(); ++i) {
    const double want = std::exp(static_cast<double>(xs[i]));
    EXPECT_NEAR(out[i], want, 3e-7 * want);
    EXPECT_NEAR(sum[i], 1 + want, 3e-7 * (1 + want));
  }
}

TEST_F(FusedVectorTest, NanStays) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), zero = 0;
  float out = 0, gate = nan;
  vector_gelu(&nan, nullptr, nullptr, 1, &out);
  EXPECT_TRUE(std::isnan(out));
  const float one = 1;
  vector_gelu_backward(&nan, nullptr, nullptr, &one, 1, &out);
  EXPECT_TRUE(std::isnan(out));
  vector_bias_sigmoid(&gate, 1, 1, &zero);
  EXPECT_TRUE(std::isnan(gate));
}

}  // namespace
}  // namespace lagom::cost_model::detail

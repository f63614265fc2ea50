#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lagom/train/adamw.h"
#include "lagom/train/flat_parameters.h"
#include "lagom/train/schedule.h"
#include "tests/testing/command.h"

namespace lagom::train {
namespace {

at::Tensor parameter(std::vector<double> values) {
  const auto count = static_cast<int64_t>(values.size());
  return at::tensor(values, at::kDouble).view({count}).clone().requires_grad_(true);
}

TEST(FlatParametersTest, ParametersAndGradientsAreSlicesOfTheBuffers) {
  at::Tensor a = parameter({1, 2});
  at::Tensor b = parameter({3});
  FlatParameters flat({{.name = "g", .parameters = {{"a", a}, {"b", b}}}});
  const FlatParameters::Group& group = flat.groups()[0];

  ((a * a).sum() + 5 * b.sum()).backward();

  EXPECT_TRUE(at::equal(group.values, at::tensor({1.0, 2.0, 3.0}, at::kDouble)));
  EXPECT_TRUE(at::equal(group.gradients, at::tensor({2.0, 4.0, 5.0}, at::kDouble)));
  group.values.fill_(7);
  EXPECT_EQ(b.item<double>(), 7);
  (5 * b.sum()).backward();
  EXPECT_EQ(group.gradients[2].item<double>(), 10);
  flat.zero_gradients();
  EXPECT_EQ(a.grad().abs().sum().item<double>(), 0);
}

TEST(FlatParametersTest, AParameterGivenTwiceIsRefused) {
  at::Tensor a = parameter({1});
  EXPECT_THROW(FlatParameters({{.name = "x", .parameters = {{"a", a}}},
                               {.name = "y", .parameters = {{"a", a}}}}),
               c10::Error);
}

TEST(FlatParametersTest, SumOfSquaresIsTheSameForAnyNumberOfThreads) {
  const at::Tensor values = at::randn({200'001}, at::kFloat);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const double one = sum_of_squares(values);
  at::set_num_threads(2);
  const double two = sum_of_squares(values);
  at::set_num_threads(before);

  EXPECT_EQ(one, two);
  EXPECT_NEAR(one, values.to(at::kDouble).square().sum().item<double>(), 1e-6 * one);
}

/// The paper's algorithm 2, a value at a time.
struct SlowAdamW {
  double value, m = 0, v = 0;
  int t = 0;
  void step(double gradient, double rate, double decay, const AdamWOptions& options) {
    ++t;
    value -= rate * decay * value;
    m = options.beta1 * m + (1 - options.beta1) * gradient;
    v = options.beta2 * v + (1 - options.beta2) * gradient * gradient;
    const double m_hat = m / (1 - std::pow(options.beta1, t));
    const double v_hat = v / (1 - std::pow(options.beta2, t));
    value -= rate * m_hat / (std::sqrt(v_hat) + options.epsilon);
  }
};

TEST(AdamWTest, StepsAsThePaperSaysAndClipsEachSetApart) {
  at::Tensor a = parameter({1, -2});
  at::Tensor b = parameter({3});
  const AdamWOptions options{.clip_norm = 5};
  FlatParameters flat(
      {{.name = "trunk", .parameters = {{"a", a}}, .weight_decay = 0.1, .clip_set = "trunk"},
       {.name = "head", .parameters = {{"b", b}}, .learning_rate_scale = 2, .clip_set = "head"}});
  AdamW optimizer(flat, options);
  SlowAdamW slow[3] = {{1}, {-2}, {3}};

  for (int step = 0; step < 4; ++step) {
    flat.zero_gradients();
    a.mutable_grad().copy_(at::tensor({6.0, 8.0 + step}, at::kDouble));  // norm from 10: clipped
    b.mutable_grad().fill_(0.5 + step);                                  // under 5: left alone
    const AdamW::Report report = optimizer.step(0.01);

    const double norm = std::hypot(6.0, 8.0 + step);
    EXPECT_DOUBLE_EQ(report.gradient_norms.at("trunk"), norm);
    EXPECT_DOUBLE_EQ(report.gradient_norms.at("head"), 0.5 + step);
    slow[0].step(6 * 5 / norm, 0.01, 0.1, options);
    slow[1].step((8 + step) * 5 / norm, 0.01, 0.1, options);
    slow[2].step(0.5 + step, 0.02, 0, options);
  }
  EXPECT_NEAR(a[0].item<double>(), slow[0].value, 1e-6);  // the divisor is held in f32
  EXPECT_NEAR(a[1].item<double>(), slow[1].value, 1e-6);
  EXPECT_NEAR(b[0].item<double>(), slow[2].value, 1e-12);
}

TEST(AdamWTest, AGradientThatIsNotFiniteChangesNothing) {
  at::Tensor a = parameter({1, 2});
  FlatParameters flat({{.name = "g", .parameters = {{"a", a}}}});
  AdamW optimizer(flat, {});
  a.mutable_grad()[1] = std::nan("");

  const AdamW::Report report = optimizer.step(0.1);

  EXPECT_FALSE(report.is_finite);
  EXPECT_TRUE(at::equal(a.detach(), at::tensor({1.0, 2.0}, at::kDouble)));
  EXPECT_EQ(optimizer.state()[2].second.item<float>(), 0);
}

TEST(AdamWTest, StateFromAFileContinuesBitForBit) {
  testing::TemporaryFolder folder;
  const auto run = [&](int first, int last, const std::string& from, const std::string& to) {
    at::Tensor a = at::arange(5, at::kFloat).requires_grad_(true);
    FlatParameters flat({{.name = "g", .parameters = {{"a", a}}, .weight_decay = 0.01}});
    AdamW optimizer(flat, {});
    ParameterAverage average(flat, 0.9);
    if (!from.empty()) {
      const tensor::TensorFile file = tensor::load_tensors(from);
      optimizer.load_state(file);
      average.load_state(file);
      flat.groups()[0].values.copy_(file.find("a"));
    }
    for (int step = first; step < last; ++step) {
      flat.zero_gradients();
      (a * a * (step + 1)).sum().backward();
      optimizer.step(0.1);
      average.update();
    }
    std::vector<tensor::NamedTensor> tensors = optimizer.state();
    for (tensor::NamedTensor& item : average.state()) tensors.push_back(item);
    tensors.emplace_back("a", a.detach());
    tensor::save_tensors(to, tensors, {});
    return a.detach().clone();
  };

  const at::Tensor whole = run(0, 7, "", folder / "whole");
  run(0, 3, "", folder / "part");
  const at::Tensor resumed = run(3, 7, folder / "part", folder / "resumed");

  EXPECT_TRUE(at::equal(whole, resumed));
  EXPECT_TRUE(at::equal(tensor::load_tensors(folder / "whole").find("average.g"),
                        tensor::load_tensors(folder / "resumed").find("average.g")));
}

TEST(ParameterAverageTest, FollowsByHandAndSwapsBack) {
  at::Tensor a = parameter({4});
  FlatParameters flat({{.name = "g", .parameters = {{"a", a}}}});
  ParameterAverage average(flat, 0.75);
  flat.groups()[0].values.fill_(8);

  average.update();  // 4 + (8 - 4) / 4
  average.swap();
  EXPECT_EQ(a.item<double>(), 5);
  average.swap();
  EXPECT_EQ(a.item<double>(), 8);
}

TEST(ScheduleTest, WarmsUpToThePeakAndEndsAtTheLastStep) {
  const ScheduleOptions options{.learning_rate = 1, .final_share = 0.1, .warmup_share = 0.2};
  // 2 of 10 steps warm up: 1/3, 2/3, then the peak at step 2.
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 0, 10), 1.0 / 3);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 1, 10), 2.0 / 3);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 2, 10), 1);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 9, 10), 0.1);
  // 7 steps of decay; after 3.5 of them a cosine is half way down.
  EXPECT_NEAR((learning_rate_at(options, 5, 10) + learning_rate_at(options, 6, 10)) / 2, 0.55,
              1e-12);
  ScheduleOptions linear = options;
  linear.decay = Decay::kLinear;
  EXPECT_NEAR(learning_rate_at(linear, 5, 10), 1 - 0.9 * 3 / 7, 1e-12);
  EXPECT_EQ(learning_rate_at({.learning_rate = 2, .warmup_share = 0}, 0, 1), 2);
}

TEST(ScheduleTest, FieldsOutOfRangeAreNamed) {
  try {
    ScheduleOptions{.warmup_share = 1.5}.validate();
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "warmup_share: expected a share in [0, 1], found 1.5");
  }
  EXPECT_THROW(ScheduleOptions{.learning_rate = 0}.validate(), std::invalid_argument);
  EXPECT_THROW(AdamWOptions{.beta2 = 1}.validate(), std::invalid_argument);
}

}  // namespace
}  // namespace lagom::train

#include "lagom/tune/effect_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lagom/hlo/text_reader.h"

namespace lagom::tune {
namespace {

EffectModel model_with(double mean, double deviation) {
  return EffectModel([=](const std::string&) { return Belief{mean, deviation}; });
}

TEST(EffectModelTest, PredictsOnePlusThePriorsBeforeAnythingIsMeasured) {
  EffectModel model = model_with(-0.1, 0.3);

  EXPECT_DOUBLE_EQ(model.predict({}).mean, 1);
  EXPECT_DOUBLE_EQ(model.predict({}).deviation, 0);
  EXPECT_DOUBLE_EQ(model.predict({"a", "b"}).mean, 0.8);
  EXPECT_DOUBLE_EQ(model.predict({"a", "b"}).deviation, std::sqrt(2 * 0.09));
}

TEST(EffectModelTest, OneMeasurementOfOneDecisionIsBayesRuleForTwoGaussians) {
  EffectModel model = model_with(0, 0.2);

  model.observe({"a"}, 0.7, 0.1);

  // Precisions 25 and 100: the mean is their weighted one, (25 * 0 + 100 * -0.3) / 125.
  EXPECT_NEAR(model.effect("a").mean, -0.24, 1e-12);
  EXPECT_NEAR(model.effect("a").deviation, std::sqrt(1 / 125.0), 1e-12);
  EXPECT_EQ(model.effect("b").mean, 0);
}

TEST(EffectModelTest, MeasurementsOfSumsArriveAtTheSolutionOfLeastSquares) {
  // With nearly no prior and noise, three equations give three effects.
  EffectModel model = model_with(0, 10);
  model.observe({"a", "b"}, 1 - 0.3, 1e-4);
  model.observe({"b", "c"}, 1 + 0.1, 1e-4);
  model.observe({"a", "c"}, 1 - 0.2, 1e-4);

  EXPECT_NEAR(model.effect("a").mean, -0.3, 1e-5);
  EXPECT_NEAR(model.effect("b").mean, 0.0, 1e-5);
  EXPECT_NEAR(model.effect("c").mean, 0.1, 1e-5);
  EXPECT_NEAR(model.predict({"a", "b", "c"}).mean, 0.8, 1e-4);
  EXPECT_LT(model.predict({"a", "b", "c"}).deviation, 1e-3);
}

TEST(EffectModelTest, WhatTwoConfigurationsShareDoesNotAddToTheDoubtOfTheirDifference) {
  EffectModel model = model_with(-0.05, 0.2);

  const Belief change = model.change({"a", "b", "c"}, {"b", "c", "d"});

  EXPECT_DOUBLE_EQ(change.mean, 0);  // + d - a
  EXPECT_DOUBLE_EQ(change.deviation, std::sqrt(0.08));
  EXPECT_DOUBLE_EQ(model.change({"a"}, {"a"}).deviation, 0);
}

TEST(EffectModelTest, TheOrderOfMeasurementsDoesNotMatter) {
  EffectModel one = model_with(0.1, 0.3), other = model_with(0.1, 0.3);
  one.observe({"a", "b"}, 0.9, 0.05);
  one.observe({"b"}, 1.2, 0.02);
  other.observe({"b"}, 1.2, 0.02);
  other.observe({"a", "b"}, 0.9, 0.05);

  for (const char* decision : {"a", "b"}) {
    EXPECT_NEAR(one.effect(decision).mean, other.effect(decision).mean, 1e-12);
    EXPECT_NEAR(one.effect(decision).deviation, other.effect(decision).deviation, 1e-12);
  }
}

TEST(ExpectedImprovementTest, MeetsTheIntegral) {
  for (const Belief& value : {Belief{0.9, 0.2}, Belief{1.3, 0.4}, Belief{1.0, 0.05}}) {
    double sum = 0;
    constexpr int kSteps = 200000;
    for (int i = 0; i < kSteps; ++i) {
      const double z = -8 + 16 * (i + 0.5) / kSteps;
      const double density = std::exp(-z * z / 2) / std::sqrt(2 * M_PI) * 16 / kSteps;
      sum += density * std::max(0.0, 1 - (value.mean + z * value.deviation));
    }
    EXPECT_NEAR(expected_improvement(value, 1), sum, 1e-7);
  }
  EXPECT_DOUBLE_EQ(expected_improvement({0.75, 0}, 1), 0.25);
  EXPECT_DOUBLE_EQ(expected_improvement({1.25, 0}, 1), 0);
}

TEST(DecisionNamesTest, AFormInManyPlacesIsOneDecision) {
  const hlo::Module module = hlo::read_hlo_text(R"(HloModule m
ENTRY e {
  x = f32[1,24,24,32]{3,2,1,0} parameter(0)
  k = f32[3,3,1,32]{3,2,1,0} parameter(1)
  c = f32[1,24,24,32]{3,2,1,0} convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=32
  ROOT d = f32[1,24,24,32]{3,2,1,0} convolution(c, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=32
}
)",
                                                "t");
  const SearchSpace space(module, {});
  rewrite::Configuration configuration = rewrite::Configuration::from_string(
      "c form depthwise_taps\nd form depthwise_taps\nflag xla_cpu_prefer_vector_width 512\n");

  const auto names = decision_names(space, configuration);

  ASSERT_EQ(names.size(), 2u);
  EXPECT_TRUE(names[0].starts_with("form ")) << names[0];
  EXPECT_TRUE(names[0].ends_with(" depthwise_taps")) << names[0];
  EXPECT_EQ(names[1], "flag xla_cpu_prefer_vector_width 512\n");
}

}  // namespace
}  // namespace lagom::tune

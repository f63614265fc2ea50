#include "lagom/tune/neighbours.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lagom/hlo/text_reader.h"
#include "lagom/tune/kernel_features.h"
#include "lagom/tune/kernel_search.h"

namespace lagom::tune {
namespace {

KernelRecord record(std::vector<float> node, double ratio, std::string signature = "s") {
  return {.signature = std::move(signature),
          .configuration = "node form taps\n",
          .opcode = "dot",
          .default_seconds = 1,
          .seconds = ratio,
          .ratio = {.median = ratio, .low = ratio, .high = ratio},
          .error = {},
          .node = std::move(node)};
}

TEST(CombineTest, WeighsByPrecision) {
  const Belief both = combine({1, 0.5}, {4, 1});  // precisions 4 and 1

  EXPECT_DOUBLE_EQ(both.mean, 1.6);
  EXPECT_DOUBLE_EQ(both.deviation, std::sqrt(0.2));
  EXPECT_EQ(combine({1, INFINITY}, {4, 1}).mean, 4);
  EXPECT_EQ(combine({1, 0.5}, {4, INFINITY}).mean, 1);
}

TEST(NeighboursTest, KnowNothingOfOtherOpcodesFormsAndDescriptions) {
  Neighbours neighbours;
  neighbours.add(record({1, 2}, 0.5));

  EXPECT_TRUE(std::isinf(neighbours.log_ratio("add", {1, 2}, "node form taps\n").deviation));
  EXPECT_TRUE(std::isinf(neighbours.log_ratio("dot", {1, 2}, "node form other\n").deviation));
  EXPECT_TRUE(std::isinf(neighbours.log_ratio("dot", {1, 2, 3}, "node form taps\n").deviation));
  EXPECT_TRUE(std::isinf(neighbours.log_ratio("dot", {1, 2}, "node form taps\n", "s").deviation));
}

TEST(NeighboursTest, TheSameNodeIsNearlySureAndFarOnesAreNot) {
  Neighbours neighbours;
  neighbours.add(record({3, 3}, 0.25));

  const Belief same = neighbours.log_ratio("dot", {3, 3}, "node form taps\n");
  const Belief far = neighbours.log_ratio("dot", {9, 3}, "node form taps\n");

  EXPECT_NEAR(same.mean, std::log(0.25), 1e-9);
  EXPECT_LT(same.deviation, 0.1);
  EXPECT_GT(far.deviation, 5 * same.deviation);
}

TEST(NeighboursTest, TwoAtOneDistanceCountAlikeAndTheirDisagreementIsDoubt) {
  Neighbours neighbours;
  neighbours.add(record({2, 3}, 0.5, "a"));
  neighbours.add(record({4, 3}, 2.0, "b"));

  const Belief middle = neighbours.log_ratio("dot", {3, 3}, "node form taps\n");

  EXPECT_NEAR(middle.mean, 0, 1e-9);
  EXPECT_GT(middle.deviation, std::log(2.0));
}

TEST(NeighboursTest, AnotherDeviceLeavesMoreDoubt) {
  Neighbours here, there;
  here.add(record({3}, 0.5));
  there.add(record({3}, 0.5), 0.3);

  EXPECT_GE(there.log_ratio("dot", {3}, "node form taps\n").deviation, 0.3);
  EXPECT_LT(here.log_ratio("dot", {3}, "node form taps\n").deviation, 0.1);
}

TEST(NeighboursTest, OtherCompilersAreDoubtedMoreThanOtherCpus) {
  EXPECT_EQ(doubt_of_device("cpu cpu 0.115 cpus 1", "cpu cpu 0.115 cpus 1"), 0);
  const double cpus = doubt_of_device("cpu cpu 0.115 cpus 1", "cpu cpu 0.115 cpus 0,1");
  EXPECT_GT(cpus, 0);
  EXPECT_GT(doubt_of_device("cpu cpu 0.106 cpus 1", "cpu cpu 0.115 cpus 1"), 2 * cpus);
}

TEST(NeighboursTest, FailuresAndOldRecordsAreLeftOut) {
  Neighbours neighbours;
  neighbours.add(record({}, 0.5));
  KernelRecord failed = record({1}, 0.5);
  failed.failure = measure::FailureKind::kWrongNumbers;
  failed.seconds.reset();
  neighbours.add(failed);
  KernelRecord baseline = record({1}, 1);
  baseline.configuration = "";
  neighbours.add(baseline);

  EXPECT_EQ(neighbours.size(), 0u);
}

TEST(ExpectedGainTest, ASureWinnerGainsWhatItSavesBeyondTheBest) {
  EXPECT_NEAR(expected_gain({std::log(0.25), 1e-9}, 8, 8), 6, 1e-6);
  EXPECT_NEAR(expected_gain({std::log(0.25), 1e-9}, 8, 3), 1, 1e-6);
  EXPECT_NEAR(expected_gain({std::log(2.0), 1e-9}, 8, 8), 0, 1e-6);
}

TEST(ExpectedGainTest, MeetsTheIntegral) {
  for (const Belief& belief : {Belief{-0.2, 0.6}, Belief{0.4, 0.6}, Belief{14, 0.3}}) {
    double sum = 0;
    constexpr int kSteps = 200000;
    for (int i = 0; i < kSteps; ++i) {
      const double z = -8 + 16 * (i + 0.5) / kSteps;
      const double density = std::exp(-z * z / 2) / std::sqrt(2 * M_PI) * 16 / kSteps;
      sum += density * std::max(0.0, 3 - 4 * std::exp(belief.mean + z * belief.deviation));
    }
    EXPECT_NEAR(expected_gain(belief, 4, 3), sum, 1e-6);
  }
}

hlo::Module dot(const std::string& m, const std::string& k, const std::string& n) {
  return hlo::read_hlo_text("HloModule m\nENTRY e { a = f32[" + m + "," + k +
                                "]{1,0} parameter(0) b = f32[" + k + "," + n +
                                "]{1,0} parameter(1) ROOT node = f32[" + m + "," + n +
                                "]{1,0} dot(a, b), lhs_contracting_dims={1}, "
                                "rhs_contracting_dims={0} }\n",
                            "t");
}

TEST(DescribeNodeTest, DoublingASizeIsAboutOneApartInEachPlaceThatHasIt) {
  const auto small = describe_node(dot("64", "128", "256"), "node");
  const auto deeper = describe_node(dot("64", "256", "256"), "node");
  const auto much_deeper = describe_node(dot("64", "4096", "256"), "node");

  EXPECT_EQ(distance(small, small), 0);
  // FLOPs, both operands' bytes, the left one's minor size, the depth: five places.
  EXPECT_NEAR(distance(small, deeper), std::sqrt(5.0), 0.05);
  EXPECT_GT(distance(small, much_deeper), 4 * distance(small, deeper));
}

TEST(DescribeNodeTest, AnotherLoopIsFarther) {
  const hlo::Module transposed = hlo::read_hlo_text(
      "HloModule m\nENTRY e { a = f32[64,128]{1,0} parameter(0) b = f32[256,128]{1,0} parameter(1) "
      "ROOT node = f32[64,256]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1} "
      "}\n",
      "t");

  EXPECT_GE(
      distance(describe_node(dot("64", "128", "256"), "node"), describe_node(transposed, "node")),
      4);
  EXPECT_THROW(describe_node(transposed, "absent"), std::invalid_argument);
}

TEST(DescribeNodeTest, OtherKindsOfNodeCannotBeCompared) {
  const hlo::Module add = hlo::read_hlo_text(
      "HloModule m\nENTRY e { a = f32[64]{0} parameter(0) ROOT node = f32[64]{0} add(a, a) }\n",
      "t");

  EXPECT_TRUE(std::isinf(
      distance(describe_node(add, "node"), describe_node(dot("64", "64", "64"), "node"))));
}

}  // namespace
}  // namespace lagom::tune

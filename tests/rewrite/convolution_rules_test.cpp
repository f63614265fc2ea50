#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "lagom/rewrite/rule.h"
#include "tests/testing/random_nodes.h"
#include "tests/testing/reference_convolution.h"

namespace lagom::rewrite {
namespace {

using hlo::Dims;
using hlo::ElementType;
using hlo::Opcode;
using hlo::Values;
using testing::RandomChoices;
using testing::RandomNode;

const Rule& rule_named(std::string_view name) {
  const Rule* rule = find_rule(name);
  if (rule == nullptr) throw std::invalid_argument("no such rule");
  return *rule;
}

// Applies the rule and compares the entry's value with the definition of the convolution.
void expect_equal_after(const Rule& rule, RandomNode& test) {
  const hlo::Instruction original = *test.node;
  const Values expected =
      testing::reference_convolution(original, test.arguments[0], test.arguments[1]);

  hlo::NameTable names(test.module);
  apply_rule(rule, test.module, *test.entry, names, test.node);

  hlo::Instruction* const root = test.entry->root();
  ASSERT_NE(root->name, original.name);
  ASSERT_TRUE(hlo::same_shape(root->shape, original.shape));
  const Values actual =
      hlo::evaluate(*root, {test.arguments.begin(), test.arguments.end()}).numbers();
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 1e-9 * (1 + std::fabs(expected[i]))) << "element " << i;
  }
}

const testing::NodeFamily& family_named(std::string_view name) {
  for (const testing::NodeFamily& family : testing::node_families()) {
    if (family.name == name) return family;
  }
  throw std::invalid_argument("no such family");
}

// Draws until the rule has been tried `wanted` times.
void check_random(std::string_view name, std::string_view family, int wanted, uint32_t seed) {
  const Rule& rule = rule_named(name);
  RandomChoices choices(seed);
  int tried = 0;
  for (int drawn = 0; tried < wanted && drawn < 20 * wanted; ++drawn) {
    RandomNode test = family_named(family).make(choices);
    if (!rule.matches(*test.node)) continue;
    ++tried;
    SCOPED_TRACE("draw " + std::to_string(drawn) + ": " + test.node->shape.to_string());
    expect_equal_after(rule, test);
    if (::testing::Test::HasFatalFailure()) break;
  }
  EXPECT_EQ(tried, wanted);
}

hlo::ConvolutionSpec nhwc_spec(int64_t size, int64_t pad, int64_t groups) {
  hlo::ConvolutionSpec spec;
  spec.window.assign(2, {.size = size, .pad_low = pad, .pad_high = pad});
  spec.feature_group_count = groups;
  spec.dims.input_batch = spec.dims.output_batch = 0;
  spec.dims.input_feature = spec.dims.output_feature = 3;
  spec.dims.input_spatial = spec.dims.output_spatial = {1, 2};
  spec.dims.kernel_spatial = {0, 1};
  spec.dims.kernel_input_feature = 2;
  spec.dims.kernel_output_feature = 3;
  return spec;
}

size_t count(const hlo::Computation& computation, Opcode opcode) {
  size_t n = 0;
  for (const auto& instruction : computation.instructions()) n += instruction->opcode == opcode;
  return n;
}

TEST(DepthwiseTapsTest, EqualsTheConvolutionForAnyAttributes) {
  check_random("depthwise_taps", "depthwise convolution", 400, 1);
}

TEST(DepthwiseWeightGradientTest, EqualsTheConvolutionForAnyAttributes) {
  check_random("depthwise_weight_gradient", "depthwise weight gradient", 400, 2);
}

TEST(Im2colDotTest, EqualsTheConvolutionForAnyAttributes) {
  check_random("im2col_dot", "convolution", 400, 3);
}

TEST(Im2colDotWeightsFirstTest, EqualsTheConvolutionForAnyAttributes) {
  check_random("im2col_dot_weights_first", "convolution", 400, 4);
}

TEST(PositionDotsTest, EqualsTheConvolutionForAnyAttributes) {
  check_random("position_dots", "convolution", 400, 21);
}

TEST(TapDotsTest, EqualsTheConvolutionForAnyAttributes) {
  check_random("tap_dots", "convolution", 400, 22);
}

TEST(PhasesTest, EqualsTheConvolutionForAnyAttributes) {
  check_random("phases", "convolution", 200, 23);
  check_random("phases", "depthwise convolution", 200, 24);
  check_random("phases", "depthwise weight gradient", 200, 25);
}

TEST(PhasesIm2colTest, EqualsTheConvolutionForAnyAttributes) {
  check_random("phases_im2col", "convolution", 400, 26);
}

TEST(Col2imTest, EqualsTheConvolutionForAnyAttributes) {
  check_random("col2im", "convolution", 400, 27);
}

TEST(PositionDotsTest, PointwiseWeightGradientIsOneDot) {
  // The gradient of a 1x1 kernel: input labelled f01b, output gradient i01o, one output position.
  hlo::ConvolutionSpec spec;
  spec.window.assign(2, {.size = 6});
  spec.dims.input_feature = 0;
  spec.dims.input_spatial = {1, 2};
  spec.dims.input_batch = 3;
  spec.dims.kernel_input_feature = 0;
  spec.dims.kernel_spatial = {1, 2};
  spec.dims.kernel_output_feature = 3;
  spec.dims.output_spatial = {0, 1};
  spec.dims.output_batch = 2;
  spec.dims.output_feature = 3;
  RandomChoices choices(28);
  RandomNode test =
      testing::make_convolution(choices, ElementType::kF32, {2, 6, 6, 3}, {2, 6, 6, 5}, spec);

  expect_equal_after(rule_named("position_dots"), test);

  EXPECT_EQ(count(*test.entry, Opcode::kDot), 1u);
  EXPECT_EQ(count(*test.entry, Opcode::kTranspose), 0u);
}

TEST(DepthwiseTapsTest, DropsTapsThatMeetOnlyPadding) {
  RandomChoices choices(5);
  // A 5x5 kernel on a 1x1 map: only the middle element meets the input.
  RandomNode test = testing::make_convolution(choices, ElementType::kF32, {1, 1, 1, 3},
                                              {5, 5, 1, 3}, nhwc_spec(5, 2, 3));

  expect_equal_after(rule_named("depthwise_taps"), test);

  EXPECT_EQ(count(*test.entry, Opcode::kMultiply), 1u);
  EXPECT_EQ(count(*test.entry, Opcode::kAdd), 0u);
  EXPECT_EQ(count(*test.entry, Opcode::kPad), 0u);
}

TEST(DepthwiseTapsTest, KeepsTheOwnLayoutWithoutTransposes) {
  RandomChoices choices(6);
  RandomNode test = testing::make_convolution(choices, ElementType::kF32, {2, 5, 5, 3},
                                              {3, 3, 1, 3}, nhwc_spec(3, 1, 3));

  expect_equal_after(rule_named("depthwise_taps"), test);

  EXPECT_EQ(count(*test.entry, Opcode::kTranspose), 0u);
  EXPECT_EQ(count(*test.entry, Opcode::kMultiply), 9u);
}

TEST(DepthwiseTapsTest, ComputesNarrowTypesInFloat32) {
  for (ElementType type : {ElementType::kBF16, ElementType::kF16}) {
    RandomChoices choices(7);
    RandomNode test =
        testing::make_convolution(choices, type, {1, 4, 4, 2}, {3, 3, 1, 2}, nhwc_spec(3, 1, 2));

    expect_equal_after(rule_named("depthwise_taps"), test);

    for (const auto& instruction : test.entry->instructions()) {
      if (instruction->opcode == Opcode::kAdd) {
        EXPECT_EQ(instruction->shape.element_type, ElementType::kF32);
      }
    }
  }
}

TEST(DepthwiseTapsTest, LeavesOtherConvolutionsAlone) {
  const Rule& rule = rule_named("depthwise_taps");
  RandomChoices choices(8);
  // Two features per group.
  EXPECT_FALSE(rule.matches(*testing::make_convolution(choices, ElementType::kF32, {1, 4, 4, 4},
                                                       {3, 3, 2, 4}, nhwc_spec(3, 1, 2))
                                 .node));
  // 81 live taps.
  EXPECT_FALSE(rule.matches(*testing::make_convolution(choices, ElementType::kF32, {1, 9, 9, 2},
                                                       {9, 9, 1, 2}, nhwc_spec(9, 4, 2))
                                 .node));
  // Integers wrap around: not a matter of rounding.
  EXPECT_FALSE(rule.matches(*testing::make_convolution(choices, ElementType::kS32, {1, 4, 4, 2},
                                                       {3, 3, 1, 2}, nhwc_spec(3, 1, 2))
                                 .node));
}

TEST(Im2colDotTest, TrimsKernelToTapsThatMeetInput) {
  RandomChoices choices(9);
  RandomNode test = testing::make_convolution(choices, ElementType::kF32, {2, 1, 1, 4},
                                              {3, 3, 4, 5}, nhwc_spec(3, 1, 1));

  expect_equal_after(rule_named("im2col_dot"), test);

  const auto& instructions = test.entry->instructions();
  for (const auto& instruction : instructions) {
    if (instruction->opcode != Opcode::kDot) continue;
    EXPECT_EQ(instruction->operand(0).shape.dimensions, (Dims{2, 4}));
    EXPECT_EQ(instruction->operand(1).shape.dimensions, (Dims{4, 5}));
  }
  EXPECT_EQ(count(*test.entry, Opcode::kConcatenate), 0u);
}

TEST(Im2colDotTest, ReshapesSpatialFirstKernelsInPlace) {
  RandomChoices choices(10);
  RandomNode test = testing::make_convolution(choices, ElementType::kF32, {1, 6, 6, 4},
                                              {3, 3, 4, 5}, nhwc_spec(3, 1, 1));

  expect_equal_after(rule_named("im2col_dot"), test);

  EXPECT_EQ(count(*test.entry, Opcode::kTranspose), 0u);
}

TEST(Im2colDotWeightsFirstTest, LeavesOutputFirstKernelsInPlace) {
  hlo::ConvolutionSpec spec = nhwc_spec(3, 1, 1);
  spec.dims.input_feature = spec.dims.output_feature = 1;
  spec.dims.input_spatial = spec.dims.output_spatial = spec.dims.kernel_spatial = {2, 3};
  spec.dims.kernel_output_feature = 0;
  spec.dims.kernel_input_feature = 1;
  RandomChoices choices(11);
  RandomNode test =
      testing::make_convolution(choices, ElementType::kF32, {2, 4, 6, 6}, {5, 4, 3, 3}, spec);

  expect_equal_after(rule_named("im2col_dot_weights_first"), test);

  for (const auto& instruction : test.entry->instructions()) {
    if (instruction->opcode != Opcode::kTranspose) continue;
    EXPECT_NE(instruction->operands[0]->name, "kernel");
  }
}

TEST(RuleTest, NewInstructionsCarryTheOriginalsMetadata) {
  RandomChoices choices(12);
  RandomNode test = testing::make_convolution(choices, ElementType::kF32, {1, 4, 4, 2},
                                              {3, 3, 1, 2}, nhwc_spec(3, 1, 2));
  hlo::Metadata metadata;
  metadata.op_name = "model/depthwise";
  test.node->metadata = metadata;

  expect_equal_after(rule_named("depthwise_taps"), test);

  for (const auto& instruction : test.entry->instructions()) {
    if (instruction->opcode == Opcode::kParameter) continue;
    ASSERT_TRUE(instruction->metadata) << instruction->name;
    EXPECT_EQ(instruction->metadata->op_name, "model/depthwise");
  }
}

TEST(RuleTest, EveryRuleIsFoundByItsName) {
  std::set<std::string_view> names;
  for (const Rule* rule : all_rules()) {
    EXPECT_EQ(find_rule(rule->name()), rule);
    EXPECT_TRUE(names.insert(rule->name()).second) << rule->name();
  }
  EXPECT_EQ(find_rule("no_such_rule"), nullptr);
}

TEST(RuleTest, EmitRefusesWhatDoesNotMatch) {
  RandomChoices choices(13);
  RandomNode test = testing::make_convolution(choices, ElementType::kF32, {1, 4, 4, 4},
                                              {3, 3, 2, 4}, nhwc_spec(3, 1, 2));
  const size_t before = test.entry->size();
  hlo::NameTable names(test.module);

  for (const Rule* rule : all_rules()) {
    if (rule->matches(*test.node)) continue;
    EXPECT_THROW(apply_rule(*rule, test.module, *test.entry, names, test.node),
                 std::invalid_argument)
        << rule->name();
  }
  EXPECT_EQ(test.entry->size(), before);
}

}  // namespace
}  // namespace lagom::rewrite

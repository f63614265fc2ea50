#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <string>

#include "lagom/rewrite/rule.h"
#include "tests/testing/random_convolution.h"
#include "tests/testing/reference_convolution.h"

namespace lagom::rewrite {
namespace {

using hlo::Dims;
using hlo::ElementType;
using hlo::Opcode;
using testing::ConvolutionCase;
using testing::ConvolutionKind;
using testing::Values;

const Rule& rule_named(std::string_view name) {
  const Rule* rule = find_rule(name);
  if (rule == nullptr) throw std::invalid_argument("no such rule");
  return *rule;
}

// Applies the rule and compares the entry's value with the definition of the convolution.
void expect_equal_after(const Rule& rule, ConvolutionCase& test) {
  const hlo::Instruction original = *test.convolution;
  const Values expected =
      testing::reference_convolution(original, test.arguments[0], test.arguments[1]);

  hlo::NameTable names(*test.module);
  apply_rule(rule, *test.module, *test.module->entry(), names, test.convolution);

  hlo::Instruction* const root = test.module->entry()->root();
  ASSERT_NE(root->name, original.name);
  ASSERT_EQ(root->shape, original.shape);
  const Values actual = testing::evaluate(*root, test.arguments);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 1e-9 * (1 + std::fabs(expected[i]))) << "element " << i;
  }
}

// Draws until the rule has been tried `wanted` times; returns how many draws it took.
int check_random(std::string_view name, ConvolutionKind kind, int wanted, uint32_t seed) {
  const Rule& rule = rule_named(name);
  std::mt19937 generator(seed);
  int tried = 0, drawn = 0;
  for (; tried < wanted && drawn < 20 * wanted; ++drawn) {
    ConvolutionCase test = testing::random_convolution(generator, kind);
    if (!rule.matches(*test.convolution)) continue;
    ++tried;
    SCOPED_TRACE("draw " + std::to_string(drawn) + ": " + test.convolution->shape.to_string());
    expect_equal_after(rule, test);
    if (::testing::Test::HasFatalFailure()) break;
  }
  EXPECT_EQ(tried, wanted);
  return drawn;
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
  check_random("depthwise_taps", ConvolutionKind::kDepthwise, 400, 1);
}

TEST(DepthwiseWeightGradientTest, EqualsTheConvolutionForAnyAttributes) {
  check_random("depthwise_weight_gradient", ConvolutionKind::kDepthwiseWeightGradient, 400, 2);
}

TEST(Im2colDotTest, EqualsTheConvolutionForAnyAttributes) {
  check_random("im2col_dot", ConvolutionKind::kPlain, 400, 3);
}

TEST(Im2colDotWeightsFirstTest, EqualsTheConvolutionForAnyAttributes) {
  check_random("im2col_dot_weights_first", ConvolutionKind::kPlain, 400, 4);
}

TEST(PositionDotsTest, EqualsTheConvolutionForAnyAttributes) {
  check_random("position_dots", ConvolutionKind::kPlain, 400, 21);
}

TEST(TapDotsTest, EqualsTheConvolutionForAnyAttributes) {
  check_random("tap_dots", ConvolutionKind::kPlain, 400, 22);
}

TEST(PhasesTest, EqualsTheConvolutionForAnyAttributes) {
  check_random("phases", ConvolutionKind::kPlain, 200, 23);
  check_random("phases", ConvolutionKind::kDepthwise, 200, 24);
  check_random("phases", ConvolutionKind::kDepthwiseWeightGradient, 200, 25);
}

TEST(PhasesIm2colTest, EqualsTheConvolutionForAnyAttributes) {
  check_random("phases_im2col", ConvolutionKind::kPlain, 400, 26);
}

TEST(Col2imTest, EqualsTheConvolutionForAnyAttributes) {
  check_random("col2im", ConvolutionKind::kPlain, 400, 27);
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
  std::mt19937 generator(28);
  ConvolutionCase test =
      testing::make_convolution(generator, ElementType::kF32, {2, 6, 6, 3}, {2, 6, 6, 5}, spec);

  expect_equal_after(rule_named("position_dots"), test);

  EXPECT_EQ(count(*test.module->entry(), Opcode::kDot), 1u);
  EXPECT_EQ(count(*test.module->entry(), Opcode::kTranspose), 0u);
}

TEST(DepthwiseTapsTest, DropsTapsThatMeetOnlyPadding) {
  std::mt19937 generator(5);
  // A 5x5 kernel on a 1x1 map: only the middle element meets the input.
  ConvolutionCase test = testing::make_convolution(generator, ElementType::kF32, {1, 1, 1, 3},
                                                   {5, 5, 1, 3}, nhwc_spec(5, 2, 3));

  expect_equal_after(rule_named("depthwise_taps"), test);

  EXPECT_EQ(count(*test.module->entry(), Opcode::kMultiply), 1u);
  EXPECT_EQ(count(*test.module->entry(), Opcode::kAdd), 0u);
  EXPECT_EQ(count(*test.module->entry(), Opcode::kPad), 0u);
}

TEST(DepthwiseTapsTest, KeepsTheOwnLayoutWithoutTransposes) {
  std::mt19937 generator(6);
  ConvolutionCase test = testing::make_convolution(generator, ElementType::kF32, {2, 5, 5, 3},
                                                   {3, 3, 1, 3}, nhwc_spec(3, 1, 3));

  expect_equal_after(rule_named("depthwise_taps"), test);

  EXPECT_EQ(count(*test.module->entry(), Opcode::kTranspose), 0u);
  EXPECT_EQ(count(*test.module->entry(), Opcode::kMultiply), 9u);
}

TEST(DepthwiseTapsTest, ComputesNarrowTypesInFloat32) {
  for (ElementType type : {ElementType::kBF16, ElementType::kF16}) {
    std::mt19937 generator(7);
    ConvolutionCase test =
        testing::make_convolution(generator, type, {1, 4, 4, 2}, {3, 3, 1, 2}, nhwc_spec(3, 1, 2));

    expect_equal_after(rule_named("depthwise_taps"), test);

    for (const auto& instruction : test.module->entry()->instructions()) {
      if (instruction->opcode == Opcode::kAdd) {
        EXPECT_EQ(instruction->shape.element_type, ElementType::kF32);
      }
    }
  }
}

TEST(DepthwiseTapsTest, LeavesOtherConvolutionsAlone) {
  const Rule& rule = rule_named("depthwise_taps");
  std::mt19937 generator(8);
  // Two features per group.
  EXPECT_FALSE(rule.matches(*testing::make_convolution(generator, ElementType::kF32, {1, 4, 4, 4},
                                                       {3, 3, 2, 4}, nhwc_spec(3, 1, 2))
                                 .convolution));
  // 81 live taps.
  EXPECT_FALSE(rule.matches(*testing::make_convolution(generator, ElementType::kF32, {1, 9, 9, 2},
                                                       {9, 9, 1, 2}, nhwc_spec(9, 4, 2))
                                 .convolution));
  // Integers wrap around: not a matter of rounding.
  EXPECT_FALSE(rule.matches(*testing::make_convolution(generator, ElementType::kS32, {1, 4, 4, 2},
                                                       {3, 3, 1, 2}, nhwc_spec(3, 1, 2))
                                 .convolution));
}

TEST(Im2colDotTest, TrimsKernelToTapsThatMeetInput) {
  std::mt19937 generator(9);
  ConvolutionCase test = testing::make_convolution(generator, ElementType::kF32, {2, 1, 1, 4},
                                                   {3, 3, 4, 5}, nhwc_spec(3, 1, 1));

  expect_equal_after(rule_named("im2col_dot"), test);

  const auto& instructions = test.module->entry()->instructions();
  for (const auto& instruction : instructions) {
    if (instruction->opcode != Opcode::kDot) continue;
    EXPECT_EQ(instruction->operand(0).shape.dimensions, (Dims{2, 4}));
    EXPECT_EQ(instruction->operand(1).shape.dimensions, (Dims{4, 5}));
  }
  EXPECT_EQ(count(*test.module->entry(), Opcode::kConcatenate), 0u);
}

TEST(Im2colDotTest, ReshapesSpatialFirstKernelsInPlace) {
  std::mt19937 generator(10);
  ConvolutionCase test = testing::make_convolution(generator, ElementType::kF32, {1, 6, 6, 4},
                                                   {3, 3, 4, 5}, nhwc_spec(3, 1, 1));

  expect_equal_after(rule_named("im2col_dot"), test);

  EXPECT_EQ(count(*test.module->entry(), Opcode::kTranspose), 0u);
}

TEST(Im2colDotWeightsFirstTest, LeavesOutputFirstKernelsInPlace) {
  hlo::ConvolutionSpec spec = nhwc_spec(3, 1, 1);
  spec.dims.input_feature = spec.dims.output_feature = 1;
  spec.dims.input_spatial = spec.dims.output_spatial = spec.dims.kernel_spatial = {2, 3};
  spec.dims.kernel_output_feature = 0;
  spec.dims.kernel_input_feature = 1;
  std::mt19937 generator(11);
  ConvolutionCase test =
      testing::make_convolution(generator, ElementType::kF32, {2, 4, 6, 6}, {5, 4, 3, 3}, spec);

  expect_equal_after(rule_named("im2col_dot_weights_first"), test);

  for (const auto& instruction : test.module->entry()->instructions()) {
    if (instruction->opcode != Opcode::kTranspose) continue;
    EXPECT_NE(instruction->operands[0]->name, "kernel");
  }
}

TEST(RuleTest, NewInstructionsCarryTheOriginalsMetadata) {
  std::mt19937 generator(12);
  ConvolutionCase test = testing::make_convolution(generator, ElementType::kF32, {1, 4, 4, 2},
                                                   {3, 3, 1, 2}, nhwc_spec(3, 1, 2));
  hlo::Metadata metadata;
  metadata.op_name = "model/depthwise";
  test.convolution->metadata = metadata;

  expect_equal_after(rule_named("depthwise_taps"), test);

  for (const auto& instruction : test.module->entry()->instructions()) {
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
  std::mt19937 generator(13);
  ConvolutionCase test = testing::make_convolution(generator, ElementType::kF32, {1, 4, 4, 4},
                                                   {3, 3, 2, 4}, nhwc_spec(3, 1, 2));
  const size_t before = test.module->entry()->size();
  hlo::NameTable names(*test.module);

  for (const Rule* rule : all_rules()) {
    EXPECT_THROW(apply_rule(*rule, *test.module, *test.module->entry(), names, test.convolution),
                 std::invalid_argument)
        << rule->name();
  }
  EXPECT_EQ(test.module->entry()->size(), before);
}

}  // namespace
}  // namespace lagom::rewrite

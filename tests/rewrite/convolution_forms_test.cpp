#include <gtest/gtest.h>

#include <string>

#include "lagom/hlo/evaluator.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/verifier.h"
#include "lagom/rewrite/configuration.h"
#include "lagom/rewrite/rule.h"

namespace lagom::rewrite {
namespace {

using hlo::Dims;
using hlo::ElementType;
using hlo::Instruction;
using hlo::Opcode;
using hlo::Values;

hlo::Module program(const std::string& body) {
  return hlo::read_hlo_text("HloModule m\nENTRY main {\n" + body + "}\n", "m");
}

hlo::Module with_form(const hlo::Module& module, const std::string& decision) {
  hlo::Module result = apply(module, Configuration::from_string(decision));
  hlo::verify(result, decision);
  return result;
}

const Instruction& only(const hlo::Module& module, Opcode opcode) {
  const Instruction* found = nullptr;
  for (const auto& i : module.entry()->instructions()) {
    if (i->opcode != opcode) continue;
    EXPECT_EQ(found, nullptr) << i->name;
    found = i.get();
  }
  if (found == nullptr) throw std::invalid_argument("none there");
  return *found;
}

// One row of 2 elements and a kernel of 5 with 2 of padding: the outer taps meet nothing.
constexpr char kWideKernel[] = R"(
  x = f32[1,2,1]{2,1,0} parameter(0)
  k = f32[5,1,1]{2,1,0} parameter(1)
  ROOT y = f32[1,2,1]{2,1,0} convolution(x, k), window={size=5 pad=2_2}, dim_labels=b0f_0io->b0f
)";
const Values kInput = {10, 1};
const Values kKernel = {9, 2, 3, 4, 9};
const Values kOutput = {34, 23};  // 10 * 3 + 1 * 4, 10 * 2 + 1 * 3

TEST(TrimmedConvolutionTest, DropsTapsThatMeetOnlyPadding) {
  const hlo::Module module = with_form(program(kWideKernel), "y form trimmed_convolution");

  const Instruction& convolution = only(module, Opcode::kConvolution);
  EXPECT_EQ(convolution.operand(1).shape.dimensions, (Dims{3, 1, 1}));
  EXPECT_EQ(convolution.attributes.window[0].size, 3);
  EXPECT_EQ(convolution.attributes.window[0].pad_low, 1);
  EXPECT_EQ(convolution.attributes.window[0].pad_high, 1);
  EXPECT_EQ(hlo::evaluate(*module.entry(), {kInput, kKernel}).numbers(), kOutput);
}

TEST(TrimmedConvolutionTest, CutsAReversedKernelAtItsOtherEnd) {
  const hlo::Module module = with_form(program(R"(
  x = f32[1,1,1]{2,1,0} parameter(0)
  k = f32[3,1,1]{2,1,0} parameter(1)
  ROOT y = f32[1,1,1]{2,1,0} convolution(x, k), window={size=3 pad=0_2 rhs_reversal=1}, dim_labels=b0f_0io->b0f
)"),
                                       "y form trimmed_convolution");
  // The first tap reads the last element.
  EXPECT_EQ(hlo::evaluate(*module.entry(), {Values{2}, Values{1, 10, 100}}).numbers(),
            (Values{200}));
}

TEST(TrimmedConvolutionTest, LeavesKernelsAloneWhoseTapsAllMeetInput) {
  const hlo::Module module = program(R"(
  x = f32[1,3,1]{2,1,0} parameter(0)
  k = f32[3,1,1]{2,1,0} parameter(1)
  ROOT y = f32[1,3,1]{2,1,0} convolution(x, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f
)");
  EXPECT_FALSE(find_rule("trimmed_convolution")->matches(*module.entry()->root()));
}

TEST(PaddedConvolutionTest, WritesThePaddingOutBehindABarrier) {
  const hlo::Module module = with_form(program(kWideKernel), "y form padded_convolution");

  const Instruction& convolution = only(module, Opcode::kConvolution);
  EXPECT_EQ(convolution.attributes.window[0].pad_low, 0);
  EXPECT_EQ(convolution.attributes.window[0].pad_high, 0);
  ASSERT_EQ(convolution.operand(0).opcode, Opcode::kOptimizationBarrier);
  // As far as the three taps reach that meet input.
  EXPECT_EQ(convolution.operand(0).shape.dimensions, (Dims{1, 4, 1}));
  EXPECT_EQ(hlo::evaluate(*module.entry(), {kInput, kKernel}).numbers(), kOutput);
}

TEST(PaddedConvolutionTest, WritesHolesOutToo) {
  const hlo::Module module = with_form(program(R"(
  x = f32[1,2,1]{2,1,0} parameter(0)
  k = f32[2,1,1]{2,1,0} parameter(1)
  ROOT y = f32[1,2,1]{2,1,0} convolution(x, k), window={size=2 lhs_dilate=2}, dim_labels=b0f_0io->b0f
)"),
                                       "y form padded_convolution");
  EXPECT_EQ(only(module, Opcode::kConvolution).attributes.window[0].base_dilation, 1);
  // 10 _ 1 under (3, 4), then _ 1.
  EXPECT_EQ(hlo::evaluate(*module.entry(), {Values{10, 1}, Values{3, 4}}).numbers(),
            (Values{30, 4}));
}

TEST(PaddedConvolutionTest, LeavesConvolutionsWithoutPaddingAlone) {
  const hlo::Module module = program(R"(
  x = f32[1,3,1]{2,1,0} parameter(0)
  k = f32[3,1,1]{2,1,0} parameter(1)
  ROOT y = f32[1,1,1]{2,1,0} convolution(x, k), window={size=3}, dim_labels=b0f_0io->b0f
)");
  EXPECT_FALSE(find_rule("padded_convolution")->matches(*module.entry()->root()));
}

TEST(GroupedTapsTest, MultipliesEveryFeatureOfAGroup) {
  const hlo::Module module = program(R"(
  x = f32[1,1,4]{2,1,0} parameter(0)
  k = f32[1,2,2]{2,1,0} parameter(1)
  ROOT y = f32[1,1,2]{2,1,0} convolution(x, k), window={size=1}, dim_labels=b0f_0io->b0f, feature_group_count=2
)");
  const hlo::Module form = with_form(module, "y form grouped_taps");
  for (const auto& i : form.entry()->instructions()) EXPECT_NE(i->opcode, Opcode::kConvolution);
  // Group 0 has features 1 and 2 with weights 10 and 30, group 1 has 3 and 4 with 20 and 40.
  EXPECT_EQ(hlo::evaluate(*form.entry(), {Values{1, 2, 3, 4}, Values{10, 20, 30, 40}}).numbers(),
            (Values{70, 220}));
  EXPECT_FALSE(find_rule("depthwise_taps")->matches(*module.entry()->root()));
}

TEST(Float32ConvolutionTest, ComputesNarrowOperandsWide) {
  const hlo::Module narrow = program(R"(
  x = bf16[1,3,1]{2,1,0} parameter(0)
  k = bf16[3,1,1]{2,1,0} parameter(1)
  ROOT y = bf16[1,1,1]{2,1,0} convolution(x, k), window={size=3}, dim_labels=b0f_0io->b0f
)");
  const hlo::Module form = with_form(narrow, "y form float32_convolution");
  EXPECT_EQ(only(form, Opcode::kConvolution).shape.element_type, ElementType::kF32);
  EXPECT_EQ(form.entry()->root()->shape.element_type, ElementType::kBF16);
  EXPECT_FALSE(find_rule("float32_convolution")->matches(*program(kWideKernel).entry()->root()));
}

// ---- The relaxed class

constexpr char kNormalization[] = R"(
  x = f32[2,3]{1,0} parameter(0)
  mean = f32[3]{0} parameter(1)
  scale = f32[3]{0} parameter(2)
  shift = f32[3]{0} parameter(3)
  m = f32[2,3]{1,0} broadcast(mean), dimensions={1}
  s = f32[2,3]{1,0} broadcast(scale), dimensions={1}
  o = f32[2,3]{1,0} broadcast(shift), dimensions={1}
  centred = f32[2,3]{1,0} subtract(x, m)
  scaled = f32[2,3]{1,0} multiply(centred, s)
  ROOT y = f32[2,3]{1,0} add(scaled, o)
)";

TEST(NormalizationAffineTest, IsOneMultiplicationAndOneAddition) {
  const hlo::Module module = program(kNormalization);
  const hlo::Module form = with_form(module, "y form normalization_affine");

  const Instruction* root = form.entry()->root();
  ASSERT_EQ(root->opcode, Opcode::kAdd);
  ASSERT_EQ(root->operand(0).opcode, Opcode::kMultiply);
  EXPECT_EQ(root->operand(0).operand(0).name, "x");
  EXPECT_EQ(root->operand(1).operand(0).opcode, Opcode::kOptimizationBarrier);
  const std::vector<hlo::Value> arguments = {Values{1, 2, 3, 4, 5, 6}, Values{1, 0, 2},
                                             Values{2, 3, 4}, Values{0, 1, 5}};
  EXPECT_EQ(hlo::evaluate(*form.entry(), arguments).numbers(), (Values{0, 7, 9, 6, 16, 21}));
  // Two steps are as many as the form has.
  EXPECT_FALSE(find_rule("normalization_affine")->matches(*module.entry()->find("scaled")));
}

TEST(NormalizationAffineTest, VectorsAlongOtherDimensionsEndTheChain) {
  const hlo::Module module = program(R"(
  x = f32[2,3]{1,0} parameter(0)
  a = f32[3]{0} parameter(1)
  b = f32[2]{0} parameter(2)
  m = f32[2,3]{1,0} broadcast(a), dimensions={1}
  s = f32[2,3]{1,0} broadcast(b), dimensions={0}
  centred = f32[2,3]{1,0} subtract(x, m)
  scaled = f32[2,3]{1,0} multiply(centred, s)
  ROOT y = f32[2,3]{1,0} add(scaled, s)
)");
  EXPECT_FALSE(find_rule("normalization_affine")->matches(*module.entry()->root()));
}

TEST(FoldedScaleTest, MovesTheScaleIntoTheWeights) {
  const hlo::Module form = with_form(program(R"(
  x = f32[2,2]{1,0} parameter(0)
  w = f32[2,3]{1,0} parameter(1)
  v = f32[3]{0} parameter(2)
  d = f32[2,3]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[2,3]{1,0} broadcast(v), dimensions={1}
  ROOT y = f32[2,3]{1,0} multiply(d, s)
)"),
                                     "y form folded_scale");

  const Instruction* root = form.entry()->root();
  ASSERT_EQ(root->opcode, Opcode::kDot);
  EXPECT_EQ(root->operand(1).opcode, Opcode::kMultiply);
  EXPECT_EQ(root->operand(1).operand(0).name, "w");
  const std::vector<hlo::Value> arguments = {Values{1, 0, 1, 1}, Values{1, 2, 3, 4, 5, 6},
                                             Values{1, 10, 100}};
  EXPECT_EQ(hlo::evaluate(*form.entry(), arguments).numbers(), (Values{1, 20, 300, 5, 70, 900}));
}

TEST(FoldedScaleTest, AFormOfThePatternsDotGivesWay) {
  const hlo::Module module = program(R"(
  x = f32[2,2]{1,0} parameter(0)
  w = f32[2,3]{1,0} parameter(1)
  v = f32[3]{0} parameter(2)
  a_dot = f32[2,3]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[2,3]{1,0} broadcast(v), dimensions={1}
  ROOT y = f32[2,3]{1,0} multiply(a_dot, s)
)");
  // "a_dot" comes first by name; taken first it would leave no pattern.
  const hlo::Module form = with_form(module, "a_dot form swapped_dot\ny form folded_scale\n");
  EXPECT_EQ(form.entry()->root()->opcode, Opcode::kDot);
  EXPECT_THROW(with_form(module, "s form folded_scale"), std::invalid_argument);
  EXPECT_THROW(with_form(module, "a_dot form folded_scale"), std::invalid_argument);
}

TEST(FoldedScaleTest, LeavesAScaleOfBatchDimensionsAlone) {
  const hlo::Module module = program(R"(
  x = f32[1,3,1]{2,1,0} parameter(0)
  k = f32[1,1,2]{2,1,0} parameter(1)
  c = f32[1,3,2]{2,1,0} convolution(x, k), window={size=1}, dim_labels=b0f_0io->b0f
  v = f32[3]{0} parameter(2)
  s = f32[1,3,2]{2,1,0} broadcast(v), dimensions={1}
  ROOT y = f32[1,3,2]{2,1,0} multiply(c, s)
)");
  EXPECT_FALSE(find_rule("folded_scale")->matches(*module.entry()->root()));
}

}  // namespace
}  // namespace lagom::rewrite

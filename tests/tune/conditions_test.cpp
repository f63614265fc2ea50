#include "lagom/tune/conditions.h"

#include <gtest/gtest.h>

#include "lagom/hlo/text_reader.h"

namespace lagom::tune {
namespace {

/// The rule for one NHWC convolution with these attributes; "" for none.
std::string form(const std::string& input, const std::string& kernel, const std::string& output,
                 const std::string& attributes) {
  const hlo::Module module = hlo::read_hlo_text(
      "HloModule m\nENTRY e { x = f32[" + input + "] parameter(0)\nk = f32[" + kernel +
          "] parameter(1)\nROOT c = f32[" + output + "] convolution(x, k), " + attributes + " }",
      "t");
  const rewrite::Rule* rule = form_by_conditions(*module.entry()->root());
  return rule ? std::string(rule->name()) : "";
}

TEST(ConditionsTest, DepthwiseConvolutionsAlways) {
  EXPECT_EQ(
      form("1,32,32,8", "3,3,1,8", "1,32,32,8",
           "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=8"),
      "depthwise_taps");
}

TEST(ConditionsTest, ColumnsForKernelsLargerThanTheInputAndSmallMaps) {
  const std::string same = "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f";
  EXPECT_EQ(form("8,2,2,16", "3,3,16,16", "8,2,2,16", same), "im2col_dot");
  EXPECT_EQ(form("1,4,4,128", "3,3,128,16", "1,4,4,16", same), "im2col_dot");
  EXPECT_EQ(form("1,4,4,64", "3,3,64,16", "1,4,4,16", same), "");
  EXPECT_EQ(form("2,4,4,128", "3,3,128,16", "2,4,4,16", same), "");
}

TEST(ConditionsTest, WeightsFirstKeepsTheirOrder) {
  EXPECT_EQ(form("1,16,8,8", "16,16,3,3", "1,16,8,8",
                 "window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01"),
            "im2col_dot_weights_first");
  EXPECT_EQ(form("1,16,9,8", "16,16,3,3", "1,16,9,8",
                 "window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01"),
            "");
  EXPECT_EQ(form("2,16,32,32", "16,16,1,1", "2,16,32,32",
                 "window={size=1x1}, dim_labels=bf01_oi01->bf01"),
            "im2col_dot_weights_first");
}

TEST(ConditionsTest, HolesInTheInput) {
  EXPECT_EQ(form("1,8,8,4", "4,4,4,4", "1,16,16,4",
                 "window={size=4x4 pad=2_2x2_2 lhs_dilate=2x2}, dim_labels=b01f_01io->b01f"),
            "");
  EXPECT_EQ(form("1,2,2,4", "4,4,4,4", "1,4,4,4",
                 "window={size=4x4 pad=2_2x2_2 lhs_dilate=2x2}, dim_labels=b01f_01io->b01f"),
            "col2im");
  EXPECT_EQ(form("1,8,8,4", "8,8,4,4", "1,16,16,4",
                 "window={size=8x8 pad=4_4x4_4 lhs_dilate=2x2}, dim_labels=b01f_01io->b01f"),
            "phases");
}

TEST(ConditionsTest, WeightGradients) {
  // Of a 1x1 kernel: one position of the output.
  EXPECT_EQ(
      form("2,16,16,8", "2,16,16,8", "1,1,8,8", "window={size=16x16}, dim_labels=f01b_i01o->01bf"),
      "position_dots");
}

}  // namespace
}  // namespace lagom::tune

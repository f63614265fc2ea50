#include "lagom/tune/input_roles.h"

#include <gtest/gtest.h>

#include "lagom/hlo/module_file.h"
#include "lagom/hlo/text_reader.h"
#include "tests/testing/data.h"

namespace lagom::tune {
namespace {

using measure::InputRole;

std::vector<measure::InputSpec> specs_of(const std::string& body) {
  return input_specs(hlo::read_hlo_text("HloModule m\n" + body, "p"));
}

TEST(InputRolesTest, KernelsAndImagesOfConvolutions) {
  const auto specs = specs_of(
      "ENTRY e { x = f32[1,9,9,3]{3,2,1,0} parameter(0)\n k = f32[3,3,3,8]{3,2,1,0} parameter(1)\n"
      "ROOT y = f32[1,7,7,8]{3,2,1,0} convolution(x, k), window={size=3x3}, "
      "dim_labels=b01f_01io->b01f }");
  EXPECT_EQ(specs[0].role, InputRole::kActivation);
  EXPECT_EQ(specs[1].role, InputRole::kWeight);
  EXPECT_EQ(specs[1].fan_in, 27);
}

TEST(InputRolesTest, WeightsAreFollowedThroughReshapesAndCalls) {
  const auto specs = specs_of(
      "f { a = f32[4,6]{1,0} parameter(0)\n b = f32[6,2]{1,0} parameter(1)\n"
      "ROOT d = f32[4,2]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }\n"
      "ENTRY e { x = f32[4,6]{1,0} parameter(0)\n w = f32[12]{0} parameter(1)\n"
      "r = f32[6,2]{1,0} reshape(w)\n ROOT c = f32[4,2]{1,0} call(x, r), to_apply=f }");
  EXPECT_EQ(specs[1].role, InputRole::kWeight);
  EXPECT_EQ(specs[1].fan_in, 6);
}

TEST(InputRolesTest, VariancesArePositiveEvenAsRankFour) {
  // Haiku keeps a batch norm's variance as [1,1,1,C]; an Adam moment has the kernel's shape.
  const auto specs = specs_of(
      "ENTRY e { v = f32[1,1,1,8]{3,2,1,0} parameter(0)\n m = f32[3,3,4,8]{3,2,1,0} parameter(1)\n"
      "g = f32[3,3,4,8]{3,2,1,0} parameter(2)\n eps = f32[] constant(0.001)\n"
      "e1 = f32[1,1,1,8]{3,2,1,0} broadcast(eps), dimensions={}\n"
      "a = f32[1,1,1,8]{3,2,1,0} add(v, e1)\n i = f32[1,1,1,8]{3,2,1,0} rsqrt(a)\n"
      "g2 = f32[3,3,4,8]{3,2,1,0} multiply(g, g)\n n = f32[3,3,4,8]{3,2,1,0} add(m, g2)\n"
      "s = f32[3,3,4,8]{3,2,1,0} sqrt(n)\n"
      "ROOT t = (f32[1,1,1,8]{3,2,1,0}, f32[3,3,4,8]{3,2,1,0}) tuple(i, s) }");
  EXPECT_EQ(specs[0].role, InputRole::kPositive);
  EXPECT_EQ(specs[1].role, InputRole::kPositive);
  EXPECT_EQ(specs[2].role, InputRole::kActivation);  // squared: its sign does not matter
}

TEST(InputRolesTest, IndicesStayInRange) {
  const auto specs = specs_of(
      "ENTRY e { table = f32[100,16]{1,0} parameter(0)\n ids = s32[5,1]{1,0} parameter(1)\n"
      "start = s32[] parameter(2)\n zero = s32[] constant(0)\n"
      "g = f32[5,16]{1,0} gather(table, ids), offset_dims={1}, collapsed_slice_dims={0}, "
      "start_index_map={0}, index_vector_dim=1, slice_sizes={1,16}\n"
      "d = f32[2,16]{1,0} dynamic-slice(g, start, zero), dynamic_slice_sizes={2,16}\n"
      "ROOT t = (f32[5,16]{1,0}, f32[2,16]{1,0}) tuple(g, d) }");
  EXPECT_EQ(specs[1].role, InputRole::kIndex);
  EXPECT_EQ(specs[1].int_low, 0);
  EXPECT_EQ(specs[1].int_high, 99);
  EXPECT_EQ(specs[2].int_high, 3);  // 5 rows, 2 taken
}

TEST(InputRolesTest, WeightsInsideLoopsAreFound) {
  const auto specs = specs_of(
      "cond { p = (s32[], f32[4,4]{1,0}, f32[4,4]{1,0}) parameter(0)\n"
      "i = s32[] get-tuple-element(p), index=0\n n = s32[] constant(3)\n"
      "ROOT c = pred[] compare(i, n), direction=LT }\n"
      "body { p = (s32[], f32[4,4]{1,0}, f32[4,4]{1,0}) parameter(0)\n"
      "i = s32[] get-tuple-element(p), index=0\n one = s32[] constant(1)\n"
      "j = s32[] add(i, one)\n h = f32[4,4]{1,0} get-tuple-element(p), index=1\n"
      "w = f32[4,4]{1,0} get-tuple-element(p), index=2\n"
      "d = f32[4,4]{1,0} dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "ROOT t = (s32[], f32[4,4]{1,0}, f32[4,4]{1,0}) tuple(j, d, w) }\n"
      "ENTRY e { h = f32[4,4]{1,0} parameter(0)\n w = f32[4,4]{1,0} parameter(1)\n"
      "z = s32[] constant(0)\n t = (s32[], f32[4,4]{1,0}, f32[4,4]{1,0}) tuple(z, h, w)\n"
      "ROOT l = (s32[], f32[4,4]{1,0}, f32[4,4]{1,0}) while(t), condition=cond, body=body }");
  EXPECT_EQ(specs[1].role, InputRole::kWeight);
  EXPECT_EQ(specs[1].fan_in, 4);
}

TEST(InputRolesTest, TupleArgumentsGiveOneInputPerElement) {
  const hlo::Module module = hlo::read_hlo_text(
      "HloModule m\nENTRY e { p = (f32[2]{0}, s32[3]{0}) parameter(0)\n"
      "ROOT g = f32[2]{0} get-tuple-element(p), index=0 }",
      "p");
  EXPECT_TRUE(has_tuple_argument(module));
  const auto specs = input_specs(module);
  ASSERT_EQ(specs.size(), 2u);
  EXPECT_EQ(specs[1].element_type, PrimitiveType::kS32);
}

TEST(InputRolesTest, RefusesTokensAndDynamicShapes) {
  EXPECT_THROW(specs_of("ENTRY e { ROOT p = token[] parameter(0) }"), std::invalid_argument);
  EXPECT_THROW(specs_of("ENTRY e { ROOT p = f32[<=4]{0} parameter(0) }"), std::invalid_argument);
}

TEST(InputRolesTest, EveryExampleGetsInputs) {
  for (const auto& path : testing::data_files("programs", ".hlo.pb.gz")) {
    const hlo::Module module = hlo::read_module_file(path);
    EXPECT_EQ(input_specs(module).size(), module.entry()->parameters().size()) << path;
  }
}

}  // namespace
}  // namespace lagom::tune

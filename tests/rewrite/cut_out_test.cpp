#include "lagom/rewrite/cut_out.h"

#include <gtest/gtest.h>

#include "lagom/hlo/module_file.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/text_writer.h"
#include "lagom/hlo/verifier.h"
#include "tests/testing/data.h"

namespace lagom::rewrite {
namespace {

constexpr char kProgram[] = R"(HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[64,16]{1,0} parameter(0)
  w = f32[16,4]{1,0} parameter(1)
  t = f32[64,16]{1,0} tanh(x)
  d1 = f32[64,4]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="a"}
  d2 = f32[64,4]{1,0} dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="b"}
  d3 = f32[64,64]{1,0} dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  zero = f32[] constant(0)
  r = f32[64]{0} reduce(d1, zero), dimensions={1}, to_apply=sum
  square = f32[64,4]{1,0} multiply(d2, d2)
  ROOT out = (f32[64]{0}, f32[64,4]{1,0}, f32[64,64]{1,0}) tuple(r, square, d3)
})";

TEST(CutOutTest, EqualKernelsHaveEqualSignatures) {
  const hlo::Module module = hlo::read_hlo_text(kProgram, "p");
  const auto cut = [&](const char* name) { return cut_out(*module.entry()->find(name)); };
  EXPECT_EQ(cut("d1").signature, cut("d2").signature);
  EXPECT_NE(cut("d1").signature, cut("d3").signature);
  EXPECT_EQ(hlo::write_hlo_text(cut("d1").module), hlo::write_hlo_text(cut("d2").module));
}

TEST(CutOutTest, OperandsBecomeParametersAndConstantsComeAlong) {
  const hlo::Module module = hlo::read_hlo_text(kProgram, "p");
  const CutOut cut = cut_out(*module.entry()->find("r"));
  hlo::verify(cut.module, "cut");
  EXPECT_EQ(cut.module.entry()->parameters().size(), 1u);
  EXPECT_EQ(cut.module.entry()->root()->name, "node");
  EXPECT_EQ(cut.module.entry()->root()->operand(1).opcode, hlo::Opcode::kConstant);
  EXPECT_EQ(cut.module.computations().size(), 2u);
  EXPECT_FALSE(cut.module.entry()->root()->metadata);
}

TEST(CutOutTest, AnOperandReadTwiceIsOneParameter) {
  const hlo::Module module = hlo::read_hlo_text(kProgram, "p");
  const CutOut cut = cut_out(*module.entry()->find("square"));
  EXPECT_EQ(cut.module.entry()->parameters().size(), 1u);
}

TEST(CutOutTest, RefusesWhatMakesNoSenseAlone) {
  const hlo::Module module = hlo::read_hlo_text(kProgram, "p");
  for (const char* name : {"x", "zero", "out"}) {
    EXPECT_FALSE(can_cut_out(*module.entry()->find(name))) << name;
    EXPECT_THROW(cut_out(*module.entry()->find(name)), std::invalid_argument) << name;
  }
}

TEST(CutOutTest, AGroupIsCutOutWhole) {
  const hlo::Module module = hlo::read_hlo_text(R"(HloModule m
ENTRY main {
  h = f32[1,8]{1,0} parameter(0)
  a = f32[8,4]{1,0} parameter(1)
  b = f32[8,2]{1,0} parameter(2)
  x = f32[1,4]{1,0} dot(h, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[1,2]{1,0} dot(h, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[1,4]{1,0}, f32[1,2]{1,0}) tuple(x, y)
})",
                                                "m");
  hlo::Computation& entry = *module.entry();
  const CutOut cut = cut_out(RewriteSite::of(*find_rule("merged_dots"), entry, *entry.find("x")));

  hlo::verify(cut.module, "cut");
  const hlo::Computation& main = *cut.module.entry();
  EXPECT_EQ(main.parameters().size(), 3u);
  ASSERT_EQ(main.root()->opcode, hlo::Opcode::kTuple);
  EXPECT_EQ(main.root()->operand(0).name, cut.node);
  EXPECT_TRUE(fits(*find_rule("merged_dots"), main, *main.find(cut.node)));
  EXPECT_NE(cut.signature, cut_out(*entry.find("x")).signature);
}

TEST(CutOutTest, EveryNodeOfTheExamplesGivesAValidModule) {
  size_t count = 0;
  for (const auto& path : testing::data_files("programs", "_infer.hlo.pb.gz")) {
    const hlo::Module module = hlo::read_module_file(path);
    for (const auto& i : module.entry()->instructions()) {
      if (!can_cut_out(*i) || ++count % 7 != 0) continue;  // a seventh of them is enough
      EXPECT_NO_THROW(hlo::verify(cut_out(*i).module, i->name)) << path;
    }
  }
  EXPECT_GT(count, 1000u);
}

}  // namespace
}  // namespace lagom::rewrite

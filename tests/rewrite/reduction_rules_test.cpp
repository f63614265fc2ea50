#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "lagom/hlo/evaluator.h"
#include "lagom/hlo/module_file.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/verifier.h"
#include "lagom/rewrite/configuration.h"
#include "lagom/rewrite/cut_out.h"
#include "lagom/rewrite/rule.h"
#include "tests/testing/data.h"

namespace lagom::rewrite {
namespace {

using hlo::Opcode;
using hlo::Values;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

hlo::Module with_form(const hlo::Module& module, const std::string& decision) {
  hlo::Module result = apply(module, Configuration::from_string(decision));
  hlo::verify(result, decision);
  return result;
}

TEST(OnesDotTest, SumsLeadingDimensionsAsAVectorTimesAMatrix) {
  const hlo::Module module = hlo::read_hlo_text(R"(HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[2,1,3]{2,1,0} parameter(0)
  init = f32[] parameter(1)
  ROOT y = f32[3]{0} reduce(x, init), dimensions={1,0}, to_apply=sum
})",
                                                "m");
  const hlo::Module form = with_form(module, "y form ones_dot");

  size_t dots = 0;
  for (const auto& i : form.entry()->instructions()) {
    EXPECT_NE(i->opcode, Opcode::kReduce);
    if (i->opcode != Opcode::kDot) continue;
    ++dots;
    EXPECT_EQ(i->operand(0).shape.dimensions, (hlo::Dims{2}));
    EXPECT_EQ(i->operand(1).shape.dimensions, (hlo::Dims{2, 3}));
  }
  EXPECT_EQ(dots, 1u);
  EXPECT_EQ(hlo::evaluate(*form.entry(), {Values{1, 2, 3, 4, 5, 6}, Values{100}}).numbers(),
            (Values{105, 107, 109}));
}

TEST(OnesDotTest, LeavesOtherReducersAlone) {
  const hlo::Module module = hlo::read_hlo_text(R"(HloModule m
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
sum { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }
ENTRY main {
  x = f32[2,3]{1,0} parameter(0)
  zero = f32[] constant(0)
  largest = f32[3]{0} reduce(x, zero), dimensions={0}, to_apply=max
  n = s32[2,3]{1,0} parameter(1)
  whole = s32[] constant(0)
  integers = s32[3]{0} reduce(n, whole), dimensions={0}, to_apply=sum
  ROOT t = (f32[3]{0}, s32[3]{0}) tuple(largest, integers)
})",
                                                "m");
  const Rule& rule = *find_rule("ones_dot");
  EXPECT_FALSE(rule.matches(*module.entry()->find("largest")));
  EXPECT_FALSE(rule.matches(*module.entry()->find("integers")));
}

// As JAX writes argmax; `better` and `init` can be put in.
hlo::Module argmax(const std::string& better = "GT", const std::string& init = "-inf",
                   const std::string& index_init = "0", const std::string& tie = "LT") {
  return hlo::read_hlo_text(R"(HloModule m
comparator {
  va = f32[] parameter(0)
  ia = s32[] parameter(1)
  vb = f32[] parameter(2)
  ib = s32[] parameter(3)
  better = pred[] compare(va, vb), direction=)" +
                                better + R"(
  nan = pred[] compare(va, va), direction=NE
  first = pred[] or(better, nan)
  value = f32[] select(first, va, vb)
  same = pred[] compare(va, vb), direction=EQ
  front = pred[] compare(ia, ib), direction=)" +
                                tie + R"(
  tie = pred[] and(same, front)
  take = pred[] or(first, tie)
  index = s32[] select(take, ia, ib)
  ROOT pair = (f32[], s32[]) tuple(value, index)
}
ENTRY main {
  x = f32[3,4]{1,0} parameter(0)
  line = s32[4]{0} iota(), iota_dimension=0
  places = s32[3,4]{1,0} broadcast(line), dimensions={1}
  init = f32[] constant()" + init +
                                R"()
  zero = s32[] constant()" + index_init +
                                R"()
  ROOT y = (f32[3]{0}, s32[3]{0}) reduce(x, places, init, zero), dimensions={1}, to_apply=comparator
})",
                            "m");
}

TEST(ArgSelectTest, FindsTheFirstOfEqualsAndTheFirstNaN) {
  const hlo::Module form = with_form(argmax(), "y form arg_select");

  for (const auto& i : form.entry()->instructions()) {
    if (i->opcode == Opcode::kReduce) {
      EXPECT_EQ(i->operands.size(), 2u);
    }
  }
  const Values x = {1, 5, 5, 2, 3, kNaN, 7, kNaN, -kInfinity, -kInfinity, -kInfinity, -kInfinity};
  const hlo::Value value = hlo::evaluate(*form.entry(), {x});
  const Values best = value.elements()[0].numbers();
  EXPECT_EQ(best[0], 5);
  EXPECT_TRUE(std::isnan(best[1]));
  EXPECT_EQ(best[2], -kInfinity);
  EXPECT_EQ(value.elements()[1].numbers(), (Values{1, 1, 0}));
}

TEST(ArgSelectTest, KnowsMinimaToo) {
  const hlo::Module form = with_form(argmax("LT", "inf"), "y form arg_select");
  const hlo::Value value =
      hlo::evaluate(*form.entry(), {Values{1, 5, 1, 2, 3, 0, 7, 8, 4, 4, 4, -4}});
  EXPECT_EQ(value.elements()[0].numbers(), (Values{1, 0, -4}));
  EXPECT_EQ(value.elements()[1].numbers(), (Values{0, 1, 3}));
}

TEST(ArgSelectTest, LeavesOtherReductionsOfPairsAlone) {
  const Rule& rule = *find_rule("arg_select");
  const auto matches = [&](const hlo::Module& module) {
    return rule.matches(*module.entry()->root());
  };
  EXPECT_TRUE(matches(argmax()));
  EXPECT_FALSE(matches(argmax("LT")));       // smallest, but starts from -inf
  EXPECT_FALSE(matches(argmax("GE")));       // of equals the one met first, not the least
  EXPECT_FALSE(matches(argmax("GT", "0")));  // zero when all are negative
  EXPECT_FALSE(matches(argmax("GT", "-inf", "3")));
  EXPECT_FALSE(matches(argmax("GT", "-inf", "0", "GT")));  // the last of equals
}

TEST(ArgSelectTest, ItsCutOutHoldsTheIndices) {
  const hlo::Module module = argmax();
  hlo::Computation& entry = *module.entry();
  const RewriteSite site = RewriteSite::of(*find_rule("arg_select"), entry, *entry.root());
  EXPECT_FALSE(site.is_plain());

  const CutOut cut = cut_out(site);

  hlo::verify(cut.module, "cut");
  EXPECT_EQ(cut.module.entry()->parameters().size(), 1u);
  EXPECT_NO_THROW(with_form(cut.module, cut.node + " form arg_select"));
}

TEST(ArgSelectTest, FitsTheArgmaxOfTheExamples) {
  size_t found = 0;
  for (const auto& path : testing::data_files("programs", ".hlo.pb.gz")) {
    const hlo::Module module = hlo::read_module_file(path);
    for (const auto& computation : module.computations()) {
      for (const auto& i : computation->instructions()) {
        if (i->opcode != Opcode::kReduce || i->operands.size() != 4) continue;
        EXPECT_TRUE(find_rule("arg_select")->matches(*i)) << path << ' ' << i->name;
        ++found;
      }
    }
  }
  EXPECT_GE(found, 1u);
}

}  // namespace
}  // namespace lagom::rewrite

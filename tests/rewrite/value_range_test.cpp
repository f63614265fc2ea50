#include "lagom/rewrite/value_range.h"

#include <gtest/gtest.h>

#include <string>

#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/verifier.h"
#include "lagom/rewrite/configuration.h"
#include "lagom/rewrite/cut_out.h"
#include "lagom/rewrite/rule.h"

namespace lagom::rewrite {
namespace {

// The range of the root of an entry with these lines; x is an s32[4] parameter.
std::optional<ValueRange> range_of(const std::string& lines) {
  const hlo::Module module = hlo::read_hlo_text(R"(HloModule m
where { p = pred[4]{0} parameter(0) a = s32[4]{0} parameter(1) b = s32[4]{0} parameter(2) ROOT c = s32[4]{0} select(p, a, b) }
ENTRY main {
  x = s32[4]{0} parameter(0)
  zero = s32[4]{0} constant({0, 0, 0, 0})
  ten = s32[4]{0} constant({10, 10, 10, 10})
)" + lines + "}\n",
                                                "m");
  hlo::verify(module, "m");
  return RangeAnalysis().of(*module.entry()->root());
}

constexpr int64_t kLeast = -2147483648, kMost = 2147483647;

TEST(RangeAnalysisTest, UnknownValuesHaveTheRangeOfTheirType) {
  EXPECT_EQ(range_of("ROOT y = s32[4]{0} copy(x)\n"), (ValueRange{kLeast, kMost}));
  EXPECT_EQ(range_of("ROOT y = u8[4]{0} convert(x)\n"), (ValueRange{0, 255}));
  EXPECT_EQ(range_of("ROOT y = f32[4]{0} convert(x)\n"), std::nullopt);
}

TEST(RangeAnalysisTest, FollowsArithmeticAndNoticesOverflow) {
  EXPECT_EQ(range_of("i = s32[4]{0} iota(), iota_dimension=0\n"
                     "ROOT y = s32[4]{0} subtract(i, ten)\n"),
            (ValueRange{-10, -7}));
  EXPECT_EQ(range_of("i = s32[4]{0} iota(), iota_dimension=0\n"
                     "a = s32[4]{0} subtract(i, ten)\n"
                     "ROOT y = s32[4]{0} multiply(a, i)\n"),
            (ValueRange{-30, 0}));
  EXPECT_EQ(range_of("ROOT y = s32[4]{0} add(x, ten)\n"), (ValueRange{kLeast, kMost}));
}

TEST(RangeAnalysisTest, KnowsRemainderAndClamp) {
  EXPECT_EQ(range_of("ROOT y = s32[4]{0} remainder(x, ten)\n"), (ValueRange{-9, 9}));
  EXPECT_EQ(range_of("ROOT y = s32[4]{0} clamp(zero, x, ten)\n"), (ValueRange{0, 10}));
  // A divisor that may be zero gives the dividend.
  EXPECT_EQ(range_of("ROOT y = s32[4]{0} remainder(ten, x)\n"), (ValueRange{kLeast, kMost}));
}

TEST(RangeAnalysisTest, APredicateSaysSomethingAboutWhatIsSelected) {
  const std::string wrapped =
      "r = s32[4]{0} remainder(x, ten)\n"
      "negative = pred[4]{0} compare(r, zero), direction=LT\n"
      "up = s32[4]{0} add(r, ten)\n";
  EXPECT_EQ(range_of(wrapped + "ROOT y = s32[4]{0} select(negative, up, r)\n"), (ValueRange{0, 9}));
  EXPECT_EQ(range_of(wrapped + "ROOT y = s32[4]{0} call(negative, up, r), to_apply=where\n"),
            (ValueRange{0, 9}));
  // The other way round nothing is gained.
  EXPECT_EQ(range_of(wrapped + "ROOT y = s32[4]{0} select(negative, r, up)\n"),
            (ValueRange{-9, 19}));
  // Elements that changed places are not those that were compared.
  EXPECT_EQ(range_of(wrapped + "turned = s32[4]{0} reverse(r), dimensions={0}\n"
                               "ROOT y = s32[4]{0} select(negative, up, turned)\n"),
            (ValueRange{-9, 9}));
}

TEST(RangeAnalysisTest, DecidesComparisons) {
  EXPECT_EQ(range_of("i = s32[4]{0} iota(), iota_dimension=0\n"
                     "ROOT y = pred[4]{0} compare(i, ten), direction=LT\n"),
            (ValueRange{1, 1}));
  EXPECT_EQ(range_of("ROOT y = pred[4]{0} compare(x, ten), direction=LT\n"), (ValueRange{0, 1}));
}

// A gather whose indices are made by `index`, masked as JAX does.
hlo::Module masked_gather(const std::string& index) {
  return hlo::read_hlo_text(R"(HloModule m
all { a = pred[] parameter(0) b = pred[] parameter(1) ROOT c = pred[] and(a, b) }
ENTRY main {
  table = f32[10,3]{1,0} parameter(0)
  x = s32[4]{0} parameter(1)
  ten = s32[4]{0} constant({10, 10, 10, 10})
  zero = s32[4]{0} constant({0, 0, 0, 0})
  nine = s32[4]{0} constant({9, 9, 9, 9})
  i = s32[4]{0} )" + index +
                                R"(
  indices = s32[4,1]{1,0} reshape(i)
  n = s32[] constant(9)
  z = s32[] constant(0)
  low = s32[4,1]{1,0} broadcast(z), dimensions={}
  high = s32[4,1]{1,0} broadcast(n), dimensions={}
  ge = pred[4,1]{1,0} compare(indices, low), direction=GE
  le = pred[4,1]{1,0} compare(indices, high), direction=LE
  both = pred[4,1]{1,0} and(ge, le)
  true = pred[] constant(true)
  in = pred[4]{0} reduce(both, true), dimensions={1}, to_apply=all
  mask = pred[4,3]{1,0} broadcast(in), dimensions={0}
  rows = f32[4,3]{1,0} gather(table, indices), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}
  nan = f32[] constant(nan)
  fill = f32[4,3]{1,0} broadcast(nan), dimensions={}
  ROOT y = f32[4,3]{1,0} select(mask, rows, fill)
})",
                            "m");
}

TEST(UnmaskedGatherTest, DropsTheMaskOfIndicesThatAreValid) {
  const hlo::Module module = masked_gather("clamp(zero, x, nine)");
  hlo::Module form = apply(module, Configuration::from_string("y form unmasked_gather"));
  hlo::verify(form, "form");
  EXPECT_EQ(form.entry()->root()->opcode, hlo::Opcode::kGather);
}

TEST(UnmaskedGatherTest, KeepsTheMaskOtherwise) {
  const Rule& rule = *find_rule("unmasked_gather");
  for (const char* index : {"copy(x)", "clamp(zero, x, ten)", "remainder(x, ten)"}) {
    EXPECT_FALSE(rule.matches(*masked_gather(index).entry()->root())) << index;
  }
}

TEST(UnmaskedGatherTest, ItsCutOutHoldsTheProof) {
  const hlo::Module module = masked_gather("clamp(zero, x, nine)");
  hlo::Computation& entry = *module.entry();
  const CutOut cut = cut_out(RewriteSite::of(*find_rule("unmasked_gather"), entry, *entry.root()));
  hlo::verify(cut.module, "cut");
  EXPECT_EQ(cut.module.entry()->parameters().size(), 2u);  // the table and x
  EXPECT_TRUE(find_rule("unmasked_gather")->matches(*cut.module.entry()->root()));
}

}  // namespace
}  // namespace lagom::rewrite

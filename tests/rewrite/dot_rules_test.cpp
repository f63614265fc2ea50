#include <gtest/gtest.h>

#include <string>

#include "lagom/hlo/evaluator.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/verifier.h"
#include "lagom/rewrite/configuration.h"
#include "lagom/rewrite/rule.h"

namespace lagom::rewrite {
namespace {

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

size_t count(const hlo::Module& module, Opcode opcode) {
  size_t n = 0;
  for (const auto& instruction : module.entry()->instructions()) n += instruction->opcode == opcode;
  return n;
}

bool matches(const char* rule, const hlo::Module& module, const char* name) {
  return find_rule(rule)->matches(*module.entry()->find(name));
}

// [2, 3] x [4, 3]^T
constexpr char kRows[] = R"(
  x = f32[2,3]{1,0} parameter(0)
  w = f32[4,3]{1,0} parameter(1)
  ROOT y = f32[2,4]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
)";
const Values kX = {1, 2, 3, 4, 5, 6};
const Values kW = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1};
const Values kY = {1, 2, 3, 6, 4, 5, 6, 15};

TEST(RowDotsTest, MakesOneMatrixVectorProductPerRow) {
  const hlo::Module module = with_form(program(kRows), "y form row_dots");

  EXPECT_EQ(count(module, Opcode::kDot), 2u);
  for (const auto& i : module.entry()->instructions()) {
    if (i->opcode != Opcode::kDot) continue;
    EXPECT_EQ(i->operand(0).name, "w");  // the large side, as it lies
    EXPECT_EQ(i->operand(1).shape.dimensions, (hlo::Dims{3}));
  }
  EXPECT_EQ(hlo::evaluate(*module.entry(), {kX, kW}).numbers(), kY);
}

TEST(RowDotsTest, LeavesManyRowsAndEqualSidesAlone) {
  const hlo::Module module = program(R"(
  x = f32[17,3]{1,0} parameter(0)
  w = f32[40,3]{1,0} parameter(1)
  many = f32[17,40]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  b = f32[2,3,3]{2,1,0} parameter(2)
  batched = f32[2,3,3]{2,1,0} dot(b, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  s = f32[3,3]{1,0} parameter(3)
  square = f32[3,3]{1,0} dot(s, s), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT t = (f32[17,40]{1,0}, f32[2,3,3]{2,1,0}, f32[3,3]{1,0}) tuple(many, batched, square)
)");
  for (const char* name : {"many", "batched", "square"}) {
    EXPECT_FALSE(matches("row_dots", module, name)) << name;
  }
}

TEST(SwappedDotTest, TurnsTheSidesRound) {
  const hlo::Module module = with_form(program(kRows), "y form swapped_dot");

  const hlo::Instruction* root = module.entry()->root();
  ASSERT_EQ(root->opcode, Opcode::kTranspose);
  EXPECT_EQ(root->operand(0).operand(0).name, "w");
  EXPECT_EQ(hlo::evaluate(*module.entry(), {kX, kW}).numbers(), kY);
}

TEST(OrderedDotTest, TransposesBehindABarrierWhatIsNotInOrder) {
  const hlo::Module module = with_form(program(kRows), "y form ordered_dot");

  const hlo::Instruction* root = module.entry()->root();
  ASSERT_EQ(root->opcode, Opcode::kDot);
  EXPECT_EQ(root->operand(0).name, "x");
  ASSERT_EQ(root->operand(1).opcode, Opcode::kOptimizationBarrier);
  EXPECT_EQ(root->operand(1).shape.dimensions, (hlo::Dims{3, 4}));
  EXPECT_EQ(hlo::evaluate(*module.entry(), {kX, kW}).numbers(), kY);
}

TEST(OrderedDotTest, LeavesDotsInOrderAlone) {
  const hlo::Module module = program(R"(
  x = f32[2,3]{1,0} parameter(0)
  w = f32[3,4]{1,0} parameter(1)
  ROOT y = f32[2,4]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
)");
  EXPECT_FALSE(matches("ordered_dot", module, "y"));
  EXPECT_TRUE(matches("swapped_ordered_dot", module, "y"));
}

TEST(OuterProductTest, NeedsNoDot) {
  const hlo::Module module = with_form(program(R"(
  x = f32[2,2]{1,0} parameter(0)
  w = f32[2,3]{1,0} parameter(1)
  ROOT y = f32[2,3]{1,0} dot(x, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}
)"),
                                       "y form outer_product");

  EXPECT_EQ(count(module, Opcode::kDot), 0u);
  EXPECT_EQ(count(module, Opcode::kMultiply), 2u);
  EXPECT_EQ(count(module, Opcode::kAdd), 1u);
  // Columns of x are (1, 3) and (2, 4).
  EXPECT_EQ(
      hlo::evaluate(*module.entry(), {Values{1, 2, 3, 4}, Values{1, 10, 100, 5, 6, 7}}).numbers(),
      (Values{16, 28, 121, 22, 44, 228}));
}

TEST(OuterProductTest, LeavesDeepDotsAlone) {
  const hlo::Module module = program(R"(
  x = f32[2,5]{1,0} parameter(0)
  ROOT y = f32[2,2]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
)");
  EXPECT_FALSE(matches("outer_product", module, "y"));
}

TEST(Float32DotTest, ComputesNarrowOperandsWide) {
  const hlo::Module module = with_form(program(R"(
  x = bf16[2,5]{1,0} parameter(0)
  ROOT y = bf16[2,2]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
)"),
                                       "y form float32_dot");

  const hlo::Instruction* root = module.entry()->root();
  ASSERT_EQ(root->opcode, Opcode::kConvert);
  EXPECT_EQ(root->shape.element_type, hlo::ElementType::kBF16);
  EXPECT_EQ(root->operand(0).shape.element_type, hlo::ElementType::kF32);
  EXPECT_FALSE(matches("float32_dot", program(kRows), "y"));
}

TEST(DotRulesTest, LeaveIntegersShardedAndDynamicDotsAlone) {
  const hlo::Module module = program(R"(
  x = s32[2,3]{1,0} parameter(0)
  integers = s32[2,2]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  f = f32[2,3]{1,0} parameter(1)
  sharded = f32[2,2]{1,0} dot(f, f), lhs_contracting_dims={1}, rhs_contracting_dims={1}, sharding={replicated}
  d = f32[<=2,3]{1,0} parameter(2)
  dynamic = f32[<=2,<=2]{1,0} dot(d, d), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  e = f32[0,3]{1,0} parameter(3)
  empty = f32[0,0]{1,0} dot(e, e), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT t = (s32[2,2]{1,0}, f32[2,2]{1,0}, f32[<=2,<=2]{1,0}, f32[0,0]{1,0}) tuple(integers, sharded, dynamic, empty)
)");
  for (const Rule* rule : all_rules()) {
    for (const char* name : {"integers", "sharded", "dynamic", "empty"}) {
      EXPECT_FALSE(rule->matches(*module.entry()->find(name))) << rule->name() << ' ' << name;
    }
  }
}

TEST(DotRulesTest, KeepTheOperandPrecision) {
  const hlo::Module module = program(R"(
  x = f32[2,3]{1,0} parameter(0)
  w = f32[4,3]{1,0} parameter(1)
  ROOT y = f32[2,4]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}, operand_precision={default,highest}
)");
  const hlo::Module swapped = with_form(module, "y form swapped_dot");
  EXPECT_EQ(swapped.entry()->root()->operand(0).rare().operand_precision,
            (std::vector<std::string>{"highest", "default"}));
  // Who asks for precision does not want bf16.
  EXPECT_FALSE(matches("bf16_dot", module, "y"));
  EXPECT_TRUE(matches("bf16_dot", program(kRows), "y"));
}

// ---- Groups

constexpr char kGates[] = R"(
  h = f32[1,2]{1,0} parameter(0)
  wi = f32[2,1]{1,0} parameter(1)
  wf = f32[2,2]{1,0} parameter(2)
  other = f32[1,2]{1,0} parameter(3)
  wo = f32[2,2]{1,0} parameter(4)
  i = f32[1,1]{1,0} dot(h, wi), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f = f32[1,2]{1,0} dot(h, wf), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  apart = f32[1,2]{1,0} dot(other, wo), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  late = f32[2,1]{1,0} reshape(f)
  g = f32[1,1]{1,0} dot(h, late), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[1,1]{1,0}, f32[1,2]{1,0}, f32[1,2]{1,0}, f32[1,1]{1,0}) tuple(i, f, apart, g)
)";

TEST(MergedDotsTest, OneDotGivesAllSiblings) {
  const hlo::Module plain = program(kGates);
  const hlo::Module merged = with_form(plain, "i form merged_dots");

  // i and f are one; `apart` reads something else and `g` needs f first.
  EXPECT_EQ(count(merged, Opcode::kDot), 3u);
  const std::vector<hlo::Value> arguments = {Values{1, 2}, Values{3, 4}, Values{5, 6, 7, 8},
                                             Values{1, 1}, Values{1, 2, 3, 4}};
  const hlo::Value value = hlo::evaluate(*merged.entry(), arguments);
  EXPECT_EQ(value.elements()[0].numbers(), (Values{11}));
  EXPECT_EQ(value.elements()[1].numbers(), (Values{19, 22}));
  EXPECT_EQ(value.elements()[2].numbers(), (Values{4, 6}));
  EXPECT_EQ(value.elements()[3].numbers(), (Values{63}));
}

TEST(MergedDotsTest, OnlyTheFirstSiblingLeads) {
  const hlo::Module module = program(kGates);
  const Rule& rule = *find_rule("merged_dots");
  hlo::Computation& entry = *module.entry();
  EXPECT_TRUE(fits(rule, entry, *entry.find("i")));
  EXPECT_EQ(rule.group(entry, *entry.find("i")),
            (std::vector<hlo::Instruction*>{entry.find("i"), entry.find("f")}));
  for (const char* name : {"f", "apart", "g"}) {
    EXPECT_FALSE(fits(rule, entry, *entry.find(name))) << name;
    EXPECT_THROW(with_form(module, std::string(name) + " form merged_dots"), std::invalid_argument);
  }
}

TEST(MergedDotsTest, AFormOfASiblingGivesWay) {
  const hlo::Module module = program(kGates);
  // "f" is replaced together with "i", whichever stands first.
  const hlo::Module merged = with_form(module, "f form swapped_dot\ni form merged_dots\n");
  EXPECT_EQ(count(merged, Opcode::kDot), 3u);
  EXPECT_EQ(count(merged, Opcode::kTranspose), 0u);
  // A layout of a sibling holds for the part that replaces it.
  const hlo::Module laid_out = with_form(module, "i form merged_dots\nf output-layout {0,1}\n");
  ASSERT_EQ(laid_out.entry()->root()->operand(1).opcode, Opcode::kCustomCall);
  EXPECT_EQ(laid_out.entry()->root()->operand(1).operand(0).opcode, Opcode::kSlice);
}

}  // namespace
}  // namespace lagom::rewrite

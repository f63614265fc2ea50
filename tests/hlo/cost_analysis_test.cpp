#include "lagom/hlo/cost_analysis.h"

#include <gtest/gtest.h>

#include <string>

#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/verifier.h"

namespace lagom::hlo {
namespace {

constexpr char kReducers[] = R"(
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ge {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
}
)";

Module module_of(const std::string& main_lines, const std::string& more = "") {
  Module module = read_hlo_text(
      "HloModule m\n" + std::string(kReducers) + more + "ENTRY main {\n" + main_lines + "\n}\n",
      "test");
  verify(module, "test");
  return module;
}

// Cost of the entry's root alone.
Cost cost_of(const std::string& main_lines, const std::string& more = "") {
  const Module module = module_of(main_lines, more);
  return CostAnalysis(module).of(*module.entry()->root());
}

void expect_cost(const Cost& cost, double flops, double transcendentals, double read,
                 double written) {
  EXPECT_DOUBLE_EQ(cost.flops, flops);
  EXPECT_DOUBLE_EQ(cost.transcendentals, transcendentals);
  EXPECT_DOUBLE_EQ(cost.bytes_read, read);
  EXPECT_DOUBLE_EQ(cost.bytes_written, written);
}

TEST(CostAnalysisTest, ElementwiseCountsItsResult) {
  expect_cost(cost_of("x = f32[2,3] parameter(0)\n ROOT r = f32[2,3] add(x, x)"), 6, 0, 48, 24);
  expect_cost(cost_of("x = bf16[2,3] parameter(0)\n ROOT r = bf16[2,3] tanh(x)"), 0, 6, 12, 12);
  expect_cost(cost_of("x = f32[2,3] parameter(0)\n ROOT r = s8[2,3] convert(x)"), 6, 0, 24, 6);
  expect_cost(cost_of("x = f32[2,3] parameter(0)\n ROOT r = pred[2,3] compare(x, x), direction=LT"),
              6, 0, 48, 6);
}

TEST(CostAnalysisTest, MovesCountNoArithmetic) {
  expect_cost(cost_of("x = f32[3] parameter(0)\n ROOT r = f32[4,3] broadcast(x), dimensions={1}"),
              0, 0, 12, 48);
  expect_cost(
      cost_of("x = f32[4,3] parameter(0)\n ROOT r = f32[2,3] slice(x), slice={[0:2],[0:3]}"), 0, 0,
      24, 24);
  expect_cost(cost_of("ROOT x = f32[4,3] parameter(0)"), 0, 0, 0, 0);
}

TEST(CostAnalysisTest, TransposeIntoTheMatchingLayoutIsFree) {
  expect_cost(cost_of("x = f32[4,3]{1,0} parameter(0)\n"
                      "ROOT r = f32[3,4]{0,1} transpose(x), dimensions={1,0}"),
              0, 0, 0, 0);
  expect_cost(cost_of("x = f32[4,3]{1,0} parameter(0)\n"
                      "ROOT r = f32[3,4]{1,0} transpose(x), dimensions={1,0}"),
              0, 0, 48, 48);
}

TEST(CostAnalysisTest, DotCountsTwoPerProduct) {
  // 7 batches of [2,5] x [5,3]: 7 * 2 * 3 * 5 products.
  expect_cost(cost_of("x = f32[7,2,5] parameter(0)\n y = f32[7,5,3] parameter(1)\n"
                      "ROOT r = f32[7,2,3] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, "
                      "lhs_contracting_dims={2}, rhs_contracting_dims={1}"),
              2 * 210, 0, 4 * (70 + 105), 4 * 42);
}

TEST(CostAnalysisTest, ConvolutionCountsOnlyTapsThatMeetInput) {
  // Size 4, kernel 3, padding 1: positions meet 2, 3, 3, 2 elements. 2 batches, 3 -> 5 features.
  expect_cost(cost_of("x = f32[2,4,3] parameter(0)\n k = f32[3,3,5] parameter(1)\n"
                      "ROOT r = f32[2,4,5] convolution(x, k), window={size=3 pad=1_1}, "
                      "dim_labels=b0f_0io->b0f"),
              2 * 10 * 2 * 3 * 5, 0, 4 * (24 + 45), 4 * 40);
}

TEST(CostAnalysisTest, ConvolutionSkipsDilationHoles) {
  // Base 1 0 2 0 3 (size 3, dilation 2), kernel 2, stride 1: each of 4 positions meets one element.
  // Two groups: 2 input features per group, 6 output features.
  expect_cost(cost_of("x = f32[1,3,4] parameter(0)\n k = f32[2,2,6] parameter(1)\n"
                      "ROOT r = f32[1,4,6] convolution(x, k), window={size=2 lhs_dilate=2}, "
                      "dim_labels=b0f_0io->b0f, feature_group_count=2"),
              2 * 4 * 2 * 6, 0, 4 * (12 + 24), 4 * 24);
}

TEST(CostAnalysisTest, ReductionsCountTheReducer) {
  expect_cost(cost_of("x = f32[2,3,5] parameter(0)\n z = f32[] parameter(1)\n"
                      "ROOT r = f32[3] reduce(x, z), dimensions={0,2}, to_apply=sum"),
              27, 0, 124, 12);
  expect_cost(cost_of("x = f32[9] parameter(0)\n z = f32[] parameter(1)\n"
                      "ROOT r = f32[4] reduce-window(x, z), window={size=3 stride=2}, "
                      "to_apply=sum"),
              8, 0, 40, 16);
  expect_cost(cost_of("x = f32[8] parameter(0)\n s = f32[4] parameter(1)\n z = f32[] parameter(2)\n"
                      "ROOT r = f32[8] select-and-scatter(x, s, z), window={size=2 stride=2}, "
                      "select=ge, scatter=sum"),
              8, 0, 52, 32);
}

TEST(CostAnalysisTest, UpdatesTouchOnlyWhatTheyWrite) {
  expect_cost(cost_of("x = f32[9,8] parameter(0)\n u = f32[2,3] parameter(1)\n"
                      "i = s32[] parameter(2)\n"
                      "ROOT r = f32[9,8] dynamic-update-slice(x, u, i, i)"),
              0, 0, 24 + 8, 24);
  expect_cost(cost_of("x = f32[9,8] parameter(0)\n i = s32[] parameter(1)\n"
                      "ROOT r = f32[1,4] dynamic-slice(x, i, i), dynamic_slice_sizes={1,4}"),
              0, 0, 16 + 8, 16);
}

TEST(CostAnalysisTest, CustomCallsCountTheirBytesAndLayoutMarksNothing) {
  expect_cost(cost_of("x = f32[4] parameter(0)\n"
                      "ROOT r = f32[4] custom-call(x), custom_call_target=\"f\""),
              0, 0, 16, 16);
  expect_cost(cost_of("x = f32[4] parameter(0)\n"
                      "ROOT r = f32[4]{0} custom-call(x), custom_call_target=\"LayoutConstraint\", "
                      "operand_layout_constraints={f32[4]{0}}"),
              0, 0, 0, 0);
}

TEST(CostAnalysisTest, FusionCountsBytesAtItsBorder) {
  const Cost cost = cost_of(
      "x = f32[100] parameter(0)\n y = f32[10] parameter(1)\n"
      "ROOT r = f32[10] fusion(x, y), kind=kLoop, calls=fused",
      R"(
fused {
  x = f32[100] parameter(0)
  y = f32[10] parameter(1)
  s = f32[10] slice(x), slice={[0:10]}
  e = f32[10] exponential(y)
  ROOT a = f32[10] add(s, e)
}
)");

  expect_cost(cost, 10, 10, 40 + 40, 40);
}

TEST(CostAnalysisTest, ConditionalCountsItsDearestBranch) {
  const Cost cost = cost_of(
      "p = pred[] parameter(0)\n x = f32[4] parameter(1)\n"
      "ROOT r = f32[4] conditional(p, x, x), true_computation=one, false_computation=two",
      R"(
one {
  x = f32[4] parameter(0)
  ROOT y = f32[4] add(x, x)
}
two {
  x = f32[4] parameter(0)
  y = f32[4] add(x, x)
  ROOT z = f32[4] multiply(y, y)
}
)");

  expect_cost(cost, 8, 0, 64, 32);
}

// A loop whose counter starts at `start`; `next` and `condition` are lines that define n and c.
std::string loop_computations(const std::string& next, const std::string& condition) {
  return R"(
body {
  s = (s32[], f32[4], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[4] get-tuple-element(s), index=1
  l = s32[] get-tuple-element(s), index=2
  k = s32[] constant(2)
)" + next +
         R"(
  w = f32[4] multiply(v, v)
  ROOT t = (s32[], f32[4], s32[]) tuple(n, w, l)
}
condition {
  s = (s32[], f32[4], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  l = s32[] get-tuple-element(s), index=2
  k = s32[] constant(17)
)" + condition +
         "\n}\n";
}

std::optional<int64_t> trips(const std::string& start, const std::string& next,
                             const std::string& condition, const std::string& attributes = "") {
  const Module module = module_of(
      "i = s32[] " + start + "\n l = s32[] constant(30)\n v = f32[4] parameter(0)\n" +
          "s = (s32[], f32[4], s32[]) tuple(i, v, l)\n" +
          "ROOT w = (s32[], f32[4], s32[]) while(s), condition=condition, body=body" + attributes,
      loop_computations(next, condition));
  return trip_count(*module.entry()->root());
}

TEST(TripCountTest, CountsStepsToAConstantBound) {
  const std::string up = "n = s32[] add(i, k)";
  // 3, 5, ..., 15 are below 17; with "or equal" 17 too.
  EXPECT_EQ(trips("constant(3)", up, "ROOT c = pred[] compare(i, k), direction=LT"), 7);
  EXPECT_EQ(trips("constant(3)", up, "ROOT c = pred[] compare(i, k), direction=LE"), 8);
  EXPECT_EQ(trips("constant(3)", up, "ROOT c = pred[] compare(k, i), direction=GT"), 7);
  EXPECT_EQ(trips("constant(3)", up, "ROOT c = pred[] compare(i, k), direction=NE"), 7);
  EXPECT_EQ(trips("constant(20)", up, "ROOT c = pred[] compare(i, k), direction=LT"), 0);
}

TEST(TripCountTest, CountsDownwards) {
  // 30, 28, ..., 18 are above 17.
  EXPECT_EQ(trips("constant(30)", "n = s32[] subtract(i, k)",
                  "ROOT c = pred[] compare(i, k), direction=GT"),
            7);
}

TEST(TripCountTest, FollowsABoundThatTheLoopHandsOn) {
  // 0, 2, ..., 28 are below 30.
  EXPECT_EQ(
      trips("constant(0)", "n = s32[] add(k, i)", "ROOT c = pred[] compare(i, l), direction=LT"),
      15);
}

TEST(TripCountTest, UnknownWhenTheCounterIsNotOne) {
  const std::string below = "ROOT c = pred[] compare(i, k), direction=LT";
  EXPECT_EQ(trips("parameter(1)", "n = s32[] add(i, k)", below), std::nullopt);
  EXPECT_EQ(trips("constant(0)", "n = s32[] multiply(i, k)", below), std::nullopt);
  EXPECT_EQ(trips("constant(0)", "n = s32[] subtract(i, k)", below), std::nullopt);
  EXPECT_EQ(trips("constant(0)", "n = s32[] add(i, k)",
                  "d = pred[] compare(i, k), direction=LT\n ROOT c = pred[] not(d)"),
            std::nullopt);
  // 0, 2, 4... never meets 17.
  EXPECT_EQ(
      trips("constant(0)", "n = s32[] add(i, k)", "ROOT c = pred[] compare(i, k), direction=NE"),
      std::nullopt);
}

TEST(TripCountTest, BackendConfigWins) {
  EXPECT_EQ(
      trips("parameter(1)", "n = s32[] add(i, k)", "ROOT c = pred[] compare(i, k), direction=LT",
            R"(, backend_config={"known_trip_count":{"n":"12"}})"),
      12);
}

TEST(CostAnalysisTest, LoopsCountEveryIteration) {
  const Module module = module_of(
      "i = s32[] constant(3)\n l = s32[] constant(30)\n v = f32[4] parameter(0)\n"
      "s = (s32[], f32[4], s32[]) tuple(i, v, l)\n"
      "ROOT w = (s32[], f32[4], s32[]) while(s), condition=condition, body=body",
      loop_computations("n = s32[] add(i, k)", "ROOT c = pred[] compare(i, k), direction=LT"));
  const Instruction& loop = *module.entry()->root();

  // Body: 4 products and 1 sum; condition: 1 comparison; 7 iterations.
  EXPECT_DOUBLE_EQ(CostAnalysis(module).of(loop).flops, 7 * 6);
  EXPECT_DOUBLE_EQ(CostAnalysis(module, {.multiply_trip_counts = false}).of(loop).flops, 6);
}

TEST(CostAnalysisTest, TotalIsTheEntry) {
  const Module module =
      module_of("x = f32[4] parameter(0)\n y = f32[4] add(x, x)\n ROOT z = f32[4] exponential(y)");

  expect_cost(CostAnalysis(module).total(), 4, 4, 48, 32);
}

}  // namespace
}  // namespace lagom::hlo

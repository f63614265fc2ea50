#include "lagom/hlo/evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "lagom/hlo/text_reader.h"
#include "tests/testing/random_nodes.h"
#include "tests/testing/reference_convolution.h"

namespace lagom::hlo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The value of a module's entry, given its text without the header.
Value value_of(const std::string& text, const std::vector<Value>& arguments = {},
               const EvaluatorOptions& options = {}) {
  const Module module = read_hlo_text("HloModule m\n" + text, "test");
  return evaluate(*module.entry(), arguments, options);
}

// One instruction on the parameters x, y, z of these shapes.
Values value_of_one(const std::string& instruction, const std::vector<std::string>& shapes,
                    const std::vector<Value>& arguments) {
  std::string text = "ENTRY e {\n";
  for (size_t p = 0; p < shapes.size(); ++p) {
    text += std::string(1, static_cast<char>('x' + p)) + " = " + shapes[p] + " parameter(" +
            std::to_string(p) + ")\n";
  }
  return value_of(text + "ROOT r = " + instruction + "\n}", arguments).numbers();
}

Values binary(const std::string& opcode, const std::string& type, const Values& x,
              const Values& y) {
  const std::string shape = type + "[" + std::to_string(x.size()) + "]";
  return value_of_one(shape + " " + opcode + "(x, y)", {shape, shape}, {x, y});
}

Values convert(const std::string& from, const std::string& to, const Values& x) {
  const std::string n = "[" + std::to_string(x.size()) + "]";
  return value_of_one(to + n + " convert(x)", {from + n}, {x});
}

std::string error_of(const std::string& text, const std::vector<Value>& arguments = {}) {
  try {
    value_of(text, arguments);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "evaluated";
}

TEST(EvaluatorTest, IntegersWrapToTheirWidth) {
  EXPECT_THAT(binary("add", "s8", {127, -128}, {1, -1}), ElementsAre(-128, 127));
  EXPECT_THAT(binary("subtract", "u32", {0}, {1}), ElementsAre(4294967295.0));
  // 3000000001^2 = 9000000006000000001 = 2095475785 + k 2^32.
  EXPECT_THAT(binary("multiply", "u32", {3000000001}, {3000000001}),
              ElementsAre(static_cast<double>(3000000001u * 3000000001u)));
  EXPECT_THAT(binary("multiply", "s32", {65536, 46341}, {65536, 46341}),
              ElementsAre(0, -2147479015));
  EXPECT_THAT(value_of_one("s32[1] negate(x)", {"s32[1]"}, {{-2147483648.0}}),
              ElementsAre(-2147483648.0));
  EXPECT_THAT(binary("power", "s32", {3, -1, 2, 2}, {4, -3, -1, 32}), ElementsAre(81, -1, 0, 0));
}

TEST(EvaluatorTest, IntegerDivisionIsXlas) {
  EXPECT_THAT(binary("divide", "s32", {-7, 7, 5, -2147483648.0}, {2, -2, 0, -1}),
              ElementsAre(-3, -3, -1, -2147483648.0));
  EXPECT_THAT(binary("divide", "u8", {7, 5}, {2, 0}), ElementsAre(3, 255));
  EXPECT_THAT(binary("remainder", "s32", {-7, 7, 5, -2147483648.0}, {2, -2, 0, -1}),
              ElementsAre(-1, 1, 5, 0));
}

TEST(EvaluatorTest, BitsShiftAndCombine) {
  EXPECT_THAT(binary("shift-left", "u32", {1, 1, 3}, {31, 32, 31}),
              ElementsAre(2147483648.0, 0, 2147483648.0));
  EXPECT_THAT(binary("shift-right-logical", "s32", {-1, -1}, {28, 40}), ElementsAre(15, 0));
  EXPECT_THAT(binary("shift-right-arithmetic", "s32", {-8, -8, 8}, {1, 40, 40}),
              ElementsAre(-4, -1, 0));
  EXPECT_THAT(binary("xor", "s16", {-1, 12}, {1, 10}), ElementsAre(-2, 6));
  EXPECT_THAT(value_of_one("u8[2] not(x)", {"u8[2]"}, {{0, 254}}), ElementsAre(255, 1));
  EXPECT_THAT(value_of_one("s8[2] popcnt(x)", {"s8[2]"}, {{-1, 5}}), ElementsAre(8, 2));
  EXPECT_THAT(value_of_one("u16[2] count-leading-zeros(x)", {"u16[2]"}, {{1, 0}}),
              ElementsAre(15, 16));
  EXPECT_THAT(binary("add", "pred", {0, 1, 1}, {0, 0, 1}), ElementsAre(0, 1, 1));
}

TEST(EvaluatorTest, ConvertTruncatesSaturatesAndWraps) {
  EXPECT_THAT(convert("f32", "s8", {1.9, -1.9, 1000, -1000, kNan, kInfinity}),
              ElementsAre(1, -1, 127, -128, 0, 127));
  EXPECT_THAT(convert("f32", "u8", {-3, 255.5, 300}), ElementsAre(0, 255, 255));
  EXPECT_THAT(convert("s32", "u8", {-1, 257}), ElementsAre(255, 1));
  EXPECT_THAT(convert("f32", "pred", {0, 0.5, -0.0}), ElementsAre(0, 1, 0));
  // Not rounded: the evaluation is in double.
  EXPECT_THAT(convert("f32", "bf16", {1.001}), ElementsAre(1.001));
}

TEST(EvaluatorTest, BitcastsAndReducedPrecisionRound) {
  EXPECT_THAT(value_of_one("s32[2] bitcast-convert(x)", {"f32[2]"}, {{1, -0.0}}),
              ElementsAre(0x3f800000, -2147483648.0));
  EXPECT_THAT(value_of_one("u8[1,4] bitcast-convert(x)", {"u32[1]"}, {{0x01020304}}),
              ElementsAre(4, 3, 2, 1));
  // 1 + 2^-8 lies between two bf16 numbers and goes to the even one.
  EXPECT_THAT(value_of_one("f32[3] reduce-precision(x), exponent_bits=8, mantissa_bits=7",
                           {"f32[3]"}, {{1 + 0x1p-8, 1 + 0x3p-8, 1e39}}),
              ElementsAre(1, 1 + 0x1p-6, kInfinity));
}

TEST(EvaluatorTest, ComparisonsAndExtremaKnowNan) {
  EXPECT_TRUE(std::isnan(binary("maximum", "f32", {kNan}, {1})[0]));
  EXPECT_TRUE(std::isnan(binary("minimum", "f32", {1}, {kNan})[0]));
  EXPECT_THAT(value_of_one("pred[3] compare(x, y), direction=NE", {"f32[3]", "f32[3]"},
                           {{kNan, 1, 2}, {kNan, 1, 3}}),
              ElementsAre(1, 0, 1));
  EXPECT_THAT(value_of_one("pred[3] compare(x, y), direction=LT, type=TOTALORDER",
                           {"f32[3]", "f32[3]"}, {{-0.0, 1, kNan}, {0.0, kNan, 1}}),
              ElementsAre(1, 1, 0));
  EXPECT_THAT(value_of_one("f32[3] clamp(x, y, z)", {"f32[]", "f32[3]", "f32[]"},
                           {{-1}, {-5, 0.5, 5}, {1}}),
              ElementsAre(-1, 0.5, 1));
}

TEST(EvaluatorTest, HyperbolicAndInverseFunctionsUndoEachOther) {
  const std::vector<std::pair<std::string, std::string>> pairs = {{"sinh", "asinh"},
                                                                  {"cosh", "acosh"},
                                                                  {"tanh", "atanh"},
                                                                  {"sine", "asin"},
                                                                  {"cosine", "acos"}};
  for (const auto& [there, back] : pairs) {
    const Values values = value_of("ENTRY e { x = f64[2] parameter(0) y = f64[2] " + there +
                                       "(x) ROOT r = f64[2] " + back + "(y) }",
                                   {{0.25, 1.5}})
                              .numbers();
    EXPECT_NEAR(values[0], 0.25, 1e-14) << there;
    EXPECT_NEAR(values[1], 1.5, 1e-14) << there;
  }
}

TEST(EvaluatorTest, PadCutsAndSpreads) {
  EXPECT_THAT(
      value_of_one("f32[6] pad(x, y), padding=-1_2_1", {"f32[3]", "f32[]"}, {{1, 2, 3}, {9}}),
      // 1 9 2 9 3 without the first, and two more.
      ElementsAre(9, 2, 9, 3, 9, 9));
}

TEST(EvaluatorTest, DynamicSlicesAreMovedInside) {
  EXPECT_THAT(value_of_one("f32[2] dynamic-slice(x, y), dynamic_slice_sizes={2}",
                           {"f32[4]", "s32[]"}, {{1, 2, 3, 4}, {9}}),
              ElementsAre(3, 4));
  EXPECT_THAT(value_of_one("f32[4] dynamic-update-slice(x, y, z)", {"f32[4]", "f32[2]", "s32[]"},
                           {{1, 2, 3, 4}, {8, 9}, {-7}}),
              ElementsAre(8, 9, 3, 4));
}

TEST(EvaluatorTest, GatherTakesRowsMovedInside) {
  const std::string attributes =
      "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
      "slice_sizes={1,2}";
  EXPECT_THAT(value_of_one("f32[3,2] gather(x, y), " + attributes, {"f32[3,2]", "s32[3,1]"},
                           {{1, 2, 3, 4, 5, 6}, {2, -1, 7}}),
              ElementsAre(5, 6, 1, 2, 5, 6));
}

TEST(EvaluatorTest, GatherFollowsBatchDimensions) {
  // x[b, i] for each b its own i.
  const std::string attributes =
      "offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, "
      "start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,1}";
  EXPECT_THAT(value_of_one("f32[2] gather(x, y), " + attributes, {"f32[2,3]", "s32[2,1]"},
                           {{1, 2, 3, 4, 5, 6}, {2, 0}}),
              ElementsAre(3, 4));
}

TEST(EvaluatorTest, ScatterLeavesOutWhatDoesNotFit) {
  const std::string text = R"(
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[3,2] parameter(0)
  i = s32[4,1] parameter(1)
  u = f32[4,2] parameter(2)
  ROOT r = f32[3,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
      scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
})";
  EXPECT_THAT(
      value_of(text, {{0, 0, 0, 0, 0, 0}, {2, 3, 2, -1}, {1, 2, 3, 4, 5, 6, 7, 8}}).numbers(),
      ElementsAre(0, 0, 0, 0, 6, 8));
}

TEST(EvaluatorTest, ReduceOfPairsFindsTheLargestAndItsPlace) {
  const std::string text = R"(
larger {
  a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
  first = pred[] compare(a, b), direction=GE
  v = f32[] select(first, a, b)  k = s32[] select(first, i, j)
  ROOT t = (f32[], s32[]) tuple(v, k)
}
ENTRY e {
  x = f32[2,3] parameter(0)  n = s32[2,3] iota(), iota_dimension=1
  low = f32[] constant(-inf)  zero = s32[] constant(0)
  ROOT r = (f32[2], s32[2]) reduce(x, n, low, zero), dimensions={1}, to_apply=larger
})";
  const Value value = value_of(text, {{1, 5, 5, -2, -3, -1}});
  ASSERT_EQ(value.elements().size(), 2u);
  EXPECT_THAT(value.elements()[0].numbers(), ElementsAre(5, -1));
  EXPECT_THAT(value.elements()[1].numbers(), ElementsAre(1, 2));
}

TEST(EvaluatorTest, ReduceByAnyComputationKeepsOrder) {
  // 2 (2 (2 * 1 - 3) - 4) - 5: not a reducer that is known by name.
  const std::string text = R"(
f { a = f32[] parameter(0) b = f32[] parameter(1) d = f32[] add(a, a) ROOT s = f32[] subtract(d, b) }
ENTRY e { x = f32[3] parameter(0) one = f32[] constant(1)
  ROOT r = f32[] reduce(x, one), dimensions={0}, to_apply=f })";
  EXPECT_THAT(value_of(text, {{3, 4, 5}}).numbers(), ElementsAre(-17));
}

TEST(EvaluatorTest, ReduceWindowKnowsHoles) {
  const std::string text = R"(
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[3] parameter(0) zero = f32[] constant(0)
  ROOT r = f32[3] reduce-window(x, zero), window={size=2 stride=2 pad=1_1 lhs_dilate=2 rhs_dilate=2}, to_apply=add })";
  // Padded: 0 [1 . 2 . 3] 0; windows at 0, 2, 4 take elements two apart: holes only.
  EXPECT_THAT(value_of(text, {{1, 2, 3}}).numbers(), ElementsAre(0, 0, 0));
  const std::string moved =
      text.substr(0, text.find("pad=1_1")) + "pad=2_0" + text.substr(text.find("pad=1_1") + 7);
  EXPECT_THAT(value_of(moved, {{1, 2, 3}}).numbers(), ElementsAre(1, 3, 5));
}

TEST(EvaluatorTest, SelectAndScatterChoosesTheFirstOfEquals) {
  const std::string text = R"(
ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[5] parameter(0) dy = f32[2] parameter(1) zero = f32[] constant(0)
  ROOT r = f32[5] select-and-scatter(x, dy, zero), window={size=3 stride=2}, select=ge, scatter=add })";
  EXPECT_THAT(value_of(text, {{1, 2, 4, 4, 3}, {10, 20}}).numbers(), ElementsAre(0, 0, 30, 0, 0));
}

TEST(EvaluatorTest, SortCarriesOtherArraysAlongAndIsStable) {
  const std::string text = R"(
descending { a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3)
  ROOT c = pred[] compare(a, b), direction=GT }
ENTRY e { x = f32[4,2] parameter(0) n = s32[4,2] iota(), iota_dimension=0
  ROOT r = (f32[4,2], s32[4,2]) sort(x, n), dimensions={0}, is_stable=true, to_apply=descending })";
  const Value value = value_of(text, {{1, 5, 3, 5, 2, 6, 3, 7}});
  EXPECT_THAT(value.elements()[0].numbers(), ElementsAre(3, 7, 3, 6, 2, 5, 1, 5));
  EXPECT_THAT(value.elements()[1].numbers(), ElementsAre(1, 3, 3, 2, 2, 0, 0, 1));
}

TEST(EvaluatorTest, TopKSortsFromTheLargest) {
  const Value value = value_of(
      "ENTRY e { x = f32[2,3] parameter(0) "
      "ROOT r = (f32[2,2], s32[2,2]) topk(x), k=2, largest=true }",
      {{1, 3, 2, 5, 4, 5}});
  EXPECT_THAT(value.elements()[0].numbers(), ElementsAre(3, 2, 5, 5));
  EXPECT_THAT(value.elements()[1].numbers(), ElementsAre(1, 2, 0, 2));
}

TEST(EvaluatorTest, DotSumsOverAnyDimensions) {
  // Batch over dimension 1 of x and 0 of y, products over x's 0 and y's 2.
  EXPECT_THAT(value_of_one("f32[2,1,2] dot(x, y), lhs_batch_dims={1}, rhs_batch_dims={0}, "
                           "lhs_contracting_dims={0}, rhs_contracting_dims={2}",
                           {"f32[2,2,1]", "f32[2,2,2]"}, {{1, 2, 3, 4}, {1, 2, 3, 4, 5, 6, 7, 8}}),
              // batch 0: x = [1 3], rows [1 2] [3 4]; batch 1: x = [2 4], rows [5 6] [7 8]
              ElementsAre(7, 15, 34, 46));
}

TEST(EvaluatorTest, IntegerDotsWrap) {
  EXPECT_THAT(value_of_one("s8[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
                           {"s8[2]", "s8[2]"}, {{100, 100}, {2, 1}}),
              ElementsAre(44));
}

TEST(EvaluatorTest, LongDotsAgreeWithAPlainLoop) {
  constexpr int64_t kM = 5, kN = 7, kK = 200;
  testing::RandomChoices choices(1);
  Values x(kM * kK), y(kK * kN), expected(kM * kN);
  for (double& v : x) v = static_cast<double>(choices.integer(-9, 9));
  for (double& v : y) v = static_cast<double>(choices.integer(-9, 9));
  for (int64_t m = 0; m < kM; ++m) {
    for (int64_t n = 0; n < kN; ++n) {
      for (int64_t k = 0; k < kK; ++k) expected[m * kN + n] += x[m * kK + k] * y[k * kN + n];
    }
  }
  EXPECT_EQ(value_of_one("f32[5,7] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                         {"f32[5,200]", "f32[200,7]"}, {x, y}),
            expected);
}

// Every family of convolutions beside the definition, one slow loop.
TEST(EvaluatorTest, ConvolutionsAgreeWithTheirDefinition) {
  for (const testing::NodeFamily& family : testing::convolution_families()) {
    testing::RandomChoices choices(5);
    for (int draw = 0; draw < 200; ++draw) {
      const testing::RandomNode node = family.make(choices);
      const Values expected =
          testing::reference_convolution(*node.node, node.arguments[0], node.arguments[1]);
      const Values actual =
          evaluate(*node.node, {node.arguments.begin(), node.arguments.end()}).numbers();
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(actual[i], expected[i], 1e-12) << family.name << ", draw " << draw;
      }
    }
  }
}

void expect_near(const Values& actual, const Values& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-14) << i;
}

TEST(EvaluatorTest, FourierTransformsKeepRealPartsInFront) {
  // Of 1 2 3 4: 10, -2+2i, -2, -2-2i.
  const Values spectrum = {10, -2, -2, -2, 0, 2, 0, -2};
  expect_near(value_of_one("c64[4] fft(x), fft_type=FFT, fft_length={4}", {"c64[4]"},
                           {{1, 2, 3, 4, 0, 0, 0, 0}}),
              spectrum);
  expect_near(value_of_one("c64[4] fft(x), fft_type=IFFT, fft_length={4}", {"c64[4]"}, {spectrum}),
              {1, 2, 3, 4, 0, 0, 0, 0});
  expect_near(
      value_of_one("c64[3] fft(x), fft_type=RFFT, fft_length={4}", {"f32[4]"}, {{1, 2, 3, 4}}),
      {10, -2, -2, 0, 2, 0});
  expect_near(value_of_one("f32[4] fft(x), fft_type=IRFFT, fft_length={4}", {"c64[3]"},
                           {{10, -2, -2, 0, 2, 0}}),
              {1, 2, 3, 4});
  // Two dimensions: rows, then columns of 1 2 / 3 4.
  expect_near(value_of_one("c64[2,2] fft(x), fft_type=RFFT, fft_length={2,2}", {"f32[2,2]"},
                           {{1, 2, 3, 4}}),
              {10, -2, -4, 0, 0, 0, 0, 0});
  EXPECT_THAT(value_of("ENTRY e { x = f32[1] parameter(0) y = f32[1] parameter(1) "
                       "c = c64[1] complex(x, y) ROOT r = f32[1] imag(c) }",
                       {{1}, {2}})
                  .numbers(),
              ElementsAre(2));
}

TEST(EvaluatorTest, LoopsBranchesAndCallsRun) {
  const std::string text = R"(
twice { a = f32[] parameter(0) ROOT b = f32[] add(a, a) }
body { s = (s32[], f32[]) parameter(0) n = s32[] get-tuple-element(s), index=0
  v = f32[] get-tuple-element(s), index=1 one = s32[] constant(1) m = s32[] add(n, one)
  w = f32[] call(v), to_apply=twice ROOT t = (s32[], f32[]) tuple(m, w) }
condition { s = (s32[], f32[]) parameter(0) n = s32[] get-tuple-element(s), index=0
  five = s32[] constant(5) ROOT c = pred[] compare(n, five), direction=LT }
negative { a = f32[] parameter(0) ROOT b = f32[] negate(a) }
ENTRY e { which = s32[] parameter(0) zero = s32[] constant(0) one = f32[] constant(1)
  start = (s32[], f32[]) tuple(zero, one)
  loop = (s32[], f32[]) while(start), condition=condition, body=body
  v = f32[] get-tuple-element(loop), index=1
  ROOT r = f32[] conditional(which, v, v), branch_computations={twice, negative} })";
  EXPECT_THAT(value_of(text, {{0}}).numbers(), ElementsAre(64));
  EXPECT_THAT(value_of(text, {{1}}).numbers(), ElementsAre(-32));
  EXPECT_THAT(value_of(text, {{-4}}).numbers(), ElementsAre(-32));  // Outside: the last branch.
}

TEST(EvaluatorTest, EmptyArraysAndScalarsHaveValues) {
  EXPECT_TRUE(value_of_one("f32[0,2] add(x, x)", {"f32[0,2]"}, {Values{}}).empty());
  EXPECT_THAT(value_of_one("f32[2,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                           {"f32[2,0]", "f32[0,2]"}, {Values{}, Values{}}),
              ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(value_of_one("f32[] transpose(x), dimensions={}", {"f32[]"}, {{3}}), ElementsAre(3));
}

TEST(EvaluatorTest, RefusalsNameTheInstruction) {
  EXPECT_THAT(error_of("ENTRY e { x = c64[2] parameter(0) ROOT r = c64[2] add(x, x) }"),
              HasSubstr("'r' (add): no evaluation of complex numbers here"));
  EXPECT_THAT(
      error_of("ENTRY e { ROOT r = f32[2] custom-call(), custom_call_target=\"unheard_of\" }"),
      HasSubstr("'r' (custom-call): custom call 'unheard_of' is unknown"));
  EXPECT_THAT(error_of("ENTRY e { a = f32[] constant(0) ROOT r = f32[2] rng(a, a), "
                       "distribution=rng_uniform }"),
              HasSubstr("'r' (rng): no evaluation of this operation"));
  const std::string identity = "ENTRY e { ROOT x = f32[2] parameter(0) }";
  EXPECT_THAT(error_of(identity), HasSubstr("'x' (parameter): there are only 0 arguments"));
  EXPECT_THAT(error_of(identity, {{1, 2, 3}}), HasSubstr("the argument does not fit shape f32[2]"));
}

TEST(EvaluatorTest, WrongShapesAreNotComputed) {
  // The text reader takes shapes on trust.
  EXPECT_THAT(error_of("ENTRY e { x = f32[2] parameter(0) ROOT r = f32[3] add(x, x) }", {{1, 2}}),
              HasSubstr("'r' (add): has shape f32[3], expected f32[2]"));
}

TEST(EvaluatorTest, EndlessWorkIsGivenUp) {
  const std::string endless = R"(
body { ROOT s = f32[] parameter(0) }
condition { s = f32[] parameter(0) ROOT c = pred[] constant(true) }
ENTRY e { x = f32[] parameter(0) ROOT r = f32[] while(x), condition=condition, body=body })";
  EXPECT_THROW(value_of(endless, {{1}}, {.max_work = 1e4}), EvaluatorLimitError);
  const std::string large =
      "ENTRY e { x = f32[] parameter(0) ROOT r = f32[1000000,1000000] "
      "broadcast(x), dimensions={} }";
  EXPECT_THROW(value_of(large, {{1}}), EvaluatorLimitError);
}

}  // namespace
}  // namespace lagom::hlo

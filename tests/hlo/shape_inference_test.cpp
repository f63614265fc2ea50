#include "lagom/hlo/shape_inference.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>

#include "lagom/hlo/text_reader.h"

namespace lagom::hlo {
namespace {

constexpr char kComputations[] = R"(
add2 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ge2 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
}
add4 {
  a = f32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = s32[] parameter(3)
  e = f32[] add(a, c)
  f = s32[] add(b, d)
  ROOT t = (f32[], s32[]) tuple(e, f)
}
sort4 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT lt = pred[] compare(a, b), direction=LT
}
twice {
  x = f32[4] parameter(0)
  ROOT y = f32[4] add(x, x)
}
other {
  x = f32[4] parameter(0)
  ROOT y = f32[4] negate(x)
}
larger {
  x = f32[4] parameter(0)
  ROOT y = f32[5] pad(x, x), padding=0_1
}
body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[4] get-tuple-element(s), index=1
  ROOT t = (s32[], f32[4]) tuple(i, v)
}
condition {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  ROOT c = pred[] compare(i, i), direction=LT
}
)";

// The root of the lines decides; its own shape is what the line says.
std::string inferred(const std::string& lines) {
  const Module module = read_hlo_text(
      std::string("HloModule m\n") + kComputations + "ENTRY main {\n" + lines + "\n}\n", "test");
  return infer_shape(*module.entry()->root()).to_string(/*with_layout=*/false);
}

struct Case {
  const char* name;
  const char* lines;
  const char* expected;  // A shape, or words of the message.
};

void PrintTo(const Case& test, std::ostream* out) {
  *out << test.name;
}
std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

class ShapeOf : public ::testing::TestWithParam<Case> {};

TEST_P(ShapeOf, IsInferred) {
  EXPECT_EQ(inferred(GetParam().lines), GetParam().expected);
}

// Roots have the wrong shape f32[] where nothing of it is asked.
INSTANTIATE_TEST_SUITE_P(
    Elementwise, ShapeOf,
    ::testing::Values(
        Case{"Unary", "x = f32[2,3] parameter(0)\n r = f32[] tanh(x)", "f32[2,3]"},
        Case{"Binary", "x = s8[2] parameter(0)\n r = f32[] add(x, x)", "s8[2]"},
        Case{"MixedPrecision",
             "x = bf16[2] parameter(0)\n y = f32[2] parameter(1)\n r = f32[] add(x, y)", "f32[2]"},
        Case{"Compare", "x = f32[5] parameter(0)\n r = f32[] compare(x, x), direction=LT",
             "pred[5]"},
        Case{"AbsOfComplex", "x = c64[5] parameter(0)\n r = f32[] abs(x)", "f32[5]"},
        Case{"RealOfComplex", "x = c128[5] parameter(0)\n r = f32[] real(x)", "f64[5]"},
        Case{"Complex", "x = f64[5] parameter(0)\n r = f32[] complex(x, x)", "c128[5]"},
        Case{"IsFinite", "x = f16[5] parameter(0)\n r = f32[] is-finite(x)", "pred[5]"},
        Case{"Convert", "x = f32[5] parameter(0)\n r = s64[] convert(x)", "s64[5]"},
        Case{"SelectByScalar",
             "p = pred[] parameter(0)\n x = f32[5] parameter(1)\n r = f32[] select(p, x, x)",
             "f32[5]"},
        Case{"ClampByScalars",
             "s = f32[] parameter(0)\n x = f32[5] parameter(1)\n r = f32[] clamp(s, x, s)",
             "f32[5]"},
        Case{"CopyOfTuple",
             "x = f32[5] parameter(0)\n t = (f32[5]) tuple(x)\n r = (f32[5]) copy(t)", "(f32[5])"},
        Case{"BitcastConvertToWider", "x = u8[3,4] parameter(0)\n r = f32[] bitcast-convert(x)",
             "f32[3]"},
        Case{"BitcastConvertToNarrower", "x = f32[3] parameter(0)\n r = u16[] bitcast-convert(x)",
             "u16[3,2]"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Movement, ShapeOf,
    ::testing::Values(
        Case{"Broadcast", "x = f32[3] parameter(0)\n r = f32[2,3] broadcast(x), dimensions={1}",
             "f32[2,3]"},
        Case{"Reshape", "x = f32[6] parameter(0)\n r = f32[2,3] reshape(x)", "f32[2,3]"},
        Case{"Transpose",
             "x = f32[2,3,5] parameter(0)\n r = f32[] transpose(x), dimensions={2,0,1}",
             "f32[5,2,3]"},
        // Elements 1, 3, 5 of 0..6.
        Case{"Slice", "x = f32[7,4] parameter(0)\n r = f32[] slice(x), slice={[1:7:2],[0:3]}",
             "f32[3,3]"},
        // 3 elements with 2 between each: 7; -1 + 4 outside.
        Case{"PadWithNegativeAndInterior",
             "x = f32[3] parameter(0)\n z = f32[] parameter(1)\n r = f32[] pad(x, z), "
             "padding=-1_4_2",
             "f32[10]"},
        Case{"PadBelowZero",
             "x = f32[3] parameter(0)\n z = f32[] parameter(1)\n r = f32[] pad(x, z), "
             "padding=-3_-2",
             "f32[0]"},
        Case{"Concatenate",
             "x = f32[2,3] parameter(0)\n y = f32[2,4] parameter(1)\n r = f32[] concatenate(x, "
             "y, x), dimensions={1}",
             "f32[2,10]"},
        Case{"Reverse", "x = f32[2,3] parameter(0)\n r = f32[] reverse(x), dimensions={0}",
             "f32[2,3]"},
        Case{"Iota", "r = s32[4,2] iota(), iota_dimension=1", "s32[4,2]"},
        Case{"DynamicSlice",
             "x = f32[9,8] parameter(0)\n i = s32[] parameter(1)\n r = f32[] dynamic-slice(x, i, "
             "i), dynamic_slice_sizes={1,4}",
             "f32[1,4]"},
        Case{"DynamicUpdateSlice",
             "x = f32[9,8] parameter(0)\n u = f32[2,3] parameter(1)\n i = s32[] parameter(2)\n r = "
             "f32[] dynamic-update-slice(x, u, i, i)",
             "f32[9,8]"},
        // jnp.take(x, i, axis=1) of [10,20,30] by [5]: offset dimensions 0 and 2.
        Case{"Gather",
             "x = f32[10,20,30] parameter(0)\n i = s32[5,1] parameter(1)\n r = f32[] gather(x, i), "
             "offset_dims={0,2}, collapsed_slice_dims={1}, start_index_map={1}, "
             "index_vector_dim=1, slice_sizes={10,1,30}",
             "f32[10,5,30]"},
        Case{"GatherWithBatching",
             "x = f32[4,20] parameter(0)\n i = s32[4,6,1] parameter(1)\n r = f32[] gather(x, i), "
             "offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, "
             "operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, "
             "slice_sizes={1,1}",
             "f32[4,6]"},
        Case{"Scatter",
             "x = f32[10,20] parameter(0)\n i = s32[3,1] parameter(1)\n u = f32[3,20] "
             "parameter(2)\n r = f32[] scatter(x, i, u), update_window_dims={1}, "
             "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
             "to_apply=add2",
             "f32[10,20]"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Contraction, ShapeOf,
    ::testing::Values(
        Case{"Dot",
             "x = f32[7,2,5] parameter(0)\n y = f32[7,5,3] parameter(1)\n r = f32[] dot(x, y), "
             "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, "
             "rhs_contracting_dims={1}",
             "f32[7,2,3]"},
        Case{"DotKeepsItsType",
             "x = s8[2,5] parameter(0)\n y = s8[5,3] parameter(1)\n r = s32[] dot(x, y), "
             "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
             "s32[2,3]"},
        // 8 padded by 1 and 1, kernel 3: 8; stride 2 over 8 + 0 + 1 - 3: 4.
        Case{"Convolution",
             "x = f32[2,8,8,3] parameter(0)\n k = f32[3,3,3,16] parameter(1)\n r = f32[] "
             "convolution(x, k), window={size=3x3 stride=1x2 pad=1_1x0_1}, "
             "dim_labels=b01f_01io->b01f",
             "f32[2,8,4,16]"},
        // Base (5 - 1) * 2 + 1 = 9, window (3 - 1) * 3 + 1 = 7: 9 + 1 - 7 + 1 = 4.
        Case{"ConvolutionDilated",
             "x = f32[1,5,4] parameter(0)\n k = f32[3,2,6] parameter(1)\n r = f32[] convolution(x, "
             "k), window={size=3 pad=0_1 lhs_dilate=2 rhs_dilate=3}, dim_labels=b0f_0io->bf0, "
             "feature_group_count=2",
             "f32[1,6,4]"},
        Case{"ConvolutionBatchGroups",
             "x = f32[8,5,4] parameter(0)\n k = f32[5,4,8] parameter(1)\n r = f32[] convolution(x, "
             "k), window={size=5 pad=1_1}, dim_labels=b0f_0io->0bf, batch_group_count=4",
             "f32[3,2,8]"},
        Case{"Reduce",
             "x = f32[2,3,5] parameter(0)\n z = f32[] parameter(1)\n r = f32[] reduce(x, z), "
             "dimensions={0,2}, to_apply=add2",
             "f32[3]"},
        Case{"ReduceOfTwo",
             "x = f32[2,3] parameter(0)\n y = s32[2,3] parameter(1)\n z = f32[] parameter(2)\n w = "
             "s32[] parameter(3)\n r = (f32[2], s32[2]) reduce(x, y, z, w), dimensions={1}, "
             "to_apply=add4",
             "(f32[2], s32[2])"},
        Case{"ReduceWindow",
             "x = f32[2,9] parameter(0)\n z = f32[] parameter(1)\n r = f32[] reduce-window(x, z), "
             "window={size=1x3 stride=1x2}, to_apply=add2",
             "f32[2,4]"},
        Case{"SelectAndScatter",
             "x = f32[8] parameter(0)\n s = f32[4] parameter(1)\n z = f32[] parameter(2)\n r = "
             "f32[] select-and-scatter(x, s, z), window={size=2 stride=2}, select=ge2, "
             "scatter=add2",
             "f32[8]"},
        Case{"Sort",
             "x = f32[8] parameter(0)\n y = s32[8] parameter(1)\n r = (f32[8], s32[8]) sort(x, y), "
             "dimensions={0}, to_apply=sort4",
             "(f32[8], s32[8])"},
        Case{"Map", "x = f32[8] parameter(0)\n r = f32[] map(x, x), dimensions={0}, to_apply=ge2",
             "pred[8]"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Others, ShapeOf,
    ::testing::Values(
        Case{"Call", "x = f32[4] parameter(0)\n r = f32[] call(x), to_apply=twice", "f32[4]"},
        Case{"While",
             "x = (s32[], f32[4]) parameter(0)\n r = (s32[], f32[4]) while(x), "
             "condition=condition, body=body",
             "(s32[], f32[4])"},
        Case{"Conditional",
             "p = pred[] parameter(0)\n x = f32[4] parameter(1)\n r = f32[] conditional(p, x, x), "
             "true_computation=twice, false_computation=other",
             "f32[4]"},
        Case{"RealFft",
             "x = f32[2,8] parameter(0)\n r = f32[] fft(x), fft_type=RFFT, fft_length={8}",
             "c64[2,5]"},
        Case{"InverseRealFft",
             "x = c64[2,5] parameter(0)\n r = f32[] fft(x), fft_type=IRFFT, fft_length={8}",
             "f32[2,8]"},
        Case{"TriangularSolve",
             "a = f32[2,3,3] parameter(0)\n b = f32[2,3,7] parameter(1)\n r = f32[] "
             "triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
             "f32[2,3,7]"},
        Case{"BatchNormTraining",
             "x = f32[2,3,5] parameter(0)\n s = f32[5] parameter(1)\n r = (f32[2,3,5], f32[5], "
             "f32[5]) batch-norm-training(x, s, s), epsilon=0.001, feature_index=2",
             "(f32[2,3,5], f32[5], f32[5])"},
        Case{"TopK",
             "x = f32[2,9] parameter(0)\n r = (f32[2,3], s32[2,3]) topk(x), k=3, largest=true",
             "(f32[2,3], s32[2,3])"},
        Case{"GetDimensionSize",
             "x = f32[2,9] parameter(0)\n r = f32[] get-dimension-size(x), dimensions={1}",
             "s32[]"},
        Case{"AllReduce", "x = f32[4] parameter(0)\n r = f32[] all-reduce(x), to_apply=add2",
             "f32[4]"},
        Case{"CustomCallIsFree",
             "x = f32[4] parameter(0)\n r = s8[1,2] custom-call(x), custom_call_target=\"f\"",
             "s8[1,2]"}),
    case_name);

class ShapeError : public ::testing::TestWithParam<Case> {};

TEST_P(ShapeError, SaysWhatWasFound) {
  try {
    const std::string shape = inferred(GetParam().lines);
    FAIL() << "inferred " << shape;
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().expected), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ShapeError,
    ::testing::Values(
        Case{"BinaryOfDifferentDims",
             "x = f32[2] parameter(0)\n y = f32[3] parameter(1)\n r = f32[] add(x, y)",
             "different dimensions f32[2] and f32[3]"},
        Case{"BinaryOfDifferentTypes",
             "x = f32[2] parameter(0)\n y = s32[2] parameter(1)\n r = f32[] add(x, y)",
             "f32 and s32"},
        Case{"AndOfFloats", "x = f32[2] parameter(0)\n r = f32[] and(x, x)", "integer or pred"},
        Case{"TanhOfIntegers", "x = s32[2] parameter(0)\n r = f32[] tanh(x)", "floating"},
        Case{"SelectByNumbers", "x = f32[2] parameter(0)\n r = f32[] select(x, x, x)",
             "expected a pred"},
        Case{"BroadcastOfOtherSize",
             "x = f32[3] parameter(0)\n r = f32[2,4] broadcast(x), dimensions={1}", "another size"},
        Case{"BroadcastOutsideRank",
             "x = f32[3] parameter(0)\n r = f32[3] broadcast(x), dimensions={7}",
             "dimension 7 is outside rank 1"},
        Case{"ReshapeOfOtherCount", "x = f32[6] parameter(0)\n r = f32[2,4] reshape(x)",
             "number of elements"},
        Case{"TransposeTwiceTheSame",
             "x = f32[2,3] parameter(0)\n r = f32[] transpose(x), dimensions={1,1}", "comes twice"},
        Case{"SlicePastTheEnd", "x = f32[7] parameter(0)\n r = f32[] slice(x), slice={[1:8]}",
             "[1:8:1] does not fit dimension 0"},
        Case{"ConcatenateOfOtherSize",
             "x = f32[2,3] parameter(0)\n y = f32[3,3] parameter(1)\n r = f32[] concatenate(x, y), "
             "dimensions={1}",
             "operand 1 is f32[3,3]"},
        Case{"DotOfOtherDepth",
             "x = f32[2,5] parameter(0)\n y = f32[4,3] parameter(1)\n r = f32[] dot(x, y), "
             "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
             "contracting dimensions 1 of f32[2,5] and 0 of f32[4,3] differ"},
        Case{"ConvolutionOfOtherFeatures",
             "x = f32[2,8,3] parameter(0)\n k = f32[3,4,16] parameter(1)\n r = f32[] "
             "convolution(x, k), window={size=3}, dim_labels=b0f_0io->b0f",
             "3 input features in 1 groups do not fit the kernel's 4"},
        Case{"ConvolutionOfOtherWindow",
             "x = f32[2,8,3] parameter(0)\n k = f32[3,3,16] parameter(1)\n r = f32[] "
             "convolution(x, k), window={size=5}, dim_labels=b0f_0io->b0f",
             "window size 5"},
        Case{"ReduceByTernary",
             "x = f32[2] parameter(0)\n z = f32[] parameter(1)\n r = f32[] reduce(x, z), "
             "dimensions={0}, to_apply=add4",
             "takes 4 parameters, expected 2"},
        Case{"ReduceOutsideRank",
             "x = f32[2] parameter(0)\n z = f32[] parameter(1)\n r = f32[] reduce(x, z), "
             "dimensions={1}, to_apply=add2",
             "outside rank 1"},
        Case{"ElementOutsideTuple",
             "x = (f32[2], s32[]) parameter(0)\n r = f32[] get-tuple-element(x), index=2",
             "no element 2"},
        Case{"DynamicSliceOfTooMuch",
             "x = f32[9] parameter(0)\n i = s32[] parameter(1)\n r = f32[] dynamic-slice(x, i), "
             "dynamic_slice_sizes={10}",
             "do not fit"},
        Case{"GatherOfTooMuch",
             "x = f32[10] parameter(0)\n i = s32[5,1] parameter(1)\n r = f32[] gather(x, i), "
             "offset_dims={1}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, "
             "slice_sizes={11}",
             "slice sizes {11} do not fit"},
        Case{"ScatterOfOtherUpdates",
             "x = f32[10,20] parameter(0)\n i = s32[3,1] parameter(1)\n u = f32[4,20] "
             "parameter(2)\n r = f32[] scatter(x, i, u), update_window_dims={1}, "
             "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
             "to_apply=add2",
             "differs from the indices"},
        Case{"BranchesOfOtherShapes",
             "p = pred[] parameter(0)\n x = f32[4] parameter(1)\n r = f32[] conditional(p, x, x), "
             "true_computation=twice, false_computation=larger",
             "'twice' and 'larger' give f32[4] and f32[5]"},
        Case{"FftOfReal",
             "x = f32[8] parameter(0)\n r = f32[] fft(x), fft_type=FFT, fft_length={8}", "FFT of"},
        Case{"CholeskyOfOblong", "x = f32[3,4] parameter(0)\n r = f32[] cholesky(x), lower=true",
             "square"}),
    case_name);

TEST(ShapeInferenceTest, OperandCountIsChecked) {
  Instruction add;
  add.opcode = Opcode::kAdd;

  EXPECT_THROW(infer_shape(add), std::invalid_argument);
}

TEST(WindowTest, SizeCountsWholeStepsOnly) {
  EXPECT_EQ(window_output_size(10, {.size = 3, .stride = 2}), 4);  // 0-2, 2-4, 4-6, 6-8
  EXPECT_EQ(window_output_size(2, {.size = 3}), 0);
  EXPECT_EQ(window_output_size(0, {.size = 3, .pad_low = 2, .pad_high = 2}), 2);
}

TEST(WindowTest, ImpossibleValuesThrow) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_THROW(window_output_size(4, {.size = 1, .stride = 0}), std::invalid_argument);
  EXPECT_THROW(window_output_size(4, {.size = 0}), std::invalid_argument);
  EXPECT_THROW(window_output_size(4, {.size = 1, .base_dilation = kMax}), std::invalid_argument);
  EXPECT_THROW(padded_size(4, {.interior = -1}), std::invalid_argument);
  EXPECT_THROW(padded_size(4, {.low = kMax, .high = kMax, .interior = kMax}),
               std::invalid_argument);
}

}  // namespace
}  // namespace lagom::hlo

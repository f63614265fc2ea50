#include "lagom/measure/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

namespace lagom::measure {
namespace {

using enum PrimitiveType;
using ::testing::HasSubstr;

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

std::string encode(PrimitiveType type, const std::vector<double>& values) {
  const auto width = static_cast<size_t>(number_format(type).bytes);
  std::string bytes(values.size() * width, '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    encode_number(type, values[i], bytes.data() + i * width);
  }
  return bytes;
}

OutputComparison compare(PrimitiveType type, const std::vector<double>& reference,
                         const std::vector<double>& candidate) {
  return compare_output(type, encode(type, reference), encode(type, candidate));
}

TEST(CompareTest, EqualOutputsHaveNoError) {
  for (const PrimitiveType type : {kPred, kS8, kU64, kF16, kBF16, kF32, kF64, kF8E4M3FN}) {
    const OutputComparison comparison = compare(type, {0, 1, 1, 0}, {0, 1, 1, 0});
    EXPECT_EQ(comparison.count, 4);
    EXPECT_EQ(comparison.mismatches, 0);
    EXPECT_EQ(comparison.relative_error(), 0);
    EXPECT_EQ(judge_output(comparison, {}), "");
  }
}

TEST(CompareTest, ErrorIsRelativeToTheLargestReference) {
  const OutputComparison comparison = compare(kF32, {1, -8, 0.5}, {1.5, -8, 0.25});

  EXPECT_EQ(comparison.max_abs_difference, 0.5);
  EXPECT_EQ(comparison.max_abs_reference, 8);
  EXPECT_EQ(comparison.relative_error(), 0.0625);
  EXPECT_EQ(comparison.worst_index, 0);
  EXPECT_EQ(comparison.mismatches, 2);
}

TEST(CompareTest, LongOutputsAreComparedToTheEnd) {
  std::vector<double> reference(5000, 1.0);
  std::vector<double> candidate = reference;
  candidate[4999] = 2;

  const OutputComparison comparison = compare(kF32, reference, candidate);

  EXPECT_EQ(comparison.worst_index, 4999);
  EXPECT_EQ(comparison.mismatches, 1);
}

TEST(CompareTest, NanMatchesNanOnly) {
  EXPECT_EQ(compare(kF32, {kNan, 1}, {kNan, 1}).mismatches, 0);
  const OutputComparison comparison = compare(kF32, {kNan, 1, 2}, {1, kNan, 2});
  EXPECT_EQ(comparison.nan_mismatches, 2);
  EXPECT_THAT(judge_output(comparison, {.relative_error = 1}),
              HasSubstr("NaN on one side only in 2 of 3"));
}

TEST(CompareTest, InfinitiesMustAgreeInSign) {
  EXPECT_EQ(compare(kF32, {kInfinity}, {kInfinity}).mismatches, 0);
  EXPECT_EQ(compare(kF32, {kInfinity}, {-kInfinity}).infinity_mismatches, 1);
  EXPECT_THAT(judge_output(compare(kF32, {1}, {kInfinity}), {.relative_error = 1}),
              HasSubstr("infinity on one side only"));
}

TEST(CompareTest, ZeroReferenceGivesAnInfiniteError) {
  EXPECT_EQ(compare(kF32, {0, 0}, {0, 1e-20}).relative_error(), kInfinity);
}

TEST(CompareTest, ComplexValuesCountTwice) {
  const std::string reference = encode(kF32, {1, 2, 3, 4});
  const std::string candidate = encode(kF32, {1, 2, 3, 5});

  const OutputComparison comparison = compare_output(kC64, reference, candidate);

  EXPECT_EQ(comparison.count, 4);
  EXPECT_EQ(comparison.max_abs_difference, 1);
  EXPECT_EQ(comparison.worst_index, 3);
}

TEST(CompareTest, SizesMustAgree) {
  EXPECT_THROW(compare_output(kF32, "1234", "12345678"), std::invalid_argument);
}

TEST(ToleranceTest, FloorsGoByType) {
  EXPECT_EQ(output_tolerance(kF64, {}).relative_error, 1e-9);
  EXPECT_EQ(output_tolerance(kF32, {}).relative_error, 1e-5);
  EXPECT_EQ(output_tolerance(kBF16, {}).relative_error, 1.0 / 64);  // 4 * 2^-8
  EXPECT_EQ(output_tolerance(kF16, {}).relative_error, 1.0 / 512);  // 4 * 2^-11
  EXPECT_EQ(output_tolerance(kS32, {}).mismatch_share, 0);
}

TEST(ToleranceTest, SensitiveProgramsGetMoreRoomUpToALimit) {
  OutputComparison moved = compare(kF32, {1}, {1.001});
  EXPECT_NEAR(output_tolerance(kF32, moved).relative_error, 0.004, 1e-5);
  moved = compare(kF32, {1}, {1.5});
  EXPECT_EQ(output_tolerance(kF32, moved).relative_error, 0.05);
}

TEST(ToleranceTest, IntegersAreExactUnlessTheProgramItselfFlipsThem) {
  const OutputComparison wrong = compare(kS32, {1, 2, 3, 4}, {1, 2, 3, 5});
  EXPECT_THAT(judge_output(wrong, output_tolerance(kS32, {})),
              HasSubstr("1 of 4 whole numbers differ, by up to 1 at element 3"));

  const OutputComparison flips = compare(kS32, {1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4, 5, 6, 7, 9});
  EXPECT_EQ(output_tolerance(kS32, flips).mismatch_share, 0.5);
  EXPECT_EQ(judge_output(wrong, output_tolerance(kS32, flips)), "");
}

TEST(ToleranceTest, JudgementNamesTheElementAndTheLimit) {
  EXPECT_EQ(judge_output(compare(kF32, {1, 2}, {1, 2.5}), {.relative_error = 1e-5}),
            "differs by 0.5 (relative 0.25, allowed 1e-05) at element 1");
}

TEST(OutputStatisticsTest, CountsWhatIsThere) {
  const OutputStatistics statistics =
      output_statistics(kF32, encode(kF32, {1, -3, 0, kNan, kInfinity, 1e-40}));

  EXPECT_EQ(statistics.count, 6);
  EXPECT_EQ(statistics.min, -3);
  EXPECT_EQ(statistics.max, 1);
  EXPECT_EQ(statistics.max_abs, 3);
  EXPECT_NEAR(statistics.mean, -0.5, 1e-12);  // (1 - 3 + 0 + 1e-40) / 4
  EXPECT_EQ(statistics.num_nan, 1);
  EXPECT_EQ(statistics.num_infinite, 1);
  EXPECT_EQ(statistics.num_denormal, 1);
  EXPECT_EQ(statistics.num_zero, 1);
}

TEST(OutputStatisticsTest, EmptyOutputIsFine) {
  const OutputStatistics statistics = output_statistics(kF32, "");
  EXPECT_EQ(statistics.count, 0);
  EXPECT_EQ(statistics.mean, 0);
}

}  // namespace
}  // namespace lagom::measure

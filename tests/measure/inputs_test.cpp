#include "lagom/measure/inputs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <stdexcept>

namespace lagom::measure {
namespace {

using enum PrimitiveType;

std::vector<double> values_of(PrimitiveType type, const std::string& bytes) {
  const auto width = static_cast<size_t>(number_format(type).bytes);
  std::vector<double> values;
  for (size_t i = 0; i < bytes.size(); i += width) {
    values.push_back(decode_number(type, bytes.data() + i));
  }
  return values;
}

struct Moments {
  double mean;
  double deviation;
};

Moments moments_of(const std::vector<double>& values) {
  double sum = 0;
  double squares = 0;
  for (const double v : values) {
    sum += v;
    squares += v * v;
  }
  const double n = static_cast<double>(values.size());
  return {sum / n, std::sqrt(squares / n - sum / n * sum / n)};
}

TEST(InputsTest, ActivationsAreStandardNormal) {
  for (const PrimitiveType type : {kF16, kBF16, kF32, kF64}) {
    const InputSpec spec{.element_type = type, .dimensions = {100, 1000}};
    const std::vector<double> values = values_of(type, make_input(spec, 0, {.seed = 3}));
    const Moments moments = moments_of(values);
    EXPECT_NEAR(moments.mean, 0, 0.01);
    EXPECT_NEAR(moments.deviation, 1, 0.01);
    // The share beyond two deviations is 4.55 %.
    double beyond = 0;
    for (const double v : values) beyond += std::abs(v) > 2 ? 1 : 0;
    EXPECT_NEAR(beyond / 1e5, 0.0455, 0.003);
  }
}

TEST(InputsTest, WeightsShrinkWithFanIn) {
  const InputSpec spec{.dimensions = {100, 1000}, .role = InputRole::kWeight, .fan_in = 50};

  EXPECT_NEAR(moments_of(values_of(kF32, make_input(spec, 0, {}))).deviation, 0.2, 0.002);
}

TEST(InputsTest, PositiveValuesLieAroundOne) {
  const InputSpec spec{.dimensions = {10000}, .role = InputRole::kPositive};
  for (const double v : values_of(kF32, make_input(spec, 0, {}))) {
    ASSERT_GE(v, 0.5);
    ASSERT_LE(v, 1.5);
  }
}

TEST(InputsTest, ScaleMultiplies) {
  const InputSpec one{.dimensions = {100}};
  InputSpec half = one;
  half.scale = 0.5;
  const std::vector<double> a = values_of(kF32, make_input(one, 2, {}));
  const std::vector<double> b = values_of(kF32, make_input(half, 2, {}));
  for (size_t i = 0; i < a.size(); ++i) EXPECT_FLOAT_EQ(b[i], a[i] / 2);
}

TEST(InputsTest, IndicesCoverTheirRangeAndNothingElse) {
  for (const PrimitiveType type : {kS8, kS16, kS32, kS64, kU8, kU16, kU32, kU64, kS4, kU4}) {
    const InputSpec spec{.element_type = type,
                         .dimensions = {1000},
                         .role = InputRole::kIndex,
                         .int_low = 2,
                         .int_high = 5};
    const std::vector<double> values = values_of(type, make_input(spec, 0, {}));
    EXPECT_EQ(std::set<double>(values.begin(), values.end()), (std::set<double>{2, 3, 4, 5}))
        << number_format(type).name;
  }
}

TEST(InputsTest, NegativeIndicesKeepTheirSign) {
  const InputSpec spec{.element_type = kS64,
                       .dimensions = {100},
                       .role = InputRole::kIndex,
                       .int_low = -3,
                       .int_high = -3};
  for (const double v : values_of(kS64, make_input(spec, 0, {}))) ASSERT_EQ(v, -3);
}

TEST(InputsTest, WholeRangeOfSixtyFourBitsIsAllowed) {
  const InputSpec spec{.element_type = kS64,
                       .dimensions = {100},
                       .role = InputRole::kIndex,
                       .int_low = INT64_MIN,
                       .int_high = INT64_MAX};
  const std::vector<double> values = values_of(kS64, make_input(spec, 0, {}));
  EXPECT_GT(std::set<double>(values.begin(), values.end()).size(), 90u);
}

TEST(InputsTest, PredicatesAreBothAndZerosAreZero) {
  const InputSpec pred{.element_type = kPred, .dimensions = {1000}, .role = InputRole::kPred};
  EXPECT_NEAR(moments_of(values_of(kPred, make_input(pred, 0, {}))).mean, 0.5, 0.1);

  for (const PrimitiveType type : {kPred, kS32, kF32, kBF16, kC64}) {
    const InputSpec zeros{.element_type = type, .dimensions = {7}, .role = InputRole::kZeros};
    const std::string bytes = make_input(zeros, 0, {});
    EXPECT_EQ(bytes, std::string(bytes.size(), '\0'));
  }
}

TEST(InputsTest, ComplexPartsAreBothDrawn) {
  const InputSpec spec{.element_type = kC64, .dimensions = {1000}};
  const std::string bytes = make_input(spec, 0, {});
  const std::vector<double> parts = values_of(kF32, bytes);
  std::vector<double> real;
  std::vector<double> imaginary;
  double product = 0;
  for (size_t i = 0; i < parts.size(); i += 2) {
    real.push_back(parts[i]);
    imaginary.push_back(parts[i + 1]);
    product += parts[i] * parts[i + 1];
  }
  EXPECT_NEAR(moments_of(real).deviation, 1, 0.1);
  EXPECT_NEAR(moments_of(imaginary).deviation, 1, 0.1);
  EXPECT_NEAR(product / 1000, 0, 0.15);
}

TEST(InputsTest, SmallFloatsStayFinite) {
  for (const PrimitiveType type : {kF8E5M2, kF8E4M3, kF8E3M4, kF8E4M3FN, kF8E4M3B11FNUZ,
                                   kF8E5M2FNUZ, kF8E4M3FNUZ, kF4E2M1FN, kF8E8M0FNU}) {
    const InputSpec spec{.element_type = type, .dimensions = {5000}};
    for (const double v : values_of(type, make_input(spec, 0, {}))) ASSERT_TRUE(std::isfinite(v));
  }
}

TEST(InputsTest, SameSeedGivesSameValuesAndPrefixesAgree) {
  const InputSpec small{.dimensions = {10}};
  const InputSpec large{.dimensions = {20}};
  const std::string whole = make_input(large, 1, {.seed = 5});

  EXPECT_EQ(make_input(large, 1, {.seed = 5}), whole);
  EXPECT_EQ(make_input(small, 1, {.seed = 5}), whole.substr(0, 40));
  EXPECT_NE(make_input(large, 1, {.seed = 6}), whole);
  EXPECT_NE(make_input(large, 2, {.seed = 5}), whole);
}

TEST(InputsTest, PerturbationMovesEveryFloatByItsShare) {
  const InputSpec spec{.dimensions = {1000}};
  const std::vector<double> base = values_of(kF32, make_input(spec, 0, {}));
  const std::vector<double> moved = values_of(kF32, make_input(spec, 0, {.perturbation = 1e-5}));
  int up = 0;
  for (size_t i = 0; i < base.size(); ++i) {
    ASSERT_NEAR(std::abs(moved[i] / base[i] - 1), 1e-5, 2e-7);
    up += std::abs(moved[i]) > std::abs(base[i]) ? 1 : 0;
  }
  EXPECT_NEAR(up, 500, 80);
}

TEST(InputsTest, PerturbationOfBf16IsOneRoundingStep) {
  const InputSpec spec{.element_type = kBF16, .dimensions = {1000}};
  const std::vector<double> base = values_of(kBF16, make_input(spec, 0, {}));
  const std::vector<double> moved = values_of(kBF16, make_input(spec, 0, {.perturbation = 1e-6}));
  int changed = 0;
  for (size_t i = 0; i < base.size(); ++i) {
    ASSERT_NEAR(moved[i] / base[i], 1, 1.0 / 64);
    changed += moved[i] != base[i] ? 1 : 0;
  }
  EXPECT_GT(changed, 900);
}

TEST(InputsTest, PerturbationLeavesIntegersAlone) {
  const InputSpec spec{
      .element_type = kS32, .dimensions = {100}, .role = InputRole::kIndex, .int_high = 9};
  EXPECT_EQ(make_input(spec, 0, {}), make_input(spec, 0, {.perturbation = 0.1}));
}

TEST(InputsTest, EmptyArraysAndScalars) {
  EXPECT_EQ(make_input({.dimensions = {0, 5}}, 0, {}), "");
  EXPECT_EQ(make_input({.dimensions = {}}, 0, {}).size(), 4u);
  EXPECT_EQ(make_input({.element_type = kToken, .dimensions = {}}, 0, {}), "");
}

TEST(InputsTest, ImpossibleSpecsAreRefused) {
  EXPECT_THROW(make_input({.dimensions = {-1}}, 0, {}), std::invalid_argument);
  EXPECT_THROW((InputSpec{.dimensions = {int64_t{1} << 40, int64_t{1} << 40}}.size_bytes()),
               std::invalid_argument);
  EXPECT_THROW(
      make_input({.element_type = kS32, .dimensions = {1}, .int_low = 2, .int_high = 1}, 0, {}),
      std::invalid_argument);
  std::string room(3, '\0');
  EXPECT_THROW(fill_input({.dimensions = {1}}, 0, {}, room), std::invalid_argument);
}

TEST(InputsTest, RolesHaveNames) {
  for (const InputRole role : {InputRole::kZeros, InputRole::kActivation, InputRole::kWeight,
                               InputRole::kPositive, InputRole::kIndex, InputRole::kPred}) {
    EXPECT_EQ(input_role_from_name(input_role_name(role)), role);
  }
  EXPECT_THROW(input_role_from_name("bias"), std::invalid_argument);
}

}  // namespace
}  // namespace lagom::measure

#include "lagom/util/primitive_type.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace lagom {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

uint32_t encoded(PrimitiveType type, double value) {
  uint32_t bits = 0;
  encode_number(type, value, &bits);
  return bits;
}

double decoded(PrimitiveType type, uint32_t bits) {
  return decode_number(type, &bits);
}

TEST(PrimitiveTypeTest, FormatsHaveNamesAndWidths) {
  EXPECT_EQ(number_format(PrimitiveType::kBF16).name, "bf16");
  EXPECT_EQ(number_format(PrimitiveType::kC128).bytes, 16);
  EXPECT_EQ(number_format(PrimitiveType::kS4).bits, 4);
  EXPECT_EQ(number_format(PrimitiveType::kS4).bytes, 1);
  EXPECT_EQ(number_format(static_cast<PrimitiveType>(13)).kind, NumberKind::kNone);
  EXPECT_EQ(number_format(static_cast<PrimitiveType>(-5)).kind, NumberKind::kNone);
  EXPECT_EQ(number_format(static_cast<PrimitiveType>(1000)).kind, NumberKind::kNone);
}

TEST(PrimitiveTypeTest, KnownBitPatterns) {
  EXPECT_EQ(encoded(PrimitiveType::kF16, 1.0), 0x3c00u);
  EXPECT_EQ(encoded(PrimitiveType::kF16, -2.0), 0xc000u);
  EXPECT_EQ(encoded(PrimitiveType::kF16, 65504.0), 0x7bffu);
  EXPECT_EQ(encoded(PrimitiveType::kF16, 65520.0), 0x7c00u);  // rounds up to infinity
  EXPECT_EQ(encoded(PrimitiveType::kF16, std::ldexp(1.0, -24)), 0x0001u);
  EXPECT_EQ(encoded(PrimitiveType::kBF16, 1.0), 0x3f80u);
  EXPECT_EQ(encoded(PrimitiveType::kBF16, 1.00390625), 0x3f80u);  // a tie goes to even
  EXPECT_EQ(encoded(PrimitiveType::kF8E4M3FN, 448.0), 0x7eu);
  EXPECT_EQ(encoded(PrimitiveType::kF8E4M3FN, 1e9), 0x7eu);  // no infinity
  EXPECT_EQ(encoded(PrimitiveType::kF8E5M2, 1.0), 0x3cu);
  EXPECT_EQ(encoded(PrimitiveType::kF8E5M2, kInfinity), 0x7cu);
  EXPECT_EQ(encoded(PrimitiveType::kF8E4M3FNUZ, 1.0), 0x40u);
  EXPECT_EQ(encoded(PrimitiveType::kF8E4M3FNUZ, -0.0), 0x00u);
  EXPECT_EQ(encoded(PrimitiveType::kF4E2M1FN, 6.0), 0x7u);
  EXPECT_EQ(encoded(PrimitiveType::kF8E8M0FNU, 4.0), 129u);
}

TEST(PrimitiveTypeTest, KnownValues) {
  EXPECT_EQ(decoded(PrimitiveType::kF16, 0x3555), 0.333251953125);
  EXPECT_EQ(decoded(PrimitiveType::kBF16, 0x4049), 3.140625);
  EXPECT_EQ(decoded(PrimitiveType::kF16, 0xfc00), -kInfinity);
  EXPECT_TRUE(std::isnan(decoded(PrimitiveType::kF8E4M3FN, 0x7f)));
  EXPECT_TRUE(std::isnan(decoded(PrimitiveType::kF8E5M2FNUZ, 0x80)));
  EXPECT_EQ(decoded(PrimitiveType::kF8E4M3B11FNUZ, 0x7f), 30.0);
  EXPECT_EQ(decoded(PrimitiveType::kF8E3M4, 0x01), std::ldexp(1.0, -6));
  EXPECT_TRUE(std::isnan(decoded(PrimitiveType::kF8E8M0FNU, 0xff)));
}

TEST(PrimitiveTypeTest, EverySmallPatternSurvivesDecodingAndEncoding) {
  using enum PrimitiveType;
  for (const PrimitiveType type :
       {kF16, kBF16, kF8E5M2, kF8E4M3, kF8E3M4, kF8E4M3FN, kF8E4M3B11FNUZ, kF8E5M2FNUZ, kF8E4M3FNUZ,
        kF4E2M1FN, kF8E8M0FNU}) {
    const uint32_t count = 1u << number_format(type).bits;
    for (uint32_t bits = 0; bits < count; ++bits) {
      const double value = decoded(type, bits);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(decoded(type, encoded(type, value))));
      } else {
        ASSERT_EQ(encoded(type, value), bits) << number_format(type).name << " " << value;
      }
    }
  }
}

TEST(PrimitiveTypeTest, NearestValueIsChosen) {
  // Between two neighbours the nearer one wins, for every neighbouring pair of bf16 up to 2^8.
  for (uint32_t bits = 0; bits < 0x4380; ++bits) {
    const double low = decoded(PrimitiveType::kBF16, bits);
    const double high = decoded(PrimitiveType::kBF16, bits + 1);
    ASSERT_EQ(encoded(PrimitiveType::kBF16, low + 0.4 * (high - low)), bits);
    ASSERT_EQ(encoded(PrimitiveType::kBF16, low + 0.6 * (high - low)), bits + 1);
  }
}

TEST(PrimitiveTypeTest, IntegersRoundAndSaturate) {
  int8_t s8 = 0;
  encode_number(PrimitiveType::kS8, 1000, &s8);
  EXPECT_EQ(s8, 127);
  encode_number(PrimitiveType::kS4, -1000, &s8);
  EXPECT_EQ(s8, -8);
  encode_number(PrimitiveType::kS4, 1000, &s8);
  EXPECT_EQ(s8, 7);
  uint64_t u64 = 1;
  encode_number(PrimitiveType::kU64, 1e30, &u64);
  EXPECT_EQ(u64, std::numeric_limits<uint64_t>::max());
  encode_number(PrimitiveType::kU64, -1, &u64);
  EXPECT_EQ(u64, 0u);
  int64_t s64 = 0;
  encode_number(PrimitiveType::kS64, -1e30, &s64);
  EXPECT_EQ(s64, std::numeric_limits<int64_t>::min());
  int32_t s32 = 0;
  encode_number(PrimitiveType::kS32, 2.5, &s32);
  EXPECT_EQ(s32, 2);
}

TEST(PrimitiveTypeTest, ComplexHasTwoParts) {
  float pair[2] = {};
  encode_number(PrimitiveType::kC64, 1.5, pair, -2);

  EXPECT_EQ(decode_number(PrimitiveType::kC64, pair, 0), 1.5);
  EXPECT_EQ(decode_number(PrimitiveType::kC64, pair, 1), -2);
}

}  // namespace
}  // namespace lagom

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lagom/hlo/module.h"
#include "lagom/hlo/proto_reader.h"
#include "lagom/hlo/proto_writer.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/text_writer.h"
#include "lagom/hlo/verifier.h"
#include "lagom/util/error.h"

// Values of constants in text and proto, at the edges of their types.
namespace lagom::hlo {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Module constant(const std::string& shape, const std::string& value) {
  return read_hlo_text("HloModule m\nENTRY e { ROOT a = " + shape + " constant(" + value + ") }",
                       "t.hlo");
}

/// What the text reader says about the constant; empty when it takes it.
std::string refusal(const std::string& shape, const std::string& value) {
  try {
    constant(shape, value);
    return "";
  } catch (const FormatError& e) {
    return e.what();
  }
}

const Literal& literal(const Module& module) {
  return *module.entry()->root()->literal;
}

void expect_both_forms_keep(const Module& module) {
  const Module text = read_hlo_text(write_hlo_text(module), "text");
  EXPECT_EQ(describe_difference(module, text), "") << write_hlo_text(module);
  const Module proto = read_hlo_proto(write_hlo_proto(module), "proto");
  EXPECT_EQ(describe_difference(module, proto), "") << write_hlo_text(module);
}

struct SubByteCase {
  const char *shape, *value;
  std::string in_proto;  ///< As XLA's own writer (jaxlib 0.10.2) has it.
};

TEST(LiteralFormatsTest, SubByteValuesLieInTheLowBitsOfTheirOwnBytes) {
  using namespace std::string_literals;
  const SubByteCase cases[] = {
      {"s4[6]", "{1, -2, 3, -4, 5, -8}", "\x01\x0e\x03\x0c\x05\x08"s},
      {"u4[5]", "{1, 2, 3, 4, 15}", "\x01\x02\x03\x04\x0f"s},
      {"s2[5]", "{1, -2, 0, -1, 1}", "\x01\x02\x00\x03\x01"s},
      {"u2[5]", "{1, 2, 3, 0, 1}", "\x01\x02\x03\x00\x01"s},
      {"f4e2m1fn[5]", "{1, -2, 3, 0.5, 6}", "\x02\x0c\x05\x01\x07"s},
  };
  for (const SubByteCase& c : cases) {
    const Module module = constant(c.shape, c.value);

    EXPECT_THAT(write_hlo_proto(module),
                HasSubstr(std::string(1, static_cast<char>(c.in_proto.size())) + c.in_proto))
        << c.shape;
    EXPECT_THAT(write_hlo_text(module), HasSubstr(c.value));
    expect_both_forms_keep(module);
  }
}

TEST(LiteralFormatsTest, SignBitsAboveASubByteValueDoNotMatter) {
  // Some writers spread the sign over the whole byte.
  std::string bytes = write_hlo_proto(constant("s4[3]", "{-1, -8, 7}"));
  const size_t at = bytes.find("\x0f\x08\x07");
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, 3, "\xff\xf8\x07");

  const Module module = read_hlo_proto(bytes, "t.pb");

  EXPECT_EQ(describe_difference(module, constant("s4[3]", "{-1, -8, 7}")), "");
}

TEST(LiteralFormatsTest, LimitsOfIntegersAreKept) {
  for (const auto& [shape, value] : std::vector<std::pair<const char*, const char*>>{
           {"u64[2]", "{18446744073709551615, 0}"},
           {"s64[2]", "{9223372036854775807, -9223372036854775808}"},
           {"s32[2]", "{2147483647, -2147483648}"},
           {"u32[2]", "{4294967295, 0}"},
           {"s8[2]", "{127, -128}"},
           {"s2[2]", "{1, -2}"},
           {"u2[2]", "{3, 0}"}}) {
    const Module module = constant(shape, value);
    EXPECT_THAT(write_hlo_text(module), HasSubstr(value));
    expect_both_forms_keep(module);
  }
  EXPECT_THAT(refusal("u64[1]", "{18446744073709551616}"), HasSubstr("expected"));
  EXPECT_THAT(refusal("s8[1]", "{-129}"), HasSubstr("does not fit in s8"));
  EXPECT_THAT(refusal("u4[1]", "{16}"), HasSubstr("does not fit in u4"));
}

TEST(LiteralFormatsTest, ValuesPastTheLargestAreRefused) {
  // XLA's reader refuses these too; 65519.99 still rounds to f16's largest, 65504.
  EXPECT_THAT(refusal("f32[]", "1e40"),
              HasSubstr("line 2, column 35: the value does not fit in f32"));
  EXPECT_THAT(refusal("f16[1]", "{65520}"), HasSubstr("does not fit in f16"));
  EXPECT_EQ(refusal("f16[1]", "{65519.99}"), "");
  EXPECT_THAT(refusal("f8e4m3fn[1]", "{500}"), HasSubstr("does not fit in f8e4m3fn"));
  EXPECT_THAT(refusal("c64[1]", "{(1, 1e40)}"), HasSubstr("does not fit in f32"));
  EXPECT_THAT(refusal("f4e2m1fn[1]", "{-9}"), HasSubstr("does not fit in f4e2m1fn"));
  EXPECT_EQ(refusal("f32[2]", "{inf, -inf}"), "");
  EXPECT_EQ(refusal("f32[2]", "{3.4028235e38, -1e-60}"), "");
}

TEST(LiteralFormatsTest, TheSignOfZeroIsKeptForXlaToo) {
  // XLA's reader takes "-0" for an integer and loses the sign.
  const Module module = constant("f32[3]", "{-0, 0, -0.0}");

  EXPECT_THAT(write_hlo_text(module), HasSubstr("{-0.0, 0, -0.0}"));
  expect_both_forms_keep(module);
}

TEST(LiteralFormatsTest, NanPayloadsAreKept) {
  for (const auto& [shape, value] : std::vector<std::pair<const char*, const char*>>{
           {"f32[4]", "{nan, -nan, nan(0x1), -nan(0x7fffff)}"},
           {"f64[2]", "{nan(0xfffffffffffff), -nan}"},
           {"bf16[3]", "{nan, -nan, nan(0x1)}"},
           {"f16[2]", "{nan(0x3ff), nan(0x1)}"}}) {
    const Module module = constant(shape, value);
    EXPECT_THAT(write_hlo_text(module), HasSubstr(value));
    expect_both_forms_keep(module);
  }
}

TEST(LiteralFormatsTest, NanPayloadsThatDoNotFitAreRefused) {
  // All bits of f32's payload 0 would be infinity.
  EXPECT_THAT(refusal("f32[]", "nan(0x800000)"), HasSubstr("cannot have this payload"));
  EXPECT_THAT(refusal("f32[]", "nan(0x0)"), HasSubstr("cannot have this payload"));
  EXPECT_THAT(refusal("bf16[]", "nan(0x80)"), HasSubstr("cannot have this payload"));
  EXPECT_THAT(refusal("f8e5m2[]", "nan(0x1)"), HasSubstr("cannot have this payload"));
}

TEST(LiteralFormatsTest, EveryFloatOfOneByteSurvives) {
  for (const char* type : {"f8e5m2", "f8e4m3", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz",
                           "f8e4m3fnuz", "f8e3m4", "f8e8m0fnu"}) {
    Literal all;
    all.shape = read_shape_text(std::string(type) + "[256]{0}");
    for (int i = 0; i < 256; ++i) all.data += static_cast<char>(i);
    Module module = constant(std::string(type) + "[256]", "{...}");
    module.entry()->root()->literal = std::make_shared<const Literal>(all);

    const Module proto = read_hlo_proto(write_hlo_proto(module), "proto");
    const Module text = read_hlo_text(write_hlo_text(module), "text");

    EXPECT_EQ(literal(proto).data, all.data) << type;
    for (int i = 0; i < 256; ++i) {  // which of several NaNs it was is not in the text
      const double before = all.value_at(i), after = literal(text).value_at(i);
      EXPECT_TRUE(before == after || (before != before && after != after)) << type << " " << i;
    }
  }
}

TEST(LiteralFormatsTest, EmptyDimensions) {
  for (const auto& [shape, value] :
       std::vector<std::pair<const char*, const char*>>{{"f32[0]", "{}"},
                                                        {"f32[0,3]", "{  }"},
                                                        {"f32[3,0]", "{ {}, {}, {} }"},
                                                        {"f32[2,0,3]", "{ {  }, {  } }"}}) {
    const Module module = constant(shape, value);
    EXPECT_THAT(write_hlo_text(module), HasSubstr("constant(" + std::string(value) + ")"));
    expect_both_forms_keep(module);
  }
}

TEST(LiteralFormatsTest, AnEmptyArrayWithAHugeDimensionIsPrintedShort) {
  const Module module = constant("f32[1099511627776,0]", "{}");

  EXPECT_THAT(write_hlo_text(module), HasSubstr("constant({})"));
  expect_both_forms_keep(module);
}

TEST(LiteralFormatsTest, TuplesAndComplexNumbers) {
  for (const auto& [shape, value] :
       std::vector<std::pair<const char*, const char*>>{{"(f32[], s32[2])", "( 1, {2, 3} )"},
                                                        {"((f32[]), ())", "( ( 1 ), (  ) )"},
                                                        {"c64[2]", "{(1, 2), (-0.5, inf)}"},
                                                        {"c128[]", "(1e+300, -0.0)"}}) {
    const Module module = constant(shape, value);
    EXPECT_THAT(write_hlo_text(module), HasSubstr("constant(" + std::string(value) + ")"));
    expect_both_forms_keep(module);
  }
}

TEST(LiteralFormatsTest, AnElidedTupleIsReadAndPrintedAgain) {
  // XLA prints every tuple constant so unless asked for large constants.
  const Module module = constant("(f32[], s32[2])", "{...}");

  EXPECT_TRUE(literal(module).elided);
  EXPECT_THAT(write_hlo_text(module), HasSubstr("constant({...})"));
  EXPECT_THROW(write_hlo_proto(module), std::invalid_argument);
}

TEST(LiteralFormatsTest, ShapesWithoutASizeHaveNoConstants) {
  EXPECT_THAT(refusal("f32[?]", "{}"), HasSubstr("is not possible"));
  EXPECT_THAT(refusal("f32[<=1099511627776,1099511627776]", "{}"), HasSubstr("too many elements"));
  EXPECT_THAT(refusal("(f32[], opaque[3])", "{...}"), HasSubstr("type opaque has dimensions"));
  EXPECT_THAT(refusal("token[1]", ""), HasSubstr("type token has dimensions"));
  EXPECT_THAT(refusal("f32[1099511627776]", "{1, 2}"), HasSubstr("more than the text has"));
}

}  // namespace
}  // namespace lagom::hlo

#include "lagom/xla/compile_options.h"

#include <gtest/gtest.h>

namespace lagom::xla {
namespace {

TEST(CompileOptionsTest, NoFlagsGiveOneReplicaAndOnePartition) {
  EXPECT_EQ(encode_compile_options({}), std::string("\x1a\x04\x20\x01\x28\x01", 6));
}

TEST(CompileOptionsTest, TupleArgumentsSetFieldTwo) {
  EXPECT_EQ(encode_compile_options({.tuple_arguments = true}),
            std::string("\x10\x01\x1a\x04\x20\x01\x28\x01", 8));
}

TEST(CompileOptionsTest, EachKindOfValueHasItsField) {
  // Entry of field 7: {1: name, 2: {1 string | 2 bool | 3 int64 | 4 double}}.
  const auto entry_of = [](const FlagValue& value) {
    return encode_compile_options({.flags = {{"a", value}}}).substr(6);
  };

  EXPECT_EQ(entry_of(true), std::string("\x3a\x07\x0a\x01"
                                        "a"
                                        "\x12\x02\x10\x01",
                                        9));
  EXPECT_EQ(entry_of(int64_t{5}), std::string("\x3a\x07\x0a\x01"
                                              "a"
                                              "\x12\x02\x18\x05",
                                              9));
  EXPECT_EQ(entry_of(std::string("x")), std::string("\x3a\x08\x0a\x01"
                                                    "a"
                                                    "\x12\x03\x0a\x01x",
                                                    10));
  EXPECT_EQ(entry_of(2.0), std::string("\x3a\x0e\x0a\x01"
                                       "a"
                                       "\x12\x09\x21\0\0\0\0\0\0\0\x40",
                                       16));
}

TEST(CompileOptionsTest, UnknownFlagIsReadFromTheMessage) {
  EXPECT_EQ(unknown_flag("INVALID_ARGUMENT: No such compile option: 'xla_x'; more"), "xla_x");
  EXPECT_EQ(unknown_flag("No such compile option: 'xla_x"), "");
  EXPECT_EQ(unknown_flag("out of memory"), "");
}

TEST(CompileOptionsTest, ValuesPrintAsOneWouldWriteThem) {
  EXPECT_EQ(flag_value_to_string(true), "true");
  EXPECT_EQ(flag_value_to_string(int64_t{-3}), "-3");
  EXPECT_EQ(flag_value_to_string(0.25), "0.25");
  EXPECT_EQ(flag_value_to_string(std::string("algsimp,cse")), "algsimp,cse");
}

}  // namespace
}  // namespace lagom::xla

#include "lagom/xla/client_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "lagom/xla/client.h"
#include "lagom/xla/pjrt_abi.h"
#include "lagom/xla/plugin.h"
#include "tests/testing/plugins.h"

namespace lagom::xla {
namespace {

using ::testing::ElementsAre;

ClientOption value_of(const std::string& text) {
  return parse_client_option("name=" + text).second;
}

TEST(ClientOptionsTest, AValuesFormSaysItsType) {
  EXPECT_EQ(value_of("true"), ClientOption(true));
  EXPECT_EQ(value_of("-7"), ClientOption(int64_t{-7}));
  EXPECT_EQ(value_of("0.5"), ClientOption(0.5F));
  EXPECT_EQ(value_of("1e3"), ClientOption(1000.0F));
  EXPECT_EQ(value_of("[0,2]"), ClientOption(std::vector<int64_t>{0, 2}));
  EXPECT_EQ(value_of("[]"), ClientOption(std::vector<int64_t>{}));
  for (const std::string text : {"", "bfc", "x=y", "inf", "1x", "\"", "["}) {
    EXPECT_EQ(value_of(text), ClientOption(text)) << text;
  }
  EXPECT_EQ(value_of("\"1\""), ClientOption(std::string("1")));
  EXPECT_EQ(parse_client_option("a=b").first, "a");
}

TEST(ClientOptionsTest, WhatIsNoOptionIsRefused) {
  for (const std::string text : {"", "name", "=1", "name=[1,x]", "name=[1 2]"}) {
    EXPECT_THROW(parse_client_option(text), std::invalid_argument) << text;
  }
}

TEST(ClientOptionsTest, TheAbiGetsTypeAndLength) {
  const ClientOptions options = {{"a", true},
                                 {"b", int64_t{3}},
                                 {"c", 0.5F},
                                 {"d", std::vector<int64_t>{4, 5}},
                                 {"e", std::string("text")}};

  const std::vector<abi::NamedValue> values = to_named_values(options);

  std::vector<std::string> names;
  for (const auto& value : values) {
    names.emplace_back(value.name, value.name_size);
    EXPECT_EQ(value.struct_size, 56u);  // PJRT_NamedValue_STRUCT_SIZE on 64-bit machines
  }
  EXPECT_THAT(names, ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_EQ(values[0].type, abi::kBool);
  EXPECT_TRUE(values[0].bool_value);
  EXPECT_EQ(values[1].type, abi::kInt64);
  EXPECT_EQ(values[1].int64_value, 3);
  EXPECT_EQ(values[2].type, abi::kFloat);
  EXPECT_EQ(values[2].float_value, 0.5F);
  EXPECT_EQ(values[3].type, abi::kInt64List);
  EXPECT_EQ(values[3].value_size, 2u);
  EXPECT_EQ(values[3].int64_array_value[1], 5);
  EXPECT_EQ(values[4].type, abi::kString);
  EXPECT_EQ(std::string(values[4].string_value, values[4].value_size), "text");
}

// The plugin of ./run setup checks names; the other one takes any.
TEST(ClientOptionsTest, ThePluginSeesThem) {
  const auto plugin = Plugin::load(lagom::testing::plugin_path());
  try {
    const Client client(plugin, {{"no_such_option", int64_t{1}}});
    FAIL() << "the option was taken";
  } catch (const PjrtError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("no_such_option"));
  }
}

}  // namespace
}  // namespace lagom::xla

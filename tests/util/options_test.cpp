#include "lagom/util/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "lagom/util/error.h"

namespace lagom {
namespace {

enum class Gate { kRaw, kSigmoid };

std::span<const std::string_view> option_names(Gate) {
  static constexpr std::array<std::string_view, 2> kNames = {"raw", "sigmoid"};
  return kNames;
}

struct Inner {
  int width = 8;
  Gate gate = Gate::kRaw;
  std::vector<int64_t> sizes = {1, 2};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("width", self.width);
    visit("gate", self.gate);
    visit("sizes", self.sizes);
  }
};

struct Outer {
  std::string name = "a \"b\"\n";
  double rate = 1e-3;
  bool fast = false;
  int64_t steps = int64_t{1} << 40;
  Inner inner;
  std::vector<std::string> files;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("name", self.name);
    visit("rate", self.rate);
    visit("inner", self.inner);  // before scalars: they must not end up in its table
    visit("fast", self.fast);
    visit("steps", self.steps);
    visit("files", self.files);
  }
};

std::string message_of(const std::string& toml) {
  Outer options;
  try {
    options_from_toml(toml, "c.toml", options);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

TEST(OptionsTest, ReadsWhatIsNamedAndKeepsTheRest) {
  Outer options;
  options_from_toml("rate = 2\nfiles = ['x', \"y\"]\n[inner]\ngate = 'sigmoid'\n", "c.toml",
                    options);

  EXPECT_EQ(options.rate, 2);
  EXPECT_THAT(options.files, testing::ElementsAre("x", "y"));
  EXPECT_EQ(options.inner.gate, Gate::kSigmoid);
  EXPECT_EQ(options.inner.width, 8);
  EXPECT_EQ(options.name, "a \"b\"\n");
}

TEST(OptionsTest, TextReadsBackAsEqualOptions) {
  Outer options;
  options.rate = 0.1;
  options.inner.gate = Gate::kSigmoid;
  options.inner.sizes = {};
  options.files = {"a\\b", "\x01"};

  Outer again;
  options_from_toml(options_to_toml(options), "written", again);

  EXPECT_EQ(again.name, options.name);
  EXPECT_EQ(again.rate, 0.1);
  EXPECT_EQ(again.steps, options.steps);
  EXPECT_EQ(again.inner.gate, Gate::kSigmoid);
  EXPECT_TRUE(again.inner.sizes.empty());
  EXPECT_EQ(again.files, options.files);
  EXPECT_EQ(options_to_toml(again), options_to_toml(options));
}

TEST(OptionsTest, MistakesNameFilePlaceFoundAndExpected) {
  EXPECT_EQ(
      message_of("rat = 1\n"),
      "c.toml: line 1, column 1: unknown key 'rat'; expected one of fast, files, inner, name, "
      "rate, steps");
  EXPECT_EQ(message_of("\n[inner]\nwidht = 1\n"),
            "c.toml: line 3, column 1: unknown key 'inner.widht'; expected one of gate, sizes, "
            "width");
  EXPECT_EQ(message_of("fast = 1\n"),
            "c.toml: line 1, column 8: fast: expected a boolean, found an integer");
  EXPECT_EQ(message_of("steps = 1.5\n"),
            "c.toml: line 1, column 9: steps: expected an integer, found a number");
  EXPECT_EQ(message_of("inner = 3\n"),
            "c.toml: line 1, column 9: inner: expected a table, found an integer");
  EXPECT_EQ(message_of("[inner]\ngate = 'tanh'\n"),
            "c.toml: line 2, column 8: inner.gate: expected one of raw, sigmoid; found 'tanh'");
  EXPECT_EQ(message_of("[inner]\nwidth = 4294967296\n"),
            "c.toml: line 2, column 9: inner.width: expected 32 bits, found 4294967296");
  EXPECT_EQ(message_of("[inner]\nsizes = ['x']\n"),
            "c.toml: line 2, column 10: inner.sizes: expected an integer, found a string");
  EXPECT_THAT(message_of("rate = = 1\n"), testing::HasSubstr("c.toml: line 1, column "));
}

TEST(OptionsTest, OverridesWinAndMayGoWithoutQuotes) {
  const auto path = std::filesystem::path(testing::TempDir()) / "lagom_options_test.toml";
  std::ofstream(path) << "rate = 0.5\n[inner]\nwidth = 3\n";
  const std::vector<std::string> overrides = {"inner.width=7", "name=some name", "fast=true"};

  Outer options;
  read_options(path, overrides, options);

  EXPECT_EQ(options.rate, 0.5);
  EXPECT_EQ(options.inner.width, 7);
  EXPECT_EQ(options.name, "some name");
  EXPECT_TRUE(options.fast);
  const std::vector<std::string> wrong = {"=3"};
  EXPECT_THROW(read_options(path, wrong, options), FormatError);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace lagom

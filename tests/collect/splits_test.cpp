#include "lagom/collect/splits.h"

#include <gtest/gtest.h>

#include <vector>

#include "lagom/util/error.h"
#include "tests/testing/command.h"

namespace lagom::collect {
namespace {

class ProgramSplitsTest : public ::testing::Test {
 protected:
  std::string error_of(const std::string& text) const {
    try {
      ProgramSplits splits(folder_.write("s.tsv", text));
    } catch (const FormatError& error) {
      return std::string(error.what()).substr(folder_.path().string().size() + 1);
    }
    return "";
  }
  testing::TemporaryFolder folder_;
};

TEST_F(ProgramSplitsTest, WhatProgramsShareIsForTrainingIfOneIs) {
  const ProgramSplits splits(folder_.write("s.tsv",
                                           "program\tfamily\tsplit\n"
                                           "a\tx\ttrain\r\n"
                                           "b\ty\tvalid\n\n"
                                           "c\tz\ttest\n"));

  EXPECT_EQ(splits.split_of("c"), "test");
  EXPECT_EQ(splits.family_of("b"), "y");
  EXPECT_EQ(splits.split_of(std::vector<std::string>{"c", "a", "b"}), "train");
  EXPECT_EQ(splits.split_of(std::vector<std::string>{"c", "b"}), "valid");
  EXPECT_EQ(splits.split_of(std::vector<std::string>{"c"}), "test");
  EXPECT_THROW((void)splits.split_of("d"), FormatError);
}

TEST_F(ProgramSplitsTest, MistakesNameTheLine) {
  const std::string header = "program\tfamily\tsplit\n";
  EXPECT_EQ(error_of("a\tb\ttrain\n"),
            "s.tsv: line 1: expected the header program, family, split; found 'a\tb\ttrain'");
  EXPECT_EQ(error_of(header + "a\tb\n"), "s.tsv: line 2: expected 3 columns, found 2");
  EXPECT_EQ(error_of(header + "a\tb\tdev\n"),
            "s.tsv: line 2: expected train, valid or test; found 'dev'");
  EXPECT_EQ(error_of(header + "a\tb\ttest\na\tb\ttest\n"),
            "s.tsv: line 3: program 'a' is there twice");
  EXPECT_EQ(error_of(header + "a\tb\ttest\nc\tb\ttrain\n"),
            "s.tsv: line 3: family 'b' is in test and in train");
}

}  // namespace
}  // namespace lagom::collect

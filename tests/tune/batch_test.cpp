#include "lagom/tune/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "lagom/hlo/text_reader.h"
#include "lagom/util/error.h"
#include "tests/testing/command.h"

namespace lagom::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string family_of(const std::string& body) {
  return program_family(hlo::read_hlo_text("HloModule m\n" + body, "t"));
}

BatchEntry entry(const std::string& program, double speedup) {
  return {.program = program,
          .family = "dot",
          .key = "key of " + program,
          .default_seconds = 0.004,
          .tuned_seconds = 0.004 / speedup,
          .speedup = speedup,
          .low = speedup * 0.9,
          .high = speedup * 1.1,
          .conditions_speedup = 3,
          .forms = {{"swapped", 3}}};
}

TEST(ProgramFamilyTest, TheHeaviestKindOfWorkDecides) {
  EXPECT_EQ(family_of("ENTRY e { x = f32[1,8,8,16]{3,2,1,0} parameter(0)\n"
                      "k = f32[3,3,1,16]{3,2,1,0} parameter(1)\n"
                      "ROOT c = f32[1,8,8,16]{3,2,1,0} convolution(x, k), window={size=3x3 "
                      "pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=16 }"),
            "depthwise convolution");
  EXPECT_EQ(family_of("ENTRY e { x = f32[1,8,8,8,16]{4,3,2,1,0} parameter(0)\n"
                      "k = f32[1,1,1,16,16]{4,3,2,1,0} parameter(1)\n"
                      "ROOT c = f32[1,8,8,8,16]{4,3,2,1,0} convolution(x, k), window={size=1x1x1}, "
                      "dim_labels=b012f_012io->b012f }"),
            "3-D convolution");
  EXPECT_EQ(family_of("ENTRY e { x = f32[8,8]{1,0} parameter(0)\n"
                      "ROOT d = f32[8,8]{1,0} dot(x, x), lhs_contracting_dims={1}, "
                      "rhs_contracting_dims={0} }"),
            "dot");
  EXPECT_EQ(family_of("ENTRY e { x = f32[8]{0} parameter(0)\nROOT s = f32[8]{0} add(x, x) }"),
            "other");
}

TEST(ProgramFamilyTest, DotsInALoopCountOncePerRound) {
  EXPECT_EQ(family_of(R"(
body {
  b = (s32[], f32[8,8]{1,0}) parameter(0)
  i = s32[] get-tuple-element(b), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[8,8]{1,0} get-tuple-element(b), index=1
  d = f32[8,8]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (s32[], f32[8,8]{1,0}) tuple(next, d)
}
cond {
  c = (s32[], f32[8,8]{1,0}) parameter(0)
  j = s32[] get-tuple-element(c), index=0
  n = s32[] constant(20)
  ROOT lt = pred[] compare(j, n), direction=LT
}
ENTRY e {
  x = f32[8,8]{1,0} parameter(0)
  y = f32[8,8]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[8,8]{1,0} dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = s32[] constant(0)
  t = (s32[], f32[8,8]{1,0}) tuple(zero, z)
  w = (s32[], f32[8,8]{1,0}) while(t), condition=cond, body=body
  ROOT o = f32[8,8]{1,0} get-tuple-element(w), index=1
})"),
            "recurrent");
}

TEST(GeometricMeanTest, IsTheMeanOfLogarithms) {
  EXPECT_DOUBLE_EQ(geometric_mean({2, 8}), 4);
  EXPECT_DOUBLE_EQ(geometric_mean({4, 0.25}), 1);
  EXPECT_EQ(geometric_mean({}), 1);
}

TEST(BatchSummaryTest, EntriesOutliveTheProcessAndTheLastOneCounts) {
  const testing::TemporaryFolder folder;
  {
    BatchSummary summary(folder / "s.jsonl");
    summary.add(entry("b", 2));
    summary.add(entry("a", 3));
    summary.add(entry("b", 4));
  }
  std::ofstream(folder / "s.jsonl", std::ios::app) << "\xff\n[1]\n{\"speedup\":\"x\"}\n{\"pro";

  const BatchSummary again(folder / "s.jsonl");

  ASSERT_EQ(again.entries().size(), 2u);
  EXPECT_EQ(again.entries()[0].program, "a");
  EXPECT_EQ(again.entries()[1].speedup, 4);
  EXPECT_EQ(again.entries()[1].forms.at("swapped"), 3);
  EXPECT_EQ(again.find("a")->key, "key of a");
  EXPECT_EQ(again.find("c"), nullptr);
}

TEST(BatchSummaryTest, ALineTornByAKillIsClosed) {
  const testing::TemporaryFolder folder;
  folder.write("s.jsonl", "{\"program\":\"torn");
  BatchSummary(folder / "s.jsonl").add(entry("a", 3));
  EXPECT_EQ(BatchSummary(folder / "s.jsonl").entries().size(), 1u);
}

TEST(FindProgramsTest, FoldersGiveTheirProgramsInOrder) {
  const testing::TemporaryFolder folder;
  folder.write("b.hlo.pb.gz", "x");
  folder.write("a.hlo", "x");
  folder.write("notes.md", "x");
  std::filesystem::create_directory(folder.path() / "sub.hlo");

  EXPECT_THAT(find_programs({folder.path().string()}),
              ElementsAre(folder.path() / "a.hlo", folder.path() / "b.hlo.pb.gz"));
}

TEST(FindProgramsTest, RefusesWhatIsNotThereAndNamesThatMeet) {
  const testing::TemporaryFolder folder;
  const std::string text = folder.write("a.hlo", "x"), proto = folder.write("a.pb", "x");
  EXPECT_THROW(find_programs({folder / "absent.hlo"}), SystemError);
  EXPECT_THROW(find_programs({text, proto}), std::invalid_argument);
  std::filesystem::create_directory(folder.path() / "empty");
  EXPECT_THROW(find_programs({folder / "empty"}), std::invalid_argument);
}

TEST(SummaryMarkdownTest, GivesMeansByFamilyAndFailures) {
  BatchEntry failed{.program = "bad", .error = "no such opcode"};
  BatchEntry kept{.program = "kept", .family = "other", .default_seconds = 1, .tuned_seconds = 1};

  const std::string text = summary_markdown({entry("a", 2), entry("b", 8), failed, kept});

  EXPECT_THAT(text, HasSubstr("| dot | 2 | 2 | 4.00x | 3.00x | 8 | 2.5 |"));
  EXPECT_THAT(text, HasSubstr("| all | 3 | 2 | 2.52x |"));  // the cube root of 16
  EXPECT_THAT(text, HasSubstr("| swapped | 2 | 6 |"));
  EXPECT_THAT(text, HasSubstr("failed: no such opcode"));
  EXPECT_THAT(text, HasSubstr("default kept"));
}

}  // namespace
}  // namespace lagom::tune

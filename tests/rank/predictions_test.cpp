#include "lagom/rank/predictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lagom/util/error.h"
#include "tests/testing/command.h"

namespace lagom::rank {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(const std::string& text) {
  const testing::TemporaryFolder folder;
  try {
    read_predictions(folder.write("s.jsonl", text));
  } catch (const FormatError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(PredictionsTest, ReadsLines) {
  const testing::TemporaryFolder folder;
  const auto all = read_predictions(
      folder.write("s.jsonl",
                   "{\"id\": \"a\", \"scores\": [2, 1.5]}\n\n"
                   "{\"scores\": [1], \"id\": \"b\", \"runtimes\": [900719925474099]}"));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_THAT(all[0].scores, ElementsAre(2, 1.5));
  EXPECT_TRUE(all[0].runtimes.empty());
  EXPECT_THAT(all[1].runtimes, ElementsAre(900719925474099.0));
}

TEST(PredictionsTest, NamesTheLineAtFault) {
  EXPECT_THAT(error_of("{\"id\": \"a\", \"scores\": [1]}\n{\"id\": \"a\", \"scores\": [1]}"),
              HasSubstr("line 2: a second line for 'a'"));
  EXPECT_THAT(error_of("{\"id\": \"a\", \"scores\": [1, null]}"),
              HasSubstr("line 1: scores: value 1 is null, expected a number"));
  EXPECT_THAT(error_of("{\"id\": \"a\", \"scores\": [1, 2], \"runtimes\": [1]}"),
              HasSubstr("2 scores and 1 runtimes"));
  for (const char* text :
       {"nonsense", "[1]", "{}", "{\"id\": 3, \"scores\": [1]}", "{\"id\": \"a\", \"scores\": 1}",
        "{\"id\": \"a\", \"scores\": []}", "{\"id\": \"a\", \"scores\": [NaN]}"}) {
    EXPECT_THAT(error_of(text), HasSubstr("line 1: ")) << text;
  }
  EXPECT_THAT(error_of(""), HasSubstr("holds no predictions"));
}

TEST(SubmissionTest, TilesGetFiveAndLayoutsAll) {
  const std::string csv = submission_csv({{"tile:xla:t", {5, 4, 3, 2, 1, 0}, {}},
                                          {"tile:xla:two", {1, 0}, {}},
                                          {"layout:nlp:random:l", {3, 3, 1, 2, 9, 0, 8}, {}}});
  EXPECT_EQ(csv,
            "ID,TopConfigs\ntile:xla:t,5;4;3;2;1\ntile:xla:two,1;0\n"
            "layout:nlp:random:l,5;2;3;0;1;6;4\n");
  EXPECT_THROW(submission_csv({{"a,b", {1}, {}}}), std::invalid_argument);
}

}  // namespace
}  // namespace lagom::rank

#include "lagom/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "lagom/text/bpe.h"
#include "lagom/util/error.h"
#include "tests/testing/command.h"
#include "tests/testing/small_tokenizer.h"

namespace lagom::text {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::small_tokenizer;

TEST(ByteTokenizerTest, EveryByteIsItsOwnToken) {
  const auto tokenizer = make_byte_tokenizer();
  const std::string text = {'h', 'i', '\0', static_cast<char>(0xFF)};

  EXPECT_THAT(tokenizer->encode(text), ElementsAre('h', 'i', 0, 255));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  EXPECT_EQ(tokenizer->vocab_size(), 256);
  EXPECT_EQ(tokenizer->end_of_text(), 0);
}

TEST(BpeTest, LowestRankMergesFirst) {
  const auto tokenizer = parse_tokenizer_json(small_tokenizer().dump(), "t.json");

  EXPECT_THAT(tokenizer->encode("abc"), ElementsAre(257));  // a b -> ab, ab c -> abc
  EXPECT_THAT(tokenizer->encode("bc"), ElementsAre(258));
  EXPECT_THAT(tokenizer->encode("aab"), ElementsAre('a', 256));
  EXPECT_THAT(tokenizer->encode("x ab"), ElementsAre('x', 259));  // the space belongs to the word
  EXPECT_THAT(tokenizer->encode("\xC3\xA4"), ElementsAre(260));   // the letter a with two dots
  EXPECT_EQ(tokenizer->vocab_size(), 262);
}

TEST(BpeTest, PiecesKeepMergesApart) {
  const auto tokenizer = parse_tokenizer_json(small_tokenizer().dump(), "t.json");

  // "a" and "b" are neighbours, but a digit's piece ends before a letter's begins.
  EXPECT_THAT(tokenizer->encode("ab1ab"), ElementsAre(256, '1', 256));
  json one_by_one = small_tokenizer();
  one_by_one["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "."}}}, {"behavior", "Isolated"}};
  EXPECT_THAT(parse_tokenizer_json(one_by_one.dump(), "t.json")->encode("ab"),
              ElementsAre('a', 'b'));
}

TEST(BpeTest, SpecialNamesBecomeTheirToken) {
  const auto tokenizer = parse_tokenizer_json(small_tokenizer().dump(), "t.json");

  EXPECT_THAT(tokenizer->encode("ab<|endoftext|>c"), ElementsAre(256, 261, 'c'));
  EXPECT_EQ(tokenizer->end_of_text(), 261);
}

TEST(BpeTest, AnyBytesRoundTrip) {
  const auto tokenizer = parse_tokenizer_json(small_tokenizer().dump(), "t.json");
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    std::string text(random() % 40, ' ');
    for (char& c : text) c = i % 2 == 0 ? static_cast<char>(random()) : "ab c"[random() % 4];

    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << i;
  }
}

TEST(BpeTest, LongRunsMergeAsShortOnes) {
  // a a -> aa, aa aa -> aaaa: 4097 times "a" is 1024 fours and the one that is left.
  BpeParts parts;
  for (int byte = 0; byte < 256; ++byte) parts.tokens.emplace_back(1, static_cast<char>(byte));
  parts.tokens.emplace_back("aa");
  parts.tokens.emplace_back("aaaa");
  parts.merges = {{'a', 'a', 256, 0}, {256, 256, 257, 1}};
  const auto tokenizer = make_bpe_tokenizer(std::move(parts));

  std::vector<TokenId> expected(1024, 257);
  expected.push_back('a');
  EXPECT_EQ(tokenizer->encode(std::string(4097, 'a')), expected);
}

TEST(BpeTest, BrokenFilesSayWhere) {
  const auto complaint = [](json tokenizer) -> std::string {
    try {
      parse_tokenizer_json(tokenizer.dump(), "t.json");
    } catch (const FormatError& error) {
      return error.what();
    }
    return "";
  };
  json broken = small_tokenizer();
  broken["model"]["type"] = "WordPiece";
  EXPECT_THAT(complaint(broken), HasSubstr("model.type"));
  broken = small_tokenizer();
  broken["model"]["merges"].push_back("a z");
  EXPECT_THAT(complaint(broken), HasSubstr("model.merges[5]: 'az' is not in the vocabulary"));
  broken = small_tokenizer();
  broken["model"]["vocab"].erase("a");
  EXPECT_THAT(complaint(broken), HasSubstr("'a' is not in the vocabulary"));
  broken = small_tokenizer();
  broken["model"]["vocab"].erase("q");
  EXPECT_THAT(complaint(broken), HasSubstr("no token for byte 113"));
  broken = small_tokenizer();
  broken["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}};
  EXPECT_THAT(complaint(broken), HasSubstr("pattern of the pre-tokenizer"));
  broken = small_tokenizer();
  broken["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_THAT(complaint(broken), HasSubstr("normalizer"));
  EXPECT_THROW(parse_tokenizer_json("{", "t.json"), FormatError);
}

/// The 256 bytes and these tokens as a file of ranks.
std::string rank_lines(const std::vector<std::string>& tokens) {
  std::string lines;
  std::vector<std::string> all;
  for (int byte = 0; byte < 256; ++byte) all.emplace_back(1, static_cast<char>(byte));
  all.insert(all.end(), tokens.begin(), tokens.end());
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t id = 0; id < all.size(); ++id) {
    for (size_t i = 0; i < all[id].size(); i += 3) {
      uint32_t bits = 0;
      const size_t n = std::min<size_t>(3, all[id].size() - i);
      for (size_t k = 0; k < n; ++k) bits |= static_cast<uint8_t>(all[id][i + k]) << (16 - 8 * k);
      for (size_t k = 0; k < 4; ++k) {
        lines += k <= n ? kAlphabet[bits >> (18 - 6 * k) & 63] : '=';
      }
    }
    lines += " " + std::to_string(id) + "\n";
  }
  return lines;
}

TEST(TiktokenTest, MergesByRankOfTheJoinedToken) {
  const auto tokenizer = parse_tiktoken_ranks(rank_lines({"bc", "ab", "abc"}), "ranks");

  EXPECT_THAT(tokenizer->encode("abc"), ElementsAre(258));  // bc (256) first, then a + bc
  EXPECT_THAT(tokenizer->encode("ab"), ElementsAre(257));
  EXPECT_THAT(tokenizer->encode("ab<|endoftext|>"), ElementsAre(257, 259));
}

TEST(TiktokenTest, TakesAPieceThatIsATokenThoughNoMergeMakesIt) {
  const auto tokenizer = parse_tiktoken_ranks(rank_lines({"bc", "wxyz"}), "ranks");

  EXPECT_THAT(tokenizer->encode("wxyz"), ElementsAre(257));
  EXPECT_THAT(tokenizer->encode("wxyza"), ElementsAre('w', 'x', 'y', 'z', 'a'));
}

TEST(TiktokenTest, BrokenLinesAreNamed) {
  EXPECT_THAT([] { parse_tiktoken_ranks("YQ== 0\n!! 1\n", "ranks"); },
              ::testing::ThrowsMessage<FormatError>(HasSubstr("ranks: line 2")));
  EXPECT_THAT([] { parse_tiktoken_ranks("YQ== 0\nYg==\n", "ranks"); },
              ::testing::ThrowsMessage<FormatError>(HasSubstr("line 2")));
  EXPECT_THAT([] { parse_tiktoken_ranks("YQ== 0\nYQ== 1\n", "ranks"); },
              ::testing::ThrowsMessage<FormatError>(HasSubstr("repeats")));
  EXPECT_THROW(parse_tiktoken_ranks("", "ranks"), FormatError);
}

TEST(Utf8Test, CutsBeforeAnUnfinishedCharacter) {
  EXPECT_EQ(complete_utf8("abc"), "abc");
  EXPECT_EQ(complete_utf8("a\xC3\xA4"), "a\xC3\xA4");
  EXPECT_EQ(complete_utf8("a\xC3"), "a");
  EXPECT_EQ(complete_utf8("a\xE2\x82"), "a");
  EXPECT_EQ(complete_utf8("\xF0\x9F\x98"), "");
  EXPECT_EQ(complete_utf8(""), "");
}

}  // namespace
}  // namespace lagom::text

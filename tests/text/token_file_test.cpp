#include "lagom/text/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "lagom/text/window_sampler.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "tests/testing/command.h"

namespace lagom::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<int64_t> all_tokens(const TokenFile& file, int64_t vocab_size) {
  std::vector<int64_t> tokens(static_cast<size_t>(file.size()));
  file.read(0, tokens, vocab_size);
  return tokens;
}

TEST(TokenFileTest, ShardsRoundTripInBothWidths) {
  const testing::TemporaryFolder folder;
  const std::vector<TokenId> tokens = {0, 7, 65535, 300};
  for (const int64_t vocab_size : {int64_t{65536}, int64_t{100000}}) {
    const std::string path = folder / "shard.bin";
    write_shard(path, tokens, vocab_size);

    EXPECT_THAT(all_tokens(TokenFile::open_shard(path), vocab_size), ElementsAre(0, 7, 65535, 300));
    EXPECT_EQ(read_file(path).size(), 1024 + 4 * (vocab_size == 65536 ? 2 : 4));
  }
}

TEST(TokenFileTest, ShardsWithoutHeaderAreNanoGpts) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.write("train.bin", std::string("\x01\x00\x02\x01", 4));

  EXPECT_THAT(all_tokens(TokenFile::open_shard(path), 50257), ElementsAre(1, 258));
}

TEST(TokenFileTest, BrokenShardsAreRefused) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "shard.bin";
  write_shard(path, std::vector<TokenId>{1, 2, 3}, 256);
  const std::string good = read_file(path);

  const std::string cut = folder.write("cut.bin", good.substr(0, good.size() - 2));
  EXPECT_THAT([&] { TokenFile::open_shard(cut); },
              ThrowsMessage<FormatError>(HasSubstr("claims 3 tokens, the file has 2")));
  std::string version = good;
  version[4] = 9;
  EXPECT_THROW(TokenFile::open_shard(folder.write("version.bin", version)), FormatError);
  EXPECT_THROW(TokenFile::open_shard(folder.write("odd.bin", "abc")), FormatError);
  EXPECT_THAT([&] { all_tokens(TokenFile::open_shard(path), 3); },
              ThrowsMessage<FormatError>(HasSubstr("token 2: is 3, the vocabulary has 3")));
  std::vector<int64_t> beyond(4);
  EXPECT_THROW(TokenFile::open_shard(path).read(0, beyond, 256), std::invalid_argument);
}

TEST(CorpusTest, DocumentsEndWithTheEndToken) {
  const testing::TemporaryFolder folder;
  const auto tokenizer = make_byte_tokenizer();
  const std::string lines =
      folder.write("a.jsonl", "{\"text\": \"hi\", \"id\": 3}\n\n\"yo\"\n{\"text\": \"\"}\n");

  write_corpus(lines, *tokenizer, folder / "a.bin");

  EXPECT_THAT(all_tokens(TokenFile::open_shard(folder / "a.bin"), 256),
              ElementsAre('h', 'i', 0, 'y', 'o', 0, 0));
}

TEST(CorpusTest, BrokenLinesAreNamed) {
  const testing::TemporaryFolder folder;
  const auto tokenizer = make_byte_tokenizer();
  for (const char* text : {"\"a\"\n{\"txt\": \"b\"}\n", "\"a\"\n{\"text\": 3}\n", "\"a\"\n{\n"}) {
    const std::string path = folder.write("a.jsonl", text);

    EXPECT_THAT([&] { write_corpus(path, *tokenizer, folder / "a.bin"); },
                ThrowsMessage<FormatError>(HasSubstr("line 2")));
  }
}

TEST(WindowSamplerTest, EachEpochSeesEveryWindowOnce) {
  constexpr int64_t kTokens = 1003, kLength = 10;
  WindowSampler sampler(kTokens, kLength, 7);
  ASSERT_EQ(sampler.windows_per_epoch(), 99);
  std::vector<std::vector<int64_t>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t>& begins = epochs.emplace_back();
    for (int64_t i = 0; i < sampler.windows_per_epoch(); ++i) begins.push_back(sampler.next());

    std::vector<int64_t> sorted = begins;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i) {
      EXPECT_EQ(sorted[i], sorted[0] + static_cast<int64_t>(i) * kLength);
    }
    EXPECT_GE(sorted.front(), 0);
    EXPECT_LE(sorted.back() + kLength + 1, kTokens);
    EXPECT_FALSE(std::is_sorted(begins.begin(), begins.end()));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST(WindowSamplerTest, CursorIsTheWholeState) {
  WindowSampler one(1000, 10, 7), other(1000, 10, 7);
  for (int i = 0; i < 150; ++i) one.next();

  other.set_cursor(one.cursor());

  for (int i = 0; i < 100; ++i) EXPECT_EQ(one.next(), other.next());
}

TEST(WindowSamplerTest, ShortestCorpusHasOneWindow) {
  WindowSampler sampler(11, 10, 1);
  EXPECT_EQ(sampler.next(), 0);
  EXPECT_EQ(sampler.next(), 0);
  EXPECT_THROW(WindowSampler(10, 10, 1), std::invalid_argument);
  EXPECT_THROW(WindowSampler(0, 10, 1), std::invalid_argument);
}

TEST(PermutedTest, IsAPermutation) {
  for (const int64_t count : {1, 2, 3, 16, 17, 1000}) {
    std::set<int64_t> seen;
    for (int64_t i = 0; i < count; ++i) seen.insert(permuted(i, count, 5));

    EXPECT_EQ(std::ssize(seen), count);
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), count - 1);
  }
}

}  // namespace
}  // namespace lagom::text

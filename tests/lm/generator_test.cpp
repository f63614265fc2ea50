#include "lagom/lm/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/lm/reference.h"

namespace lagom::lm {
namespace {

using ::testing::ElementsAre;

std::vector<int32_t> draws(const SampleOptions& options, const std::vector<float>& logits,
                           const std::vector<int32_t>& seen = {}, int count = 2000) {
  TokenPicker picker(options);
  std::vector<int32_t> counts(logits.size(), 0);
  for (int i = 0; i < count; ++i) ++counts[static_cast<size_t>(picker.pick(logits, seen).token)];
  return counts;
}

// Probabilities 1/2, 1/4, 1/8, 1/8.
const std::vector<float> kHalves = {std::log(4.0F), std::log(2.0F), 0, 0};

TEST(TokenPickerTest, DrawsByProbability) {
  const auto counts = draws({.seed = 3}, kHalves, {}, 8000);
  EXPECT_NEAR(counts[0], 4000, 200);
  EXPECT_NEAR(counts[1], 2000, 160);
  EXPECT_NEAR(counts[2], 1000, 130);
  EXPECT_NEAR(counts[3], 1000, 130);
}

TEST(TokenPickerTest, CutsTheTail) {
  using Counts = std::vector<int32_t>;
  const auto zeros = [](const Counts& counts) {
    std::vector<bool> zero;
    for (const int32_t count : counts) zero.push_back(count == 0);
    return zero;
  };
  EXPECT_THAT(zeros(draws({.top_k = 2}, kHalves)), ElementsAre(false, false, true, true));
  EXPECT_THAT(zeros(draws({.top_p = 0.6}, kHalves)), ElementsAre(false, false, true, true));
  EXPECT_THAT(zeros(draws({.top_p = 0.4}, kHalves)), ElementsAre(false, true, true, true));
  // At least 0.3 of 1/2.
  EXPECT_THAT(zeros(draws({.min_p = 0.3}, kHalves)), ElementsAre(false, false, true, true));
  EXPECT_THAT(zeros(draws({.temperature = 0}, kHalves)), ElementsAre(false, true, true, true));
}

TEST(TokenPickerTest, TemperatureSharpensAndFlattens) {
  // Temperature 1/2 squares the odds: 16 : 4 : 1 : 1.
  EXPECT_NEAR(draws({.temperature = 0.5}, kHalves, {}, 8000)[0], 8000 * 16 / 22, 200);
}

TEST(TokenPickerTest, PenaltyLowersTokensThatWereSeen) {
  const std::vector<float> logits = {2, 1, -1};
  EXPECT_EQ(TokenPicker({.repetition_penalty = 3, .temperature = 0})
                .pick(logits, std::vector<int32_t>{0})
                .token,
            1);
  EXPECT_EQ(TokenPicker({.repetition_penalty = 3, .temperature = 0})
                .pick(std::vector<float>{-2, -1}, std::vector<int32_t>{1, 1})
                .token,
            0);
}

TEST(TokenPickerTest, LogProbabilitiesAreTheModelsOwn) {
  const auto pick = TokenPicker({.repetition_penalty = 2, .temperature = 0.1, .top_k = 1})
                        .pick(kHalves, std::vector<int32_t>{1});
  EXPECT_EQ(pick.token, 0);
  EXPECT_NEAR(pick.log_probability, std::log(0.5), 1e-6);
  const auto best = most_probable(kHalves, 3);
  EXPECT_EQ(best[1].token, 1);
  EXPECT_EQ(best[2].token, 2);
  EXPECT_NEAR(best[2].log_probability, std::log(0.125), 1e-6);
}

TEST(TokenPickerTest, OptionsOutOfRangeAreRefused) {
  for (const SampleOptions& options :
       {SampleOptions{.repetition_penalty = 0}, SampleOptions{.temperature = -1},
        SampleOptions{.top_p = 0}, SampleOptions{.top_p = 1.5}, SampleOptions{.min_p = 2},
        SampleOptions{.top_k = -1}, SampleOptions{.stop = {""}}}) {
    EXPECT_THROW(TokenPicker{options}, std::invalid_argument);
  }
}

/// Model, decoder and generator over bytes.
struct Writer {
  explicit Writer(int64_t seq_len = 64) : model(options(seq_len), 1), decoder(model, {}) {
    enlarge_weights(model, 2);
  }
  static LmOptions options(int64_t seq_len) {
    LmOptions o = small_options();
    o.vocab_size = 256;
    o.seq_len = seq_len;
    return o;
  }

  std::unique_ptr<text::Tokenizer> tokenizer = text::make_byte_tokenizer();
  Model model;
  Decoder decoder;
};

struct Collected {
  std::string text, finish_reason;
  std::vector<int32_t> tokens;
};

GenerationRequest request(const text::Tokenizer& tokenizer, const std::string& prompt,
                          const SampleOptions& options, Collected& into) {
  GenerationRequest r;
  r.prompt = tokenizer.encode(prompt);
  r.options = options;
  r.on_event = [&into](const GenerationEvent& event) {
    into.text += event.text;
    into.finish_reason = event.finish_reason;
    into.tokens.push_back(event.token);
    return true;
  };
  return r;
}

Collected write_alone(Writer& w, const std::string& prompt, const SampleOptions& options) {
  Collected result;
  Generator generator(w.decoder, *w.tokenizer);
  generator.add(request(*w.tokenizer, prompt, options, result));
  while (generator.step()) {
  }
  return result;
}

TEST(GeneratorTest, TextsDoNotDependOnTheirNeighbours) {
  Writer w;
  const SampleOptions options = {.max_tokens = 12, .seed = 5, .stop_at_end_of_text = false};
  const Collected alone = write_alone(w, "hello", options);
  EXPECT_EQ(alone.tokens.size(), 12U);
  EXPECT_EQ(alone.finish_reason, "length");

  Collected again, other, late;
  Generator generator(w.decoder, *w.tokenizer);
  generator.add(request(*w.tokenizer, "something longer", {.max_tokens = 3, .seed = 9}, other));
  generator.add(request(*w.tokenizer, "hello", options, again));
  generator.step();
  generator.step();
  generator.add(request(*w.tokenizer, "x", {.max_tokens = 20}, late));
  while (generator.step()) {
  }

  EXPECT_EQ(again.tokens, alone.tokens);
  EXPECT_LE(other.tokens.size(), 3U);
}

TEST(GeneratorTest, StopsBeforeAStopString) {
  Writer w;
  SampleOptions options = {.max_tokens = 30, .seed = 5, .stop_at_end_of_text = false};
  const Collected whole = write_alone(w, "ab", options);
  std::string raw;
  for (const int32_t token : whole.tokens) raw += static_cast<char>(token);
  options.stop = {raw.substr(6, 3)};

  const Collected stopped = write_alone(w, "ab", options);

  EXPECT_EQ(stopped.finish_reason, "stop");
  EXPECT_EQ(stopped.text, raw.substr(0, raw.find(raw.substr(6, 3))));
}

TEST(GeneratorTest, StopsWhenTheContextIsFull) {
  Writer w(10);
  const Collected result =
      write_alone(w, "12345678", {.max_tokens = 100, .stop_at_end_of_text = false});
  EXPECT_EQ(result.finish_reason, "length");
  EXPECT_EQ(result.tokens.size(), 3U);  // two that are read, and the one after them
}

TEST(GeneratorTest, PromptsThatDoNotFitAreRefused) {
  Writer w(10);
  Generator generator(w.decoder, *w.tokenizer);
  Collected result;
  EXPECT_THROW(generator.add(request(*w.tokenizer, "01234567890", {}, result)),
               std::invalid_argument);
  GenerationRequest beyond = request(*w.tokenizer, "a", {}, result);
  beyond.prompt = {256};
  EXPECT_THROW(generator.add(beyond), std::invalid_argument);
  EXPECT_EQ(generator.num_active(), 0);
}

TEST(GeneratorTest, NobodyReadsOn) {
  Writer w;
  Generator generator(w.decoder, *w.tokenizer);
  int events = 0;
  GenerationRequest r;
  r.prompt = {65};
  r.on_event = [&](const GenerationEvent&) { return ++events < 3; };
  generator.add(std::move(r));
  while (generator.step()) {
  }
  EXPECT_EQ(events, 3);
}

}  // namespace
}  // namespace lagom::lm

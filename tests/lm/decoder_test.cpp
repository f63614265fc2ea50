#include "lagom/lm/decoder.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "lagom/lm/decode_attention.h"
#include "lagom/lm/decode_matrix.h"
#include "lagom/lm/flops.h"
#include "tests/lm/reference.h"

namespace lagom::lm {
namespace {

using at::Tensor;

std::vector<int32_t> row_tokens(const Tensor& tokens, int64_t row) {
  std::vector<int32_t> out;
  for (int64_t t = 0; t < tokens.size(1); ++t) out.push_back(tokens[row][t].item<int32_t>());
  return out;
}

Tensor to_tensor(std::span<const float> logits, int64_t vocab) {
  Tensor out = at::empty({std::ssize(logits) / vocab, vocab});
  std::copy(logits.begin(), logits.end(), out.mutable_data_ptr<float>());
  return out;
}

/// Token-by-token logits of one row, [T, V].
Tensor decode_one_by_one(Decoder& decoder, int64_t row, std::span<const int32_t> tokens) {
  std::vector<Tensor> all;
  for (const int32_t& token : tokens) {
    const DecodeInput input = {row, {&token, 1}};
    all.push_back(to_tensor(decoder.step({&input, 1}), decoder.model_options().vocab_size));
  }
  return at::cat(all);
}

/// Decoding in any steps against one causal forward pass.
void expect_decoding_equals_forward(const LmOptions& options, Routing routing, bool hard_cap) {
  Model model(options, 1);
  enlarge_weights(model, 2);
  if (options.num_routed() > 0) {
    model.calibrated_thresholds.fill_(0.1);
    model.ema_thresholds.fill_(-0.1);
  }
  if (model.ema_expert_thresholds.defined()) {
    model.calibrated_expert_thresholds.fill_(0.3);
    model.ema_expert_thresholds.fill_(0.2);
  }
  const Tensor tokens = random_tokens(3, 23, options.vocab_size, 3);
  const Tensor expected =
      model.logits(model.forward(tokens, {.routing = routing, .hard_cap = hard_cap}).hidden);

  Decoder decoder(model, {.routing = routing, .hard_cap = hard_cap});
  for (int64_t b = 0; b < 3; ++b) {
    const auto row = row_tokens(tokens, b);
    const int64_t alone = decoder.add_row(), whole = decoder.add_row();
    EXPECT_LT(max_difference(decode_one_by_one(decoder, alone, row), expected[b]), 3e-4);
    const DecodeInput prompt = {whole, row};
    EXPECT_LT(max_difference(to_tensor(decoder.step({&prompt, 1}, true), options.vocab_size),
                             expected[b]),
              3e-4);
  }
  // Rows 1 and 3 hold all of the second sequence and the third; a row that joins late and rows that
  // read several tokens at once do not disturb each other.
  const int64_t first = decoder.add_row(), second = decoder.add_row();
  const auto a = row_tokens(tokens, 0), c = row_tokens(tokens, 2);
  const DecodeInput start = {first, std::span(a).first(5)};
  decoder.step({&start, 1});
  const DecodeInput both[] = {{second, std::span(c).first(11)},
                              {first, std::span(a).subspan(5, 2)}};
  const Tensor last = to_tensor(decoder.step(both), options.vocab_size);
  EXPECT_LT(max_difference(last[0], expected[2][10]), 3e-4);
  EXPECT_LT(max_difference(last[1], expected[0][6]), 3e-4);
}

TEST(DecoderTest, EqualsCausalForwardUnderEveryRule) {
  for (const Routing routing :
       {Routing::kPredictor, Routing::kRouter, Routing::kThreshold, Routing::kEma}) {
    expect_decoding_equals_forward(small_options(), routing, false);
    expect_decoding_equals_forward(small_options(), routing, true);
  }
}

TEST(DecoderTest, EqualsCausalForwardForEveryVariant) {
  LmOptions options = small_options();
  options.routing.every = 0;
  expect_decoding_equals_forward(options, Routing::kTopK, false);
  options = small_options();
  options.activation = Activation::kSwiglu;
  options.num_kv_heads = 2;
  options.routing.positions = RoutedPositions::kRank;
  expect_decoding_equals_forward(options, Routing::kPredictor, false);
  options.bias = true;
  options.norm = Norm::kLayer;
  options.positions = Positions::kLearned;
  options.tied_head = false;
  for (const Gate gate : {Gate::kRaw, Gate::kSigmoid, Gate::kTanh, Gate::kNone}) {
    options.routing.gate = gate;
    expect_decoding_equals_forward(options, Routing::kPredictor, false);
  }
  for (const Selection selection : {Selection::kRandom, Selection::kGaussian}) {
    options.routing.selection = selection;
    expect_decoding_equals_forward(options, Routing::kRouter, false);
  }
}

TEST(DecoderTest, ExpertsEqualCausalForward) {
  for (const bool staged : {false, true}) {
    LmOptions options = small_expert_options(ExpertChoice::kExpert, staged);
    for (const Routing routing : {Routing::kPredictor, Routing::kThreshold, Routing::kEma}) {
      expect_decoding_equals_forward(options, routing, false);
      expect_decoding_equals_forward(options, routing, true);
    }
    options = small_expert_options(ExpertChoice::kToken, staged);
    expect_decoding_equals_forward(options, Routing::kPredictor, false);
    options.experts.per_token = 2;
    options.experts.token_cap = 0.5;
    options.activation = Activation::kSwiglu;
    options.routing.positions = RoutedPositions::kRank;
    expect_decoding_equals_forward(options, Routing::kPredictor, true);
  }
}

TEST(DecoderTest, ExpertsThatTokensChooseNeedNoOtherRule) {
  // Nothing looks ahead in such a model: what it is trained with is what is sampled.
  expect_decoding_equals_forward(small_expert_options(ExpertChoice::kToken, false), Routing::kTopK,
                                 false);
  const Model model(small_expert_options(ExpertChoice::kExpert, false), 1);
  EXPECT_THROW(Decoder(model, {.routing = Routing::kTopK}), std::invalid_argument);
  EXPECT_THROW(Decoder(model, {.routing = Routing::kRouter}), c10::ValueError);
  EXPECT_THROW(Decoder(model, {.routing = Routing::kEma}), c10::ValueError);
}

TEST(DecoderTest, EmptyAndFullRoutedCachesWork) {
  for (const float threshold : {1e30F, -1e30F}) {
    Model model(small_options(), 1);
    enlarge_weights(model, 2);
    model.calibrated_thresholds.fill_(threshold);
    const Tensor tokens = random_tokens(1, 9, 31, 3);
    const Tensor expected =
        model.logits(model.forward(tokens, {.routing = Routing::kThreshold}).hidden);
    Decoder decoder(model, {.routing = Routing::kThreshold});
    const int64_t row = decoder.add_row();

    const Tensor logits = decode_one_by_one(decoder, row, row_tokens(tokens, 0));

    EXPECT_LT(max_difference(logits, expected[0]), 3e-4);
    const int64_t entered = threshold > 0 ? 0 : 9;
    EXPECT_EQ(decoder.cached_tokens(row), (std::vector<int64_t>{9, entered, 9, entered}));
    EXPECT_EQ(decoder.kv_bytes(row), kv_bytes(model.options(), 9, entered));
  }
}

TEST(DecoderTest, StoresOnlyRoutedTokens) {
  Model model(small_options(), 1);
  enlarge_weights(model, 2);
  const Tensor tokens = random_tokens(1, 20, 31, 3);
  const ForwardResult result = model.forward(tokens, {.routing = Routing::kRouter});
  Decoder decoder(model, {.routing = Routing::kRouter});
  const int64_t row = decoder.add_row();
  const auto prompt = row_tokens(tokens, 0);
  const DecodeInput input = {row, prompt};
  decoder.step({&input, 1});

  const auto cached = decoder.cached_tokens(row);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(cached[2 * i + 1], result.routed[i].chosen.sum().item<int64_t>());
    for (int64_t t = 0; t < 20; ++t) {
      EXPECT_EQ(decoder.routes()[static_cast<size_t>(t) * 2 + i] != 0,
                result.routed[i].chosen[0][t].item<bool>());
    }
  }
  const int64_t total = std::accumulate(cached.begin(), cached.end(), int64_t{0});
  EXPECT_EQ(decoder.kv_bytes(row), 2 * total * 32 * 4);
}

TEST(DecoderTest, SmallerWeightsStayCloseToTheModel) {
  Model model(small_options(), 1);
  enlarge_weights(model, 2);
  const auto tokens = row_tokens(random_tokens(1, 20, 31, 3), 0);
  std::vector<Tensor> logits;
  for (const WeightFormat format :
       {WeightFormat::kFloat32, WeightFormat::kBfloat16, WeightFormat::kInt8}) {
    Decoder decoder(model, {.routing = Routing::kPredictor, .hard_cap = true, .weights = format});
    logits.push_back(decode_one_by_one(decoder, decoder.add_row(), tokens));
  }
  const double scale = logits[0].abs().max().item<double>();
  EXPECT_LT(max_difference(logits[1], logits[0]), 0.05 * scale);
  EXPECT_LT(max_difference(logits[2], logits[0]), 0.05 * scale);
}

TEST(DecoderTest, PromptsInBfloat16StayCloseWhateverOtherRowsRead) {
  LmOptions options = small_options();
  options.num_kv_heads = 2;
  Model model(options, 1);
  enlarge_weights(model, 2);
  model.calibrated_thresholds.fill_(-1e30F);  // a rounded score may choose another token
  const auto tokens = row_tokens(random_tokens(1, 23, 31, 3), 0);
  const auto read = [&](WeightFormat format, bool with_others) {
    Decoder decoder(model, {.routing = Routing::kThreshold, .weights = format});
    const int64_t before = decoder.add_row(), row = decoder.add_row(), after = decoder.add_row();
    const std::span<const int32_t> all(tokens);
    const DecodeInput start = {row, all.first(3)};
    decoder.step({&start, 1});
    const DecodeInput inputs[] = {
        {before, all.first(1)}, {row, all.subspan(3)}, {after, all.first(2)}};
    const size_t own = with_others ? 1 : 0;
    const auto step = with_others ? std::span(inputs) : std::span(inputs).subspan(1, 1);
    return to_tensor(decoder.step(step), 31)[static_cast<int64_t>(own)];
  };
  const Tensor exact = read(WeightFormat::kFloat32, false);
  const Tensor alone = read(WeightFormat::kBfloat16, false);
  EXPECT_LT(max_difference(alone, exact), 0.05 * exact.abs().max().item<double>());
  EXPECT_LT(max_difference(read(WeightFormat::kBfloat16, true), alone), 1e-5);
}

TEST(DecoderTest, RefusesWhatItCannotRead) {
  const Model model(small_options(), 1);
  EXPECT_THROW(Decoder(model, {.routing = Routing::kTopK}), std::invalid_argument);
  EXPECT_THROW(Decoder(model, {.routing = Routing::kThreshold}), c10::ValueError);
  Decoder decoder(model, {});
  const int64_t row = decoder.add_row();
  const std::vector<int32_t> beyond = {31}, negative = {-1}, too_long(25, 0);
  for (const auto* tokens : {&beyond, &negative, &too_long}) {
    const DecodeInput input = {row, *tokens};
    EXPECT_THROW(decoder.step({&input, 1}), c10::ValueError);
    EXPECT_EQ(decoder.length(row), 0);
  }
  const std::vector<int32_t> good = {3};
  const DecodeInput gone = {row + 7, good};
  EXPECT_THROW(decoder.step({&gone, 1}), c10::ValueError);
}

/// The largest difference between a product in a format with random tokens and the
/// product in double of what the format makes of the weight.
double product_error(WeightFormat format, const Tensor& weight, const Tensor& rounded,
                     int64_t count) {
  const Tensor x = at::rand({count, weight.size(1)}) * 2 - 1, bias = at::rand({weight.size(0)});
  const DecodeMatrix matrix({weight, bias}, format);
  std::vector<float> y;
  matrix(x.const_data_ptr<float>(), count, y);
  const Tensor expected = at::matmul(x.to(at::kDouble), rounded.to(at::kDouble).t()) + bias;
  return max_difference(to_tensor(y, weight.size(0)).to(at::kDouble), expected);
}

TEST(DecodeMatrixTest, ProductsEqualThoseInDouble) {
  at::manual_seed(1);
  for (const int64_t count : {1, 2, 3, 5, 8, 15, 20}) {
    for (const auto& [in, out] :
         {std::pair<int64_t, int64_t>{16, 4}, {37, 7}, {1, 1}, {130, 33}, {64, 96}}) {
      const Tensor w = at::rand({out, in}) * 2 - 1;
      // Whole 127ths of the row's peak, which int8 keeps as they are.
      Tensor whole = at::randint(-127, 128, {out, in});
      whole.select(1, 0).fill_(127);
      const Tensor steps = whole * (at::rand({out, 1}) + 0.5) / 127;
      EXPECT_LT(product_error(WeightFormat::kFloat32, w, w, count), 1e-5);
      EXPECT_LT(product_error(WeightFormat::kBfloat16, w, w.to(at::kBFloat16), count), 1e-5);
      // Tokens may be rounded to 32767ths: in a sum of 130, 130 / 65534 at the very worst.
      EXPECT_LT(product_error(WeightFormat::kInt8, steps, steps, count), 5e-4);
    }
  }
}

TEST(DecodeMatrixTest, TokensOfPromptsAreRoundedAndOthersAreNot) {
  at::manual_seed(2);
  // Around the tiles of 12 and 4 tokens, and sizes that fill neither words nor groups.
  for (const int64_t count : {1, 4, 12, 13, 30, 145}) {
    for (const auto& [in, out] :
         {std::pair<int64_t, int64_t>{37, 7}, {1, 1}, {130, 33}, {64, 96}}) {
      const Tensor weight = at::rand({out, in}) * 2 - 1, x = at::rand({count + 2, in}) * 2 - 1;
      const DecodeMatrix matrix({weight, at::rand({out})}, WeightFormat::kBfloat16);
      std::vector<float> plain, of_rounded, mixed;
      const Tensor rounded = x.to(at::kBFloat16).to(at::kFloat);
      matrix(x.const_data_ptr<float>(), count + 2, plain);
      matrix(rounded.const_data_ptr<float>(), count + 2, of_rounded);
      const TokenRun runs[] = {{0, 1, false}, {1, count + 1, true}, {count + 1, count + 2, false}};

      matrix(x.const_data_ptr<float>(), count + 2, mixed, runs);

      if (!kernels::has_rounded_products()) of_rounded = plain;
      for (int64_t t = 0; t < count + 2; ++t) {
        const auto& expected = t == 0 || t == count + 1 ? plain : of_rounded;
        for (int64_t o = 0; o < out; ++o) {
          const auto at = static_cast<size_t>(t * out + o);
          ASSERT_NEAR(mixed[at], expected[at], 2e-5) << count << " " << in << " " << out;
        }
      }
    }
  }
}

TEST(DecodeAttentionTest, BlocksOfQueriesEqualOneAtATime) {
  at::manual_seed(3);
  constexpr int64_t kHeads = 4, kKvHeads = 2;
  for (const int64_t d : {8, 33}) {
    for (const auto& [count, seen] :
         {std::pair<int64_t, int64_t>{1, 1}, {17, 9}, {150, 1}, {70, 80}}) {
      const int64_t width = (kHeads + 1) * d, length = seen + count - 1;
      const Tensor queries = at::randn({count, width}), keys = at::randn({length, kKvHeads * d}),
                   values = at::randn({length, kKvHeads * d});
      std::vector<Tensor> rows;
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t head = 0; head < kHeads; ++head) {
          const int64_t column = head / (kHeads / kKvHeads) * d;
          const auto part = [&](const Tensor& t) {
            return t.slice(0, 0, seen + i).slice(1, column, column + d).to(at::kDouble);
          };
          const Tensor query = queries[i].slice(0, head * d, (head + 1) * d).to(at::kDouble);
          const Tensor scores = at::mv(part(keys), query) / std::sqrt(static_cast<double>(d));
          rows.push_back(at::mv(part(values).t(), at::softmax(scores, 0)));
        }
      }
      const Tensor expected = at::cat(rows).view({count, kHeads * d});
      for (const bool is_rounded : {false, true}) {
        Tensor out = at::full({count, kHeads * d}, NAN);

        attend_in_blocks({.queries = queries.const_data_ptr<float>(),
                          .query_stride = width,
                          .count = count,
                          .keys = keys.const_data_ptr<float>(),
                          .values = values.const_data_ptr<float>(),
                          .first_seen = seen,
                          .heads = kHeads,
                          .kv_heads = kKvHeads,
                          .head_dim = d,
                          .rounded = is_rounded,
                          .out = out.mutable_data_ptr<float>()});

        // Scores of up to about 4 * 4 are rounded to 8 bits.
        EXPECT_LT(max_difference(out.to(at::kDouble), expected), is_rounded ? 0.1 : 1e-5)
            << d << " " << count << " " << seen;
      }
    }
  }
}

TEST(DecodeMatrixTest, Int8ProductsReachTheEndsOfIntegers) {
  // The largest sum of all: 4096 times the peak of the weights and of the token.
  const Tensor weight = at::ones({3, 4096});
  const DecodeMatrix matrix({weight, {}}, WeightFormat::kInt8);
  std::vector<float> y;
  for (const float value : {2.0F, -2.0F, 0.0F}) {
    const std::vector<float> x(4096, value);

    matrix(x.data(), 1, y);

    EXPECT_NEAR(y[2], 4096 * value, 1e-3 * 4096);
  }
  std::vector<float> x(4096, 1.0F);
  x[77] = NAN;
  matrix(x.data(), 1, y);
  EXPECT_TRUE(std::isnan(y[0]));
}

TEST(DecodeKernelsTest, PacksGroupsByColumns) {
  // 33 rows of 5 columns: two groups, of which the second has one row; two words to a row.
  std::vector<float> weight(33 * 5);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i % 5) - 2;
  std::vector<float> scales(33);
  std::vector<uint32_t> words(2 * 2 * 32, 0xFFFFFFFF);

  kernels::pack_i8(weight.data(), 5, 33, 0, 2, words.data(), scales.data());

  EXPECT_EQ(scales[0], 2.0F / 127);
  EXPECT_EQ(words[0], 0x4000C081U);   // -127, -64 (-63.5), 0, 64
  EXPECT_EQ(words[32], 0x0000007FU);  // 127 and nothing
  EXPECT_EQ(words[64], words[0]);
  EXPECT_EQ(words[65], 0U);
  EXPECT_EQ(words[127], 0U);
}

}  // namespace
}  // namespace lagom::lm

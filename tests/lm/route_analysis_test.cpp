#include "lagom/lm/route_analysis.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lagom/lm/dial.h"
#include "lagom/lm/route_report.h"
#include "tests/lm/reference.h"
#include "tests/testing/command.h"

namespace lagom::lm {
namespace {

using at::Tensor;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Two windows of five tokens, "Hi a\n" and "b2 .c", and two blocks.
RouteTable hand_table() {
  RouteTable table;
  table.length = 5;
  for (const char c : std::string("Hi a\nb2 .c")) table.tokens.push_back(c);
  table.entropy = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  table.loss = {10, 9, 8, 7, 6, 5, 4, 3, 2, 1};
  table.layers.resize(2);
  table.layers[0] = {.layer = 1,
                     .scores = {0.9F, 0.1F, 0.2F, 0.8F, 0.3F, 0.7F, 0.1F, 0.0F, 0.6F, 0.2F},
                     .chosen = {1, 0, 0, 1, 0, 1, 0, 0, 1, 0},
                     .predicted = {1, 0, 0, 0, 1, 1, 0, 0, 1, 0}};
  table.layers[1] = {.layer = 3,
                     .scores = {2, 1, 0, 0, 0, 0, 0, 0, 0, 3},
                     .chosen = {1, 1, 0, 0, 0, 0, 0, 0, 0, 1},
                     .predicted = {}};
  return table;
}

TEST(RouteAnalysisTest, CountsByHand) {
  const auto tokenizer = text::make_byte_tokenizer();
  const RouteAnalysis a = analyze_routes(hand_table(), *tokenizer);

  EXPECT_EQ(a.tokens, 10);
  EXPECT_EQ(a.windows, 2);
  ASSERT_EQ(a.layers.size(), 2U);
  const LayerRoutes& first = a.layers[0];
  EXPECT_EQ(first.layer, 1);
  EXPECT_DOUBLE_EQ(first.rate, 0.4);
  // The smallest that entered: 0.8 and 0.6.
  EXPECT_NEAR(first.threshold_mean, 0.7, 1e-6);
  EXPECT_NEAR(first.threshold_deviation, 0.2 / std::sqrt(2.0), 1e-6);
  EXPECT_NEAR(first.threshold_low, 0.6, 1e-6);
  EXPECT_EQ(first.predictor.true_positive, 3);
  EXPECT_EQ(first.predictor.false_positive, 1);
  EXPECT_EQ(first.predictor.false_negative, 1);
  EXPECT_EQ(first.predictor.true_negative, 5);
  EXPECT_EQ(a.layers[1].predictor.total(), 0);
  // Five tokens to a window stand in every second tenth; the first and the fourth enter block 1.
  EXPECT_DOUBLE_EQ(first.rate_by_position[0], 1);
  EXPECT_DOUBLE_EQ(first.rate_by_position[2], 0);
  EXPECT_DOUBLE_EQ(first.rate_by_position[6], 1);
  EXPECT_TRUE(std::isnan(first.rate_by_position[1]));

  // None: tokens 2, 4, 6, 7; two: only token 0.
  EXPECT_EQ(a.blocks_per_token, (std::vector<int64_t>{4, 5, 1}));
  EXPECT_THAT(a.independent_blocks, ElementsAre(DoubleNear(0.42, 1e-12), DoubleNear(0.46, 1e-12),
                                                DoubleNear(0.12, 1e-12)));
  EXPECT_DOUBLE_EQ(a.overlap[0][1], 0.25);
  EXPECT_DOUBLE_EQ(a.overlap[1][0], 1.0 / 3);
  EXPECT_DOUBLE_EQ(a.overlap[1][1], 1);
  // Entropy and loss run against each other.
  EXPECT_NEAR(a.blocks_entropy.rho, -a.blocks_loss.rho, 1e-12);
}

TEST(RouteAnalysisTest, CorrelationEqualsScipys) {
  // scipy.stats.spearmanr([2,1,0,1,0,1,0,0,1,1], range(10))
  const auto tokenizer = text::make_byte_tokenizer();
  EXPECT_NEAR(analyze_routes(hand_table(), *tokenizer).blocks_entropy.rho, -0.2412090756622109,
              1e-9);
}

TEST(RouteAnalysisTest, ClassesOfTokens) {
  EXPECT_EQ(token_class("H", ' '), TokenClass::kWordStart);
  EXPECT_EQ(token_class("i", 'H'), TokenClass::kInWord);
  EXPECT_EQ(token_class(" the", 'x'), TokenClass::kWordStart);
  EXPECT_EQ(token_class("ing", 'k'), TokenClass::kInWord);
  EXPECT_EQ(token_class("7th", ' '), TokenClass::kDigit);
  EXPECT_EQ(token_class(" (", ' '), TokenClass::kPunctuation);
  EXPECT_EQ(token_class("  ", 'a'), TokenClass::kSpace);
  EXPECT_EQ(token_class(" \n", 'a'), TokenClass::kNewline);
  EXPECT_EQ(token_class("\xC3\xA9", 'a'), TokenClass::kOther);
  EXPECT_EQ(token_class(std::string_view("\0", 1), 'a'), TokenClass::kOther);
  EXPECT_EQ(token_class("", 'a'), TokenClass::kSpace);

  const auto tokenizer = text::make_byte_tokenizer();
  const RouteAnalysis a = analyze_routes(hand_table(), *tokenizer);
  const auto of = [&](TokenClass c) { return a.classes[static_cast<size_t>(c)]; };
  EXPECT_EQ(of(TokenClass::kWordStart).count, 4);  // H, a, b, c
  EXPECT_DOUBLE_EQ(of(TokenClass::kWordStart).blocks, 5.0 / 4);
  EXPECT_DOUBLE_EQ(of(TokenClass::kWordStart).entropy, (1 + 4 + 6 + 10) / 4.0);
  EXPECT_EQ(of(TokenClass::kDigit).count, 1);
  EXPECT_EQ(of(TokenClass::kOther).count, 0);
}

TEST(RouteAnalysisTest, MapShowsWhatEntered) {
  const auto tokenizer = text::make_byte_tokenizer();
  const std::string map = route_map_text(hand_table(), *tokenizer, 0, 3);
  // Block 1's weights of the window: 0.9 0.1 0.2 | 0.8 0.3, ranks 5 1 2 | 4 3 of 5.
  EXPECT_EQ(map,
            "      Hi \n"
            "   1  █ ░\n"
            "   3  ██░\n"
            "      a⏎\n"
            "   1  █▒\n"
            "   3  ░░\n");
  EXPECT_THROW(route_map_text(hand_table(), *tokenizer, 2), std::out_of_range);
}

TEST(RouteAnalysisTest, PageHoldsEveryPart) {
  const auto tokenizer = text::make_byte_tokenizer();
  const RouteTable table = hand_table();
  const RouteAnalysis a = analyze_routes(table, *tokenizer);
  const std::vector<RouteControl> controls = {{"learned", 1.5, 1}, {"random", 1.8, 0.125}};
  const std::string page = routes_html("a <model>", table, a, controls, *tokenizer, 1);
  for (const char* part :
       {"a &lt;model&gt;", "word start", "+20.00", "router weight in block 3", "Overlap", "12.5"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(routes_text(a, controls), HasSubstr("learned"));
}

/// A model, and a text of a pattern and noise.
class RoutesOfAModel : public ::testing::Test {
 protected:
  RoutesOfAModel() : model_(options(), 1), tokenizer_(text::make_byte_tokenizer()) {
    enlarge_weights(model_, 2);
    std::string text;
    uint64_t state = 1;
    for (int i = 0; i < 24 * 12 + 1; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      text += static_cast<char>('a' + (i % 3 == 0 ? 0 : (state >> 60)));
    }
    DataOptions data;
    data.train = data.validation = folder_.write("text.txt", text);
    data_ = std::make_unique<LmData>(open_data(data, folder_.path()));
  }
  static LmOptions options() {
    LmOptions options = small_options();
    options.vocab_size = 256;
    return options;
  }
  const TokenRange& text() const { return data_->validation; }

  testing::TemporaryFolder folder_;
  Model model_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<LmData> data_;
};

TEST_F(RoutesOfAModel, TableHoldsWhatTheModelDecided) {
  const EvaluationOptions options = {.batch = 5};
  const RouteTable table = record_routes(model_, text(), *tokenizer_, options);

  ASSERT_EQ(table.num_windows(), 12);
  const Evaluation evaluation = evaluate(model_, text(), *tokenizer_, options);
  double loss = 0;
  for (const double nats : table.loss) loss += nats / static_cast<double>(table.size());
  EXPECT_NEAR(loss, evaluation.loss, 1e-5);
  const RouteAnalysis analysis = analyze_routes(table, *tokenizer_);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_DOUBLE_EQ(analysis.layers[i].rate, evaluation.rates[i]);
    EXPECT_EQ(analysis.layers[i].predictor.true_positive, evaluation.predictions[i].true_positive);
    EXPECT_EQ(analysis.layers[i].predictor.false_negative,
              evaluation.predictions[i].false_negative);
  }
  const LmBatch batch = text().batch(std::vector<int64_t>{0}, 24, 256, std::nullopt);
  const Tensor logits = model_.logits(model_.forward(batch.tokens).hidden[0]);
  const Tensor p = at::softmax(logits, -1);
  EXPECT_NEAR(table.entropy[7], -(p[7] * p[7].log()).sum().item<double>(), 1e-4);
}

TEST_F(RoutesOfAModel, ControlsKnowWhatTheyMayKnow) {
  const EvaluationOptions options = {.batch = 5};  // a batch holds the middle
  const RouteTable table = record_routes(model_, text(), *tokenizer_, options);

  const auto controls = route_controls(model_, text(), *tokenizer_, options, table);

  ASSERT_EQ(controls.size(), 5U);
  EXPECT_EQ(controls[0].name, "learned");
  EXPECT_DOUBLE_EQ(controls[0].overlap, 1);
  double loss = 0;
  for (int64_t i = 6 * 24; i < 12 * 24; ++i) loss += table.loss[static_cast<size_t>(i)];
  EXPECT_NEAR(controls[0].loss, loss / (6 * 24), 1e-5);
  for (const RouteControl& control : controls) {
    EXPECT_GE(control.overlap, 0);
    EXPECT_LE(control.overlap, 1);
  }
  EXPECT_THROW(route_controls(model_, text(), *tokenizer_, {.routing = Routing::kPredictor}, table),
               std::invalid_argument);
}

TEST_F(RoutesOfAModel, ARouterThatOnlySeesTheTokenIsTheTokenControl) {
  // Without attention and MLP a stream is the token's embedding alone, so that the learned router
  // chooses by token, ties by position; the control breaks ties at random.
  {
    const at::NoGradGuard no_grad;
    for (NamedTensor& parameter : model_.parameters()) {
      if (parameter.name.ends_with("attention_out.weight") ||
          parameter.name.ends_with("mlp_out.weight")) {
        parameter.value.zero_();
      }
    }
  }
  const EvaluationOptions options = {.batch = 4};
  const RouteTable table = record_routes(model_, text(), *tokenizer_, options);
  const auto controls = route_controls(model_, text(), *tokenizer_, options, table);
  EXPECT_NEAR(controls[2].loss, controls[0].loss, 1e-6);  // blocks do nothing
  EXPECT_GT(controls[2].overlap, controls[4].overlap + 0.3);
}

TEST_F(RoutesOfAModel, ChosenByOtherScores) {
  const Tensor tokens = random_tokens(2, 24, 31, 3);
  PassOptions pass;
  for (int i = 0; i < 2; ++i) {
    pass.selection_scores.push_back(at::arange(24, at::kFloat).repeat({2, 1}));
  }
  const ForwardResult result = model_.forward(tokens, pass);
  const Tensor last = at::arange(24) >= 18;  // a quarter
  for (const RoutedLayer& layer : result.routed) {
    EXPECT_TRUE(at::equal(layer.chosen[0], last));
    EXPECT_TRUE(at::equal(layer.chosen[1], last));
  }
}

TEST_F(RoutesOfAModel, DialLetsInWhatItSays) {
  const Tensor before = model_.calibrated_thresholds.clone();
  const std::vector<double> rates = {0.5, 1, 8};
  const auto points = turn_dial(model_, text(), *tokenizer_, {.batch = 4}, rates);

  ASSERT_EQ(points.size(), 3U);
  EXPECT_DOUBLE_EQ(points[0].share, 0.125);
  EXPECT_DOUBLE_EQ(points[2].share, 1);
  EXPECT_EQ(points[0].evaluation.tokens, 6 * 24);  // the second half
  EXPECT_LT(points[0].kv_bytes, points[2].kv_bytes);
  EXPECT_EQ(points[2].kv_bytes, 2 * 4 * 24 * 32 * 4);  // as a dense model
  for (const double rate : points[2].evaluation.rates) EXPECT_GT(rate, 0.9);
  EXPECT_GT(points[0].tokens_per_second, 0);
  EXPECT_TRUE(at::allclose(model_.calibrated_thresholds, before, 0, 0, /*equal_nan=*/true));

  EXPECT_THROW(turn_dial(model_, text(), *tokenizer_, {}, std::vector<double>{0}),
               std::invalid_argument);
  EXPECT_THROW(turn_dial(model_, text(), *tokenizer_, {.max_windows = 1}, rates),
               std::invalid_argument);
}

TEST_F(RoutesOfAModel, ExpertsThatPassTokensByAreRoutesToo) {
  LmOptions options = small_expert_options(ExpertChoice::kExpert, true);
  options.vocab_size = 256;
  Model model(options, 1);
  const RouteTable table = record_routes(model, text(), *tokenizer_, {.batch = 4});
  ASSERT_EQ(table.layers.size(), 3U);  // blocks 1 and 3, and the experts of block 2
  EXPECT_TRUE(table.layers[2].experts);
  EXPECT_EQ(table.layers[2].layer, 2);
  const Evaluation evaluation = evaluate(model, text(), *tokenizer_, {.batch = 4});
  const RouteAnalysis analysis = analyze_routes(table, *tokenizer_);
  const ExpertLoad& load = evaluation.experts[1];
  EXPECT_DOUBLE_EQ(analysis.layers[2].rate,
                   1 - static_cast<double>(load.untouched) / static_cast<double>(load.tokens));
  EXPECT_EQ(route_controls(model, text(), *tokenizer_, {.batch = 4}, table).size(), 5U);
}

TEST_F(RoutesOfAModel, EachExpertsShareIsItsLoad) {
  for (const ExpertChoice choice : {ExpertChoice::kExpert, ExpertChoice::kToken}) {
    LmOptions options = small_expert_options(choice, true);
    options.vocab_size = 256;
    Model model(options, 1);
    enlarge_weights(model, 2);
    const Evaluation evaluation = evaluate(model, text(), *tokenizer_, {.batch = 4});

    const RouteTable table = record_routes(model, text(), *tokenizer_, {.batch = 4});
    const RouteAnalysis analysis = analyze_routes(table, *tokenizer_);

    const auto experts = static_cast<size_t>(options.experts.count);
    ASSERT_EQ(analysis.experts.size(), evaluation.experts.size() * experts);
    bool has_staged = false;
    for (size_t i = 0; i < analysis.experts.size(); ++i) {
      const ExpertRoutes& expert = analysis.experts[i];
      const ExpertLoad& load = evaluation.experts[i / experts];
      has_staged = has_staged || options.is_routed(expert.layer);
      EXPECT_EQ(expert.layer, load.layer);
      EXPECT_EQ(expert.expert, static_cast<int64_t>(i % experts));
      EXPECT_DOUBLE_EQ(expert.rate, static_cast<double>(load.taken[i % experts]) /
                                        static_cast<double>(load.tokens));
      // Classes' shares make the whole: tokens that reached the block, class by class.
      const RouteTable::Experts& reached = table.experts[i / experts];
      double sum = 0;
      for (size_t k = 0; k < reached.places.size(); ++k) {
        sum += reached.taken[k * experts + i % experts];
      }
      EXPECT_DOUBLE_EQ(expert.rate, sum / static_cast<double>(reached.places.size()));
    }
    EXPECT_TRUE(has_staged);
    EXPECT_THAT(routes_text(analysis, {}), HasSubstr("Experts"));
  }
}

TEST_F(RoutesOfAModel, NothingToLookAtIsAnError) {
  LmOptions dense = options();
  dense.routing.every = 0;
  Model model(dense, 1);
  EXPECT_THROW(record_routes(model, text(), *tokenizer_, {}), std::invalid_argument);
  EXPECT_THROW(turn_dial(model, text(), *tokenizer_, {}, std::vector<double>{1}),
               std::invalid_argument);
  EXPECT_THROW(analyze_routes({}, *tokenizer_), std::invalid_argument);
}

}  // namespace
}  // namespace lagom::lm

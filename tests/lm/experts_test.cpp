#include "lagom/lm/experts.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lagom/lm/flops.h"
#include "lagom/lm/model.h"
#include "lagom/lm/ops.h"
#include "tests/lm/reference.h"

namespace lagom::lm {
namespace {

using at::Tensor;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ExpertsTest, GroupedLinearEqualsALoopOverRows) {
  const std::vector<int64_t> offsets = {0, 3, 3, 7};  // the second expert has no rows
  const Tensor x = at::randn({7, 5}).requires_grad_(true);
  const Tensor w = at::randn({3, 4, 5}).requires_grad_(true);
  const auto gradients = [&](const Tensor& y) {
    x.mutable_grad() = Tensor();
    w.mutable_grad() = Tensor();
    (y * at::linspace(-1, 1, y.numel()).view_as(y)).sum().backward();
    return std::vector<Tensor>{y, x.grad(), w.grad()};
  };

  const auto ours = gradients(grouped_linear(x, w, offsets));
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < 7; ++i) rows.push_back(at::mv(w[i < 3 ? 0 : 2], x[i]));
  const auto expected = gradients(at::stack(rows));

  for (size_t i = 0; i < ours.size(); ++i) EXPECT_LT(max_difference(ours[i], expected[i]), 1e-5);
  EXPECT_THROW(grouped_linear(x, w, {0, 3, 3, 6}), c10::ValueError);
}

TEST(ExpertsTest, AnExpertTakesItsShareRoundedUp) {
  LmOptions options;
  options.experts.count = 3;
  EXPECT_EQ(options.expert_tokens(24), 8);
  EXPECT_EQ(options.expert_tokens(25), 9);  // ceil(8.33)
  EXPECT_EQ(options.expert_tokens(1), 1);
  options.experts.no_ops = 5;
  EXPECT_EQ(options.expert_tokens(24), 3);
  options.experts.capacity = 1.25;
  EXPECT_EQ(options.expert_tokens(24), 4);  // ceil(3.75)
  options.experts.capacity = 8;
  EXPECT_EQ(options.expert_tokens(24), 24);
}

TEST(ExpertsTest, ExpertsTakeTheirBestTokensOfEachSequence) {
  const LmOptions options = small_expert_options(ExpertChoice::kExpert, false);
  Model model(options, 1);
  enlarge_weights(model, 2);
  const ForwardResult result = model.forward(random_tokens(2, 22, 31, 3));
  ASSERT_EQ(result.experts.size(), 3U);
  for (const ExpertLayer& layer : result.experts) {
    // ceil(22 / 4) = 6 of each sequence
    const Tensor chosen = layer.chosen.view({2, 22, 4});
    const Tensor p = layer.probabilities.view({2, 22, 4});
    EXPECT_TRUE(at::equal(chosen.sum(1).narrow(1, 0, 3), at::full({2, 3}, 6, at::kLong)));
    EXPECT_EQ(chosen.select(2, 3).sum().item<int64_t>(), 0);  // no-ops take none
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t e = 0; e < 3; ++e) {
        const Tensor mask = chosen[b].select(1, e), column = p[b].select(1, e);
        EXPECT_GE(column.masked_select(mask).min().item<float>(),
                  column.masked_select(~mask).max().item<float>());
      }
    }
  }
}

TEST(ExpertsTest, TokensTakeTheirMostProbableExperts) {
  LmOptions options = small_expert_options(ExpertChoice::kToken, false);
  options.experts.per_token = 2;
  Model model(options, 1);
  enlarge_weights(model, 2);
  const ForwardResult result = model.forward(random_tokens(2, 22, 31, 3));
  for (const ExpertLayer& layer : result.experts) {
    const Tensor best = std::get<1>(layer.probabilities.topk(2, 1));
    EXPECT_TRUE(at::equal(layer.chosen, at::zeros_like(layer.chosen).scatter(1, best, true)));
  }
}

TEST(ExpertsTest, CapsOfTokenChoiceHoldAtEveryPosition) {
  LmOptions options = small_expert_options(ExpertChoice::kToken, false);
  options.experts.token_cap = 1;  // of t tokens an expert takes ceil(t / 4)
  Model model(options, 1);
  enlarge_weights(model, 2);
  const ForwardResult result = model.forward(random_tokens(2, 22, 31, 3));
  for (const ExpertLayer& layer : result.experts) {
    const Tensor taken = layer.chosen.view({2, 22, 4}).narrow(2, 0, 3).cumsum(1);
    for (int64_t t = 0; t < 22; ++t) {
      EXPECT_LE(taken.select(1, t).max().item<int64_t>(), (t + 4) / 4);
    }
  }
}

TEST(ExpertsTest, NoOpsAndMissedTokensLeaveTheUpdateToAttention) {
  LmOptions options = small_expert_options(ExpertChoice::kExpert, false);
  options.num_layers = 2;
  options.experts.capacity = 0.25;  // two tokens of 22 for each expert
  Model model(options, 1);
  enlarge_weights(model, 2);
  const at::NoGradGuard no_grad;
  const Tensor tokens = random_tokens(1, 22, 31, 3);
  const ForwardResult before = model.forward(tokens);
  for (NamedTensor& parameter : model.parameters()) {
    if (parameter.name == "blocks.1.experts.out.weight") parameter.value.mul_(2);
  }
  const ForwardResult after = model.forward(tokens);
  const Tensor met = before.experts[0].chosen.narrow(1, 0, 3).any(1);
  EXPECT_EQ(met.sum().item<int64_t>() < 22, true);
  const Tensor moved = (after.hidden - before.hidden).abs().amax(-1)[0] > 0;
  EXPECT_TRUE(at::equal(moved, met));
}

TEST(ExpertsTest, LoadsAndBalanceByHand) {
  ExpertLayer layer{.layer = 5, .batch = 1};
  layer.present = at::ones({4}, at::kBool);
  // Three experts and a no-op, a choice each: 0, 0, 1, no-op.
  layer.chosen = at::zeros({4, 4}, at::kBool);
  for (const auto& [token, choice] : {std::pair{0, 0}, {1, 0}, {2, 1}, {3, 3}}) {
    layer.chosen[token][choice].fill_(true);
  }
  layer.probabilities = at::tensor({0.7F, 0.1F, 0.1F, 0.1F,  //
                                    0.4F, 0.3F, 0.2F, 0.1F,  //
                                    0.1F, 0.6F, 0.1F, 0.2F,  //
                                    0.2F, 0.2F, 0.2F, 0.4F})
                            .view({4, 4});
  // Shares 1/2, 1/4, 0, 1/4; mean probabilities 0.35, 0.3, 0.15, 0.2.
  EXPECT_NEAR(balance_loss(layer).item<double>(), 4 * (0.175 + 0.075 + 0.05), 1e-6);

  const ExpertLoad load = count_load(layer, 3);
  EXPECT_EQ(load.tokens, 4);
  EXPECT_EQ(load.taken, (std::vector<int64_t>{2, 1, 0, 1}));
  EXPECT_EQ(load.untouched, 1);
  EXPECT_EQ(load.imbalance(3), 2);  // 2 of a mean of 1
}

TEST(ExpertsTest, CalibratedThresholdsGiveTheExpertsCapacity) {
  Model model(small_expert_options(ExpertChoice::kExpert, false), 1);
  enlarge_weights(model, 2);
  const Tensor tokens = random_tokens(8, 24, 31, 3);
  // The first experts' input does not depend on what the others do.
  model.calibrate({model.forward(tokens)}, 0.25);

  const ForwardResult result = model.forward(tokens, {.routing = Routing::kThreshold});

  const Tensor taken = result.experts[0].chosen.sum(0);
  for (int64_t e = 0; e < 3; ++e) EXPECT_EQ(taken[e].item<int64_t>(), 8 * 24 / 4);
}

TEST(ExpertsTest, RunningThresholdsAreMeansOfKthProbabilities) {
  LmOptions options = small_expert_options(ExpertChoice::kExpert, false);
  options.num_layers = 2;  // one block with experts
  Model model(options, 1);
  ForwardResult result;
  // ceil(4 / 4) = 1: the largest of each sequence, 0.5 and 0.9, then 0.3 and 0.2.
  ExpertLayer layer{.layer = 1, .batch = 2};
  const Tensor column = at::tensor({0.1F, 0.5F, 0.2F, 0.3F, 0.9F, 0.1F, 0.4F, 0.2F});
  const Tensor other = at::tensor({0.3F, 0.1F, 0.0F, 0.1F, 0.1F, 0.2F, 0.1F, 0.2F});
  layer.probabilities = at::stack({column, other, other, other}, 1);
  result.experts.push_back(layer);
  model.update_ema_thresholds(result, 0);
  EXPECT_NEAR(model.ema_expert_thresholds[0][0].item<float>(), 0.7, 1e-6);
  EXPECT_NEAR(model.ema_expert_thresholds[0][1].item<float>(), 0.25, 1e-6);
}

TEST(ExpertsTest, EarlierTokensNeverSeeALaterOneUnderCausalRules) {
  for (const ExpertChoice choice : {ExpertChoice::kExpert, ExpertChoice::kToken}) {
    LmOptions options = small_expert_options(choice, true);
    options.experts.token_cap = 0.8;
    Model model(options, 1);
    enlarge_weights(model, 2);
    const Tensor tokens = random_tokens(2, 24, options.vocab_size, 3);
    const PassOptions pass = {.routing = Routing::kPredictor, .hard_cap = true};
    const Tensor before = model.forward(tokens, pass).hidden;
    for (const int64_t t : {1, 9, 23}) {
      Tensor changed = tokens.clone();
      changed.select(1, t).copy_((changed.select(1, t) + 11) % options.vocab_size);
      const Tensor after = model.forward(changed, pass).hidden;
      EXPECT_LT(max_difference(after.narrow(1, 0, t), before.narrow(1, 0, t)), 1e-5);
    }
  }
}

TEST(ExpertsTest, OneScaledExpertForAllTokensIsTheDenseModel) {
  LmOptions moe = small_options(), dense = small_options();
  moe.routing.every = dense.routing.every = 0;
  moe.experts.count = 1;  // its softmax is 1
  const Model a(moe, 5), b(dense, 5);
  const at::NoGradGuard no_grad;
  for (size_t layer = 0; layer < a.blocks().size(); ++layer) {
    const ExpertWeights& experts = a.blocks()[layer].experts;
    experts.in[0].copy_(b.blocks()[layer].mlp_in.weight);
    experts.out[0].copy_(b.blocks()[layer].mlp_out.weight);
  }
  const Tensor tokens = random_tokens(3, 24, moe.vocab_size, 3);
  EXPECT_LT(max_difference(a.forward(tokens).hidden, b.forward(tokens).hidden), 1e-6);
}

TEST(ExpertsTest, FlopsByHand) {
  // d 32, 21 tokens, of which ceil(0.25 * 21) = 6 are in routed blocks.
  const LmOptions staged = small_expert_options(ExpertChoice::kExpert, true);
  const FlopTable table = count_flops(staged, 21);
  const auto forward = [&](int64_t layer, const std::string& name) {
    for (const FlopRow& row : table.rows) {
      if (row.layer == layer && row.name == name) return row.forward;
    }
    return int64_t{-1};
  };
  // Block 1: 6 tokens, ceil(6 / 4) = 2 for each of 3 experts of 48.
  EXPECT_EQ(forward(1, "experts"), 4 * 3 * 2 * 32 * 48);
  EXPECT_EQ(forward(1, "expert_router"), 2 * 6 * 32 * 4);
  EXPECT_EQ(forward(1, "expert_predictor"), 2 * 6 * (32 * 16 + 16 * 3));
  EXPECT_EQ(forward(1, "mlp"), -1);
  // Block 2 takes all tokens: ceil(21 / 4) = 6.
  EXPECT_EQ(forward(2, "experts"), 4 * 3 * 6 * 32 * 48);
  EXPECT_EQ(forward(0, "mlp"), 4 * 21 * 32 * 128);
}

TEST(ExpertsTest, ImpossibleOptionsAreNamed) {
  const auto complaint = [](auto&& change) {
    LmOptions options = small_expert_options(ExpertChoice::kExpert, true);
    change(options);
    return [options] { options.validate(); };
  };
  using E = std::invalid_argument;
  EXPECT_THAT(complaint([](LmOptions& o) { o.experts.no_ops = 4; }),
              ThrowsMessage<E>(HasSubstr("more experts than tokens: experts.count + "
                                         "experts.no_ops is 7, block 1 takes 6 tokens")));
  EXPECT_THAT(complaint([](LmOptions& o) { o.experts.count = 0; }),
              ThrowsMessage<E>(HasSubstr("no_ops")));
  EXPECT_THAT(complaint([](LmOptions& o) { o.experts.capacity = 4.5; }),
              ThrowsMessage<E>(HasSubstr("capacity")));
  EXPECT_THAT(complaint([](LmOptions& o) { o.experts.per_token = 5; }),
              ThrowsMessage<E>(HasSubstr("per_token")));
  EXPECT_THAT(complaint([](LmOptions& o) { o.experts.offset = 4; }),
              ThrowsMessage<E>(HasSubstr("offset")));
  EXPECT_THAT(complaint([](LmOptions& o) { o.bias = true; }), ThrowsMessage<E>(HasSubstr("bias")));
}

}  // namespace
}  // namespace lagom::lm

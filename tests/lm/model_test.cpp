#include "lagom/lm/model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lagom/lm/ops.h"
#include "lagom/lm/routing.h"
#include "tests/lm/reference.h"

namespace lagom::lm {
namespace {

using at::Tensor;

std::vector<Tensor> chosen_of(const ForwardResult& result) {
  std::vector<Tensor> chosen;
  for (const RoutedLayer& layer : result.routed) chosen.push_back(layer.chosen);
  return chosen;
}

Tensor weights_like(const Tensor& x) {
  return at::linspace(-1, 1, x.numel()).view_as(x);
}

std::vector<Tensor> take_gradients(const Model& model) {
  std::vector<Tensor> gradients;
  for (NamedTensor& parameter : model.parameters()) {
    const Tensor grad = parameter.value.grad();
    gradients.push_back(grad.defined() ? grad.clone() : at::zeros_like(parameter.value));
    parameter.value.mutable_grad() = Tensor();
  }
  return gradients;
}

/// Values and gradients of the gathered form against the masked one.
void expect_equals_reference(const LmOptions& options, const PassOptions& pass) {
  Model model(options, 1);
  enlarge_weights(model, 2);
  const Tensor tokens = random_tokens(3, 23, options.vocab_size, 3);

  const ForwardResult result = model.forward(tokens, pass);
  (result.hidden * weights_like(result.hidden)).sum().backward();
  const std::vector<Tensor> gradients = take_gradients(model);
  const Tensor expected =
      masked_reference(model, tokens, chosen_of(result), pass.segments, result.experts);
  (expected * weights_like(expected)).sum().backward();
  const std::vector<Tensor> expected_gradients = take_gradients(model);

  EXPECT_LT(max_difference(result.hidden, expected), 2e-5);
  const auto parameters = model.parameters();
  for (size_t i = 0; i < gradients.size(); ++i) {
    const double scale = expected_gradients[i].abs().max().item<double>();
    EXPECT_LT(max_difference(gradients[i], expected_gradients[i]), 1e-4 * scale + 1e-5)
        << parameters[i].name;
  }
}

TEST(ModelTest, GatheredEqualsMaskedReference) {
  for (const Gate gate :
       {Gate::kRaw, Gate::kSigmoid, Gate::kDoubleSigmoid, Gate::kTanh, Gate::kNone}) {
    LmOptions options = small_options();
    options.routing.gate = gate;
    expect_equals_reference(options, {});
  }
}

TEST(ModelTest, EveryVariantOfTheBlockEqualsMaskedReference) {
  LmOptions options = small_options();
  options.activation = Activation::kSwiglu;
  options.num_kv_heads = 2;
  options.routing.positions = RoutedPositions::kRank;
  expect_equals_reference(options, {});
  options.bias = true;
  options.norm = Norm::kLayer;
  options.positions = Positions::kLearned;
  options.tied_head = false;
  expect_equals_reference(options, {});
}

TEST(ModelTest, ExtremeCapacitiesEqualMaskedReference) {
  LmOptions options = small_options();
  options.routing.capacity_tokens = 1;
  expect_equals_reference(options, {});
  options.routing.capacity_tokens = 1000;  // every token
  expect_equals_reference(options, {});
}

TEST(ModelTest, DocumentsDoNotSeeEachOther) {
  PassOptions pass;
  pass.segments = (at::arange(23, at::kLong) >= 9).to(at::kLong).repeat({3, 1});
  expect_equals_reference(small_options(), pass);
}

TEST(ModelTest, CausalRoutingEqualsMaskedReference) {
  LmOptions options = small_options();
  for (const bool hard_cap : {false, true}) {
    expect_equals_reference(options, {.routing = Routing::kPredictor, .hard_cap = hard_cap});
    expect_equals_reference(options, {.routing = Routing::kRouter, .hard_cap = hard_cap});
  }
  options.routing.selection = Selection::kRandom;
  expect_equals_reference(options, {.routing = Routing::kRouter});
}

TEST(ModelTest, ExpertsEqualMaskedReference) {
  for (const ExpertChoice choice : {ExpertChoice::kExpert, ExpertChoice::kToken}) {
    for (const bool staged : {false, true}) {
      LmOptions options = small_expert_options(choice, staged);
      expect_equals_reference(options, {});
      options.experts.no_ops = 0;
      options.experts.per_token = 2;
      options.experts.token_cap = 0.75;
      options.experts.capacity = 1.5;
      options.experts.scaled = false;
      options.activation = Activation::kSwiglu;
      expect_equals_reference(options, {});
    }
  }
}

TEST(ModelTest, ExpertsUnderCausalRulesEqualMaskedReference) {
  for (const bool staged : {false, true}) {
    for (const bool hard_cap : {false, true}) {
      const PassOptions pass = {.routing = Routing::kPredictor, .hard_cap = hard_cap};
      expect_equals_reference(small_expert_options(ExpertChoice::kExpert, staged), pass);
      expect_equals_reference(small_expert_options(ExpertChoice::kToken, staged), pass);
    }
  }
}

TEST(ModelTest, CheckpointedGradientsAreTheSame) {
  LmOptions options = small_options();
  options.seq_len = 24;
  const Tensor tokens = random_tokens(2, 24, options.vocab_size, 3);
  std::vector<std::vector<Tensor>> gradients;
  for (const bool checkpoint : {false, true}) {
    const Model model(options, 1);
    const ForwardResult result = model.forward(tokens, {.checkpoint = checkpoint});
    (result.hidden * weights_like(result.hidden)).sum().backward();
    gradients.push_back(take_gradients(model));
  }
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    // The stream's gradients are added in another order.
    const double scale = gradients[0][i].abs().max().item<double>();
    EXPECT_LT(max_difference(gradients[0][i], gradients[1][i]), 1e-5 * scale + 1e-9) << i;
  }
}

TEST(ModelTest, FullCapacityWithoutGateIsTheDenseModel) {
  LmOptions routed = small_options();
  routed.routing.capacity = 1;
  routed.routing.gate = Gate::kNone;
  LmOptions dense = small_options();
  dense.routing.every = 0;
  const Tensor tokens = random_tokens(3, 24, routed.vocab_size, 3);

  const Tensor a = Model(routed, 5).forward(tokens).hidden;
  const Tensor b = Model(dense, 5).forward(tokens).hidden;

  EXPECT_TRUE(at::equal(a, b));
}

TEST(ModelTest, TakesExactlyKTokensPerSequence) {
  LmOptions options = small_options();
  const Tensor tokens = at::zeros({2, 23}, at::kLong);  // equal tokens: scores tie at first
  const Model model(options, 1);

  const ForwardResult result = model.forward(tokens);

  ASSERT_EQ(result.routed.size(), 2U);
  for (const RoutedLayer& layer : result.routed) {
    // ceil(0.25 * 23) = 6
    EXPECT_TRUE(at::equal(layer.chosen.sum(1), at::full({2}, 6, at::kLong)));
  }
}

TEST(ModelTest, EarlierLogitsNeverSeeALaterToken) {
  LmOptions options = small_options();
  Model model(options, 1);
  enlarge_weights(model, 2);
  model.calibrated_thresholds.fill_(0.1);
  model.ema_thresholds.fill_(-0.1);
  const Tensor tokens = random_tokens(2, 24, options.vocab_size, 3);
  for (const Routing routing :
       {Routing::kPredictor, Routing::kRouter, Routing::kThreshold, Routing::kEma}) {
    for (const bool hard_cap : {false, true}) {
      const PassOptions pass = {.routing = routing, .hard_cap = hard_cap};
      const Tensor before = model.forward(tokens, pass).hidden;
      for (const int64_t t : {1, 7, 16, 23}) {
        Tensor changed = tokens.clone();
        changed.select(1, t).copy_((changed.select(1, t) + 11) % options.vocab_size);

        const Tensor after = model.forward(changed, pass).hidden;

        EXPECT_LT(max_difference(after.narrow(1, 0, t), before.narrow(1, 0, t)), 1e-5);
        EXPECT_GT(max_difference(after.select(1, t), before.select(1, t)), 1e-3);
      }
    }
  }
}

TEST(ModelTest, RowsOfABatchAreIndependent) {
  LmOptions options = small_options();
  Model model(options, 1);
  enlarge_weights(model, 2);
  const Tensor tokens = random_tokens(3, 24, options.vocab_size, 3);
  for (const Routing routing : {Routing::kTopK, Routing::kPredictor, Routing::kRouter}) {
    const Tensor together = model.forward(tokens, {.routing = routing}).hidden;
    for (int64_t row = 0; row < 3; ++row) {
      const Tensor alone = model.forward(tokens.narrow(0, row, 1), {.routing = routing}).hidden;
      EXPECT_LT(max_difference(alone, together.narrow(0, row, 1)), 1e-5);
    }
  }
}

TEST(ModelTest, PredictorLeavesTheTrunkAlone) {
  LmOptions with = small_options(), without = small_options();
  without.routing.predictor = false;
  const Tensor tokens = random_tokens(2, 24, with.vocab_size, 3);
  std::vector<std::vector<NamedTensor>> gradients;
  for (const LmOptions& options : {with, without}) {
    const Model model(options, 1);
    const ForwardResult result = model.forward(tokens);
    Tensor loss = (result.hidden * weights_like(result.hidden)).sum();
    if (options.routing.predictor) loss = loss + routing_losses(result, options).predictor;
    loss.backward();
    std::vector<NamedTensor> trunk;
    for (const NamedTensor& parameter : model.parameters()) {
      if (parameter.group != ParameterGroup::kPredictor) {
        trunk.push_back({parameter.name, parameter.value.grad(), parameter.group});
      } else {
        EXPECT_GT(parameter.value.grad().abs().max().item<double>(), 0) << parameter.name;
      }
    }
    gradients.push_back(trunk);
  }
  ASSERT_EQ(gradients[0].size(), gradients[1].size());
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    EXPECT_TRUE(at::equal(gradients[0][i].value, gradients[1][i].value)) << gradients[0][i].name;
  }
}

TEST(ModelTest, CalibrationGivesTheShare) {
  LmOptions options = small_options();
  Model model(options, 1);
  enlarge_weights(model, 2);
  const Tensor tokens = random_tokens(8, 24, options.vocab_size, 3);
  // The first routed block's input does not depend on routing: its share is exact.
  model.calibrate({model.forward(tokens)}, 0.25);

  const ForwardResult result = model.forward(tokens, {.routing = Routing::kThreshold});

  EXPECT_EQ(result.routed[0].chosen.sum().item<int64_t>(), 8 * 24 / 4);
}

TEST(ModelTest, RunningThresholdIsTheMeanOfKthWeights) {
  LmOptions options = small_options();
  options.routing.ema_decay = 0.75;
  Model model(options, 1);
  ForwardResult result;
  // ceil(0.25 * 5) = 2: the second largest are 4 and 8.
  const Tensor scores = at::tensor({1.F, 5.F, 4.F, 2.F, 3.F, 9.F, 8.F, 1.F, 1.F, 1.F}).view({2, 5});
  result.routed.resize(2);
  result.routed[0].scores = scores;
  result.routed[1].scores = scores + 1;

  model.update_ema_thresholds(result, 0);
  EXPECT_EQ(model.ema_thresholds[0].item<float>(), 6);
  EXPECT_EQ(model.ema_thresholds[1].item<float>(), 7);
  result.routed[0].scores = scores + 4;
  model.update_ema_thresholds(result, 0);
  EXPECT_EQ(model.ema_thresholds[0].item<float>(), 0.75F * 6 + 0.25F * 10);
}

TEST(ModelTest, RefusesWhatItCannotRun) {
  const Model model(small_options(), 1);
  EXPECT_THROW(model.forward(at::zeros({2, 25}, at::kLong)), c10::ValueError);
  EXPECT_THROW(model.forward(at::zeros({2, 5}, at::kInt)), c10::ValueError);
  EXPECT_THROW(model.forward(at::zeros({2, 5}, at::kLong), {.routing = Routing::kThreshold}),
               c10::ValueError);
  LmOptions options = small_options();
  options.routing.capacity = 0;
  EXPECT_THROW(Model(options, 1), std::invalid_argument);
  options = small_options();
  options.num_kv_heads = 3;
  EXPECT_THROW(Model(options, 1), std::invalid_argument);
}

TEST(TopKTest, TiesGoToTheLowerPosition) {
  const std::vector<float> scores = {1, 3, 2, 3, 2, 2};
  EXPECT_EQ(top_k_positions(scores, 1), (std::vector<int64_t>{1}));
  EXPECT_EQ(top_k_positions(scores, 3), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(top_k_positions(scores, 6), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  const std::vector<float> broken = {NAN, 1, NAN, 0};
  EXPECT_EQ(top_k_positions(broken, 2), (std::vector<int64_t>{1, 3}));
}

TEST(HardCapTest, NeverExceedsTheShare) {
  HardCap cap(0.25);
  std::vector<int64_t> entered;
  for (int64_t t = 0; t < 12; ++t) {
    if (cap.admit(t != 4 && t != 5, t)) entered.push_back(t);
  }
  // One in each of 0-3, 4-7, 8-11.
  EXPECT_EQ(entered, (std::vector<int64_t>{0, 6, 8}));
}

TEST(RandomScoreTest, IsStandardNormal) {
  double sum = 0, squares = 0;
  constexpr int64_t kCount = 40000;
  for (int64_t i = 0; i < kCount; ++i) {
    const double x = random_score(3, 1, i % 7, i);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.02);
  EXPECT_NEAR(squares / kCount, 1, 0.03);
  EXPECT_NE(random_score(3, 1, 0, 5), random_score(3, 2, 0, 5));
  EXPECT_NE(random_score(3, 1, 0, 5), random_score(4, 1, 0, 5));
}

TEST(LossTest, EqualsCrossEntropyOfAten) {
  const Tensor hidden = at::randn({7, 5}).requires_grad_(true);
  const Tensor head = at::randn({11, 5}).requires_grad_(true);
  const Tensor targets = at::tensor({3, 10, 0, -1, 4, 4, -1}, at::kLong);
  const auto values_and_gradients = [&](const Tensor& loss) {
    hidden.mutable_grad() = Tensor();
    head.mutable_grad() = Tensor();
    (loss * 2).backward();
    return std::vector<Tensor>{loss, hidden.grad(), head.grad()};
  };

  const auto ours = values_and_gradients(next_token_loss(hidden, head, targets));
  const auto theirs = values_and_gradients(
      at::cross_entropy_loss(at::linear(hidden, head), targets, {}, at::Reduction::Mean, -1));

  for (size_t i = 0; i < ours.size(); ++i) EXPECT_LT(max_difference(ours[i], theirs[i]), 1e-6);
  EXPECT_THROW(next_token_loss(hidden, head, at::full({7}, 11, at::kLong)), c10::ValueError);
}

TEST(AttentionTest, BlocksEqualAtensAttention) {
  // 150 tokens are two whole blocks of queries and a part; two query heads share a key head.
  constexpr int64_t kBatch = 2, kLength = 150, kHeads = 4, kKvHeads = 2, kDim = 16;
  const Tensor base = at::randn({kBatch, kLength, (kHeads + 2 * kKvHeads) * kDim});
  const Tensor segments = (at::arange(kLength) / 40).floor().to(at::kLong).repeat({kBatch, 1});
  for (const bool documents : {false, true}) {
    Tensor leaf = base.clone().requires_grad_(true);
    const Tensor out = causal_attention(leaf * 1, {.segments = documents ? segments : Tensor(),
                                                   .num_heads = kHeads,
                                                   .num_kv_heads = kKvHeads,
                                                   .head_dim = kDim});
    (out * weights_like(out)).sum().backward();
    const Tensor grad = leaf.grad().clone();
    leaf.mutable_grad() = Tensor();
    const auto heads = [&](int64_t begin, int64_t count) {
      return leaf.narrow(2, begin * kDim, count * kDim)
          .view({kBatch, kLength, count, kDim})
          .transpose(1, 2)
          .repeat_interleave(kHeads / count, 1);
    };
    Tensor mask = at::ones({kLength, kLength}, at::kBool).tril();
    if (documents) mask = mask & (segments[0].unsqueeze(1) == segments[0].unsqueeze(0));
    const Tensor scores = at::matmul(heads(0, kHeads), heads(kHeads, kKvHeads).transpose(2, 3)) / 4;
    const Tensor expected = at::matmul(at::softmax(scores.masked_fill(~mask, -INFINITY), -1),
                                       heads(kHeads + kKvHeads, kKvHeads))
                                .transpose(1, 2)
                                .reshape({kBatch, kLength, kHeads * kDim});
    (expected * weights_like(expected)).sum().backward();

    EXPECT_LT(max_difference(out, expected), 2e-6);
    EXPECT_LT(max_difference(grad, leaf.grad()), 1e-5);
  }
}

TEST(OpsTest, KernelsHandleWidthsThatAreNoWholeVectors) {
  for (const int64_t width : {1, 7, 16, 33}) {
    const Tensor x = at::randn({3, 2 * width}).requires_grad_(true);
    const Tensor w = at::randn({2 * width}).requires_grad_(true);
    const auto gradients = [&](const Tensor& y) {
      x.mutable_grad() = Tensor();
      w.mutable_grad() = Tensor();
      (y * weights_like(y)).sum().backward();
      return std::vector<Tensor>{y, x.grad(), w.grad().defined() ? w.grad() : at::zeros({1})};
    };
    const auto expect_same = [&](const Tensor& a, const Tensor& b) {
      const auto ours = gradients(a), theirs = gradients(b);
      for (size_t i = 0; i < ours.size(); ++i) EXPECT_LT(max_difference(ours[i], theirs[i]), 3e-6);
    };
    expect_same(gelu_tanh(x), at::gelu(x, "tanh"));
    expect_same(swiglu(x), at::silu(x.narrow(1, 0, width)) * x.narrow(1, width, width));
    expect_same(rms_norm(x, w, 1e-5), x / (x.square().mean(-1, true) + 1e-5).sqrt() * w);
  }
}

}  // namespace
}  // namespace lagom::lm

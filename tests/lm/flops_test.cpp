#include "lagom/lm/flops.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "lagom/lm/model.h"
#include "lagom/lm/ops.h"
#include "tests/lm/reference.h"

namespace lagom::lm {
namespace {

/// Counts the products that are really called, by the shapes of their operands.
std::atomic<int64_t> g_products{0}, g_attention{0};

std::unique_ptr<at::ObserverContext> count_call(const at::RecordFunction& call) {
  const std::string name = call.name();
  const auto inputs = call.inputs();
  const auto size = [&](size_t input, int64_t dim) { return inputs[input].toTensor().size(dim); };
  if (name == "aten::mm" || name == "aten::addmm" || name == "aten::addmm_") {
    const size_t first = name == "aten::mm" ? 0 : 1;
    g_products += 2 * size(first, 0) * size(first, 1) * size(first + 1, 1);
  } else if (name == "aten::mv" || name == "aten::addmv") {
    const size_t first = name == "aten::mv" ? 0 : 1;
    g_products += 2 * size(first, 0) * size(first, 1);
  } else if (name == "aten::bmm") {
    g_products += 2 * size(0, 0) * size(0, 1) * size(0, 2) * size(1, 2);
  } else if (name == "aten::_scaled_dot_product_flash_attention_for_cpu") {
    g_attention += 4 * size(0, 0) * size(0, 1) * size(0, 2) * size(0, 2) * size(0, 3);
  }
  return nullptr;
}

template <typename Body>
std::pair<int64_t, int64_t> counted(Body&& body) {
  g_products = 0;
  g_attention = 0;
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback(count_call).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  body();
  at::removeCallback(handle);
  return {g_products, g_attention};
}

std::vector<LmOptions> several_options() {
  LmOptions gelu = small_options(), swiglu = small_options(), dense = small_options();
  swiglu.activation = Activation::kSwiglu;
  swiglu.num_kv_heads = 2;
  swiglu.tied_head = false;
  swiglu.routing.offset = 0;
  swiglu.routing.predictor_hidden = 5;
  dense.routing.every = 0;
  LmOptions without_predictor = small_options();
  without_predictor.routing.predictor = false;
  without_predictor.routing.capacity_tokens = 3;
  LmOptions moe = small_expert_options(ExpertChoice::kExpert, false);
  LmOptions staged = small_expert_options(ExpertChoice::kExpert, true);
  staged.activation = Activation::kSwiglu;
  LmOptions token_choice = small_expert_options(ExpertChoice::kToken, false);
  token_choice.experts.no_ops = 0;  // so that every token meets two experts
  token_choice.experts.per_token = 2;
  return {gelu, swiglu, dense, without_predictor, moe, staged, token_choice};
}

int64_t sum_of(const FlopTable& table, bool attention, int64_t FlopRow::* count) {
  int64_t total = 0;
  for (const FlopRow& row : table.rows) {
    if ((row.name == "attention") == attention) total += row.*count;
  }
  return total;
}

TEST(FlopsTest, ForwardEqualsTheProductsThatAreCalled) {
  for (const LmOptions& options : several_options()) {
    const Model model(options, 1);
    const at::Tensor tokens = random_tokens(2, 21, options.vocab_size, 1);

    const int64_t products = counted([&] { model.logits(model.forward(tokens).hidden); }).first;

    EXPECT_EQ(products, 2 * sum_of(count_flops(options, 21), false, &FlopRow::forward));
  }
}

TEST(FlopsTest, LongForwardEqualsTheProductsThatAreCalled) {
  // Beyond 1024 tokens attention is ATen's, whose calls can be counted too.
  LmOptions options = small_options();
  options.seq_len = 1100;
  options.routing.capacity = 0.99;
  const Model model(options, 1);
  const at::Tensor tokens = random_tokens(1, 1100, options.vocab_size, 1);

  const auto [products, attention] = counted([&] { model.logits(model.forward(tokens).hidden); });

  const FlopTable table = count_flops(options, 1100);
  EXPECT_EQ(products, sum_of(table, false, &FlopRow::forward));
  EXPECT_EQ(attention, sum_of(table, true, &FlopRow::forward));
  EXPECT_EQ(products + attention, table.forward);
}

TEST(FlopsTest, TrainingEqualsTheProductsThatAreCalled) {
  for (const LmOptions& options : several_options()) {
    const Model model(options, 1);
    const at::Tensor tokens = random_tokens(2, 21, options.vocab_size, 1);
    const at::Tensor targets = random_tokens(2, 21, options.vocab_size, 2);

    const int64_t products =
        counted([&] {
          const ForwardResult result = model.forward(tokens);
          at::Tensor loss =
              next_token_loss(result.hidden.flatten(0, 1), model.head(), targets.flatten());
          if (const auto extra = routing_losses(result, options); extra.predictor.defined()) {
            loss = loss + extra.predictor;
          }
          loss.backward();
        }).first;

    const FlopTable table = count_flops(options, 21);
    int64_t router = 0;
    for (const FlopRow& row : table.rows) {
      if (row.name == "router") router += row.training - row.forward;
    }
    const int64_t linear = sum_of(table, false, &FlopRow::training);
    // ATen takes the outer products of a vector's gradients as multiplications, not as products:
    // that part of the router is open.
    EXPECT_LE(products, 2 * linear);
    EXPECT_GE(products, 2 * (linear - router));
  }
}

TEST(FlopsTest, EqualsTheFormulaOfTheBlock) {
  // B(n) = 24 n d^2 + 4 n^2 d for a square block with d_kv = d and h = 4 d.
  LmOptions options;
  options.d_model = 1024;
  options.num_layers = 14;
  options.num_heads = 16;
  options.vocab_size = 32000;
  options.seq_len = 2048;
  options.routing.predictor = false;
  const int64_t s = 2048, c = 256, d = 1024;
  const auto block = [d](int64_t n) { return 24 * n * d * d + 4 * n * n * d; };

  EXPECT_EQ(count_flops(options, s).forward,
            7 * block(s) + 7 * (block(c) + 2 * s * d) + 2 * s * d * 32000);
  LmOptions dense = options;
  dense.routing.every = 0;
  const auto ratio = static_cast<double>(count_flops(dense, s).forward) /
                     static_cast<double>(count_flops(options, s).forward);
  EXPECT_NEAR(ratio, 1.66, 0.01);  // the reference's figure for the paper's 220 M pair
}

TEST(FlopsTest, CausalAttentionCountsPairsOnce) {
  const LmOptions options = small_options();
  const auto attention = [&](AttentionCount count) {
    return count_flops(options, 10, count).rows[1].forward;  // layer 0
  };
  EXPECT_EQ(attention(AttentionCount::kSquare), 4 * 10 * 10 * 32);
  EXPECT_EQ(attention(AttentionCount::kCausal), 4 * 55 * 32);  // 55 = 1 + 2 + ... + 10
}

TEST(FlopsTest, DecodingAddsUpToTheCausalTable) {
  LmOptions options = small_options();
  options.routing.every = 0;
  double total = 0;
  for (int64_t t = 0; t < 12; ++t) total += decode_flops(options, t, 1);
  EXPECT_DOUBLE_EQ(total,
                   static_cast<double>(count_flops(options, 12, AttentionCount::kCausal).forward));
}

TEST(FlopsTest, HalfRoutedModelKeepsNineSixteenthsOfTheCache) {
  LmOptions options = small_options();
  EXPECT_EQ(kv_bytes(options, 2048, 256) * 16, kv_bytes(options, 2048, 2048) * 9);
  EXPECT_EQ(kv_bytes(options, 3, 1), 2 * (2 * 3 + 2 * 1) * 32 * 4);
}

TEST(FlopsTest, ParametersAreThoseOfTheModel) {
  std::vector<LmOptions> all = several_options();
  LmOptions other = small_options();
  other.bias = true;
  other.norm = Norm::kLayer;
  other.positions = Positions::kLearned;
  other.activation = Activation::kSwiglu;
  other.num_kv_heads = 1;
  all.push_back(other);
  for (const LmOptions& options : all) {
    EXPECT_EQ(count_parameters(options), Model(options, std::nullopt).num_parameters());
  }
}

TEST(FlopsTest, RefusesImpossibleLengths) {
  EXPECT_THROW(count_flops(small_options(), 0), std::invalid_argument);
  EXPECT_THROW(count_flops(small_options(), 25), std::invalid_argument);
}

}  // namespace
}  // namespace lagom::lm

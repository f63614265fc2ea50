#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "lagom/lm/model.h"
#include "lagom/lm/ops.h"
#include "tests/lm/reference.h"

namespace lagom::lm {
namespace {

using at::Tensor;

/// |a - b| / |b| over all elements.
double relative_distance(const Tensor& a, const Tensor& b) {
  return (at::norm(a - b) / at::norm(b)).item<double>();
}

TEST(Bfloat16Test, ValuesAndGradientsStayCloseToFloat32) {
  for (const Activation activation : {Activation::kGelu, Activation::kSwiglu}) {
    LmOptions options = small_options();
    options.routing.every = 0;  // a rounded score may choose another token
    options.activation = activation;
    Model model(options, 1);
    enlarge_weights(model, 2);
    const Tensor tokens = random_tokens(2, 24, options.vocab_size, 3);
    std::vector<Tensor> hidden;
    std::vector<std::vector<Tensor>> gradients;
    for (const bool bfloat16 : {false, true}) {
      hidden.push_back(model.forward(tokens, {.bfloat16 = bfloat16}).hidden);
      (hidden.back() * at::linspace(-1, 1, hidden.back().numel()).view_as(hidden.back()))
          .sum()
          .backward();
      std::vector<Tensor>& all = gradients.emplace_back();
      for (NamedTensor& parameter : model.parameters()) {
        all.push_back(parameter.value.grad());
        parameter.value.mutable_grad() = Tensor();
      }
    }
    // Eight bits of mantissa: 2^-9 of rounding at each of some ten places.
    EXPECT_LT(relative_distance(hidden[1], hidden[0]), 0.03);
    EXPECT_GT(relative_distance(hidden[1], hidden[0]), 1e-4);
    for (size_t i = 0; i < gradients[0].size(); ++i) {
      EXPECT_LT(relative_distance(gradients[1][i], gradients[0][i]), 0.06) << i;
    }
  }
}

TEST(Bfloat16Test, AttentionOverSeveralBlocksStaysCloseToFloat32) {
  constexpr int64_t kLength = 300, kHeads = 4, kKvHeads = 2, kHeadDim = 16;
  at::manual_seed(4);
  const Tensor input = at::randn({2, kLength, (kHeads + 2 * kKvHeads) * kHeadDim});
  const Tensor grad = at::randn({2, kLength, kHeads * kHeadDim});
  const Tensor angles = at::rand({kLength, kHeadDim / 2});
  const AttentionPlaces places = {
      .positions = at::arange(kLength, at::kLong).expand({2, kLength}),
      .segments = (at::arange(kLength, at::kLong) >= 170).to(at::kLong).expand({2, kLength}),
      .cosines = at::cos(angles),
      .sines = at::sin(angles),
      .num_heads = kHeads,
      .num_kv_heads = kKvHeads,
      .head_dim = kHeadDim};
  std::vector<Tensor> values, gradients;
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Tensor qkv = input.to(type).clone().requires_grad_(true);
    const Tensor out = causal_attention(qkv * 1, places);
    out.backward(grad.to(type));
    values.push_back(out.detach().to(at::kFloat));
    gradients.push_back(qkv.grad().to(at::kFloat));
  }

  EXPECT_LT(relative_distance(values[1], values[0]), 0.02);
  EXPECT_LT(relative_distance(gradients[1], gradients[0]), 0.02);
}

}  // namespace
}  // namespace lagom::lm

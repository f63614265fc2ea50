#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "lagom/lm/model.h"
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

}  // namespace
}  // namespace lagom::lm

#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace lagom::testing {

using TensorFunction = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

/// Compares gradients of a random projection of `function` with central differences, for every
/// value of every input (double).
inline void expect_gradients_meet_differences(const TensorFunction& function,
                                              std::vector<at::Tensor> inputs,
                                              double tolerance = 1e-6, double step = 1e-6) {
  for (at::Tensor& input : inputs) {
    input = input.detach().clone(at::MemoryFormat::Contiguous).requires_grad_();
  }
  const at::Tensor out = function(inputs);
  at::manual_seed(99);
  const at::Tensor projection = at::randn(out.sizes(), at::kDouble);
  (out * projection).sum().backward();
  const auto value = [&] {
    at::NoGradGuard guard;
    return (function(inputs) * projection).sum().item<double>();
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_TRUE(inputs[i].grad().defined()) << "input " << i << " got no gradient";
    const at::Tensor gradient = inputs[i].grad().contiguous();
    auto* x = inputs[i].mutable_data_ptr<double>();
    for (int64_t k = 0; k < inputs[i].numel(); ++k) {
      const double before = x[k];
      x[k] = before + step;
      const double up = value();
      x[k] = before - step;
      const double down = value();
      x[k] = before;
      const double expected = (up - down) / (2 * step);
      const double found = gradient.const_data_ptr<double>()[k];
      ASSERT_NEAR(found, expected, tolerance * std::max(1.0, std::abs(expected)))
          << "input " << i << ", value " << k;
    }
  }
}

}  // namespace lagom::testing

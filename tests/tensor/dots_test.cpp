#include "lagom/tensor/dots.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace lagom::tensor {
namespace {

struct Products {
  at::Tensor forward, input_gradient, weight_gradient;
};

Products products(const at::Tensor& w, const at::Tensor& x, const at::Tensor& dy,
                  DotPrecision precision) {
  const WeightDots dots(w.const_data_ptr<float>(), w.size(0), w.size(1), precision);
  // What is there already is added to where that is asked for.
  Products out = {at::ones_like(dy), at::full_like(x, 7), at::ones_like(w)};
  dots.forward(x.const_data_ptr<float>(), x.size(0), out.forward.mutable_data_ptr<float>(),
               /*adds=*/true);
  dots.input_gradient(dy.const_data_ptr<float>(), x.size(0),
                      out.input_gradient.mutable_data_ptr<float>(), /*adds=*/false);
  dots.weight_gradient(dy.const_data_ptr<float>(), x.const_data_ptr<float>(), x.size(0),
                       out.weight_gradient.mutable_data_ptr<float>());
  return out;
}

/// Products of rounded factors are exact in double; only the order of float sums is left.
TEST(WeightDotsTest, EqualProductsOfRoundedFactors) {
  for (const auto& [rows, out, in] : std::vector<std::array<int64_t, 3>>{
           {1, 1, 1}, {7, 3, 5}, {64, 64, 64}, {130, 70, 33}, {13, 32, 256}, {5, 100, 2}}) {
    at::manual_seed(rows);
    const at::Tensor w = at::randn({out, in}), x = at::randn({rows, in}),
                     dy = at::randn({rows, out});
    for (const DotPrecision precision : {DotPrecision::kFloat, DotPrecision::kBfloat16}) {
      const auto exact = [&](const at::Tensor& t) {
        return precision == DotPrecision::kFloat ? t.to(at::kDouble)
                                                 : t.to(at::kBFloat16).to(at::kDouble);
      };
      const Products found = products(w, x, dy, precision);
      const auto expect_near = [&](const at::Tensor& a, const at::Tensor& b) {
        EXPECT_TRUE(at::allclose(a.to(at::kDouble), b, 1e-5, 1e-4))
            << rows << " x " << out << " x " << in << ": "
            << (a.to(at::kDouble) - b).abs().max().item<double>();
      };
      expect_near(found.forward, 1 + exact(x).mm(exact(w).t()));
      expect_near(found.input_gradient, exact(dy).mm(exact(w)));
      expect_near(found.weight_gradient, 1 + exact(dy).t().mm(exact(x)));
    }
  }
}

TEST(WeightDotsTest, Bfloat16KeepsNanAndInfinity) {
  const at::Tensor w = at::ones({1, 2});
  const at::Tensor x = at::tensor({std::numeric_limits<float>::quiet_NaN(), 1.0F,
                                   std::numeric_limits<float>::infinity(), 1.0F})
                           .view({2, 2});
  const at::Tensor y = products(w, x, at::zeros({2, 1}), DotPrecision::kBfloat16).forward;
  EXPECT_TRUE(std::isnan(y[0][0].item<float>()));
  EXPECT_TRUE(std::isinf(y[1][0].item<float>()));
}

}  // namespace
}  // namespace lagom::tensor

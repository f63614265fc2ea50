#include "lagom/tensor/segment.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>

#include "tests/tensor/gradients.h"

namespace lagom::tensor {
namespace {

constexpr int64_t kOutputs = 7, kInputs = 9;

/// Some outputs have no edge, one pair has two.
SegmentIndexPtr random_index(unsigned seed, int64_t num_edges = 20) {
  std::mt19937 random(seed);
  std::vector<int32_t> outputs, inputs;
  for (int64_t e = 0; e < num_edges; ++e) {
    outputs.push_back(static_cast<int32_t>(random() % (kOutputs - 2)));
    inputs.push_back(static_cast<int32_t>(random() % kInputs));
  }
  outputs.push_back(outputs[0]);
  inputs.push_back(inputs[0]);
  return std::make_shared<SegmentIndex>(kOutputs, kInputs, outputs, inputs);
}

at::Tensor random_tensor(at::IntArrayRef sizes, int64_t seed, at::ScalarType type = at::kDouble) {
  at::manual_seed(static_cast<uint64_t>(seed));
  return at::randn(sizes, at::TensorOptions().dtype(type));
}

/// [outputs, inputs]: the sum of the weights of the edges between the two.
at::Tensor dense(const SegmentIndex& index, const std::optional<at::Tensor>& weights = {}) {
  at::Tensor matrix = at::zeros({index.num_outputs(), index.num_inputs()}, at::kDouble);
  const Csr& csr = index.by_output();
  for (int64_t i = 0; i < csr.num_rows(); ++i) {
    for (int64_t k = csr.offsets[i]; k < csr.offsets[i + 1]; ++k) {
      matrix[i][csr.neighbors[k]] += weights ? (*weights)[csr.edges[k]].item<double>() : 1.0;
    }
  }
  return matrix;
}

TEST(SegmentSumTest, EqualsADenseMatrix) {
  const SegmentIndexPtr index = random_index(1);
  const at::Tensor x = random_tensor({kInputs, 3, 5}, 2);
  const at::Tensor weights = random_tensor({index->num_edges()}, 3);

  const at::Tensor plain = segment_sum(x, index), weighted = segment_sum(x, index, weights);

  const at::Tensor flat = x.view({kInputs, 15});
  EXPECT_TRUE(at::allclose(plain.view({kOutputs, 15}), dense(*index).mm(flat)));
  EXPECT_TRUE(at::allclose(weighted.view({kOutputs, 15}), dense(*index, weights).mm(flat)));
}

TEST(SegmentMeanTest, EqualsTheDenseMatrixWithRowsThatSumToOne) {
  const SegmentIndexPtr index = random_index(4);
  const at::Tensor x = random_tensor({kInputs, 600}, 5);
  const at::Tensor matrix = dense(*index);

  const at::Tensor mean = segment_mean(x, index);

  EXPECT_TRUE(at::allclose(mean, matrix.mm(x) / matrix.sum(1, true).clamp_min(1)));
  EXPECT_EQ(mean[kOutputs - 1].abs().max().item<double>(), 0);  // it has no edge
}

TEST(SegmentMaxTest, TakesTheLargestOfEachColumn) {
  const std::vector<int32_t> outputs = {0, 0, 2}, inputs = {1, 0, 1};
  const auto index = std::make_shared<SegmentIndex>(3, 2, outputs, inputs);
  const at::Tensor x = at::tensor({1.0, -5.0, 0.5, -2.0}, at::kDouble).view({2, 2});
  EXPECT_TRUE(at::equal(segment_max(x, index),
                        at::tensor({1.0, -2.0, 0.0, 0.0, 0.5, -2.0}, at::kDouble).view({3, 2})));
}

TEST(SegmentMaxTest, OfEqualRowsTheFirstGetsTheGradient) {
  const std::vector<int32_t> outputs = {0, 0}, inputs = {1, 0};
  const auto index = std::make_shared<SegmentIndex>(1, 2, outputs, inputs);
  at::Tensor x = at::ones({2, 1}, at::kDouble).requires_grad_();
  segment_max(x, index).sum().backward();
  EXPECT_EQ(x.grad()[1].item<double>(), 1);
  EXPECT_EQ(x.grad()[0].item<double>(), 0);
}

TEST(SegmentGradientTest, MeetFiniteDifferences) {
  const SegmentIndexPtr index = random_index(6);
  const at::Tensor x = random_tensor({kInputs, 2, 3}, 7);
  const at::Tensor weights = random_tensor({index->num_edges()}, 8);
  testing::expect_gradients_meet_differences(
      [&](const auto& in) { return segment_sum(in[0], index, in[1]); }, {x, weights});
  testing::expect_gradients_meet_differences(
      [&](const auto& in) { return segment_mean(in[0], index); }, {x});
  testing::expect_gradients_meet_differences(
      [&](const auto& in) { return segment_max(in[0], index); }, {x});
}

TEST(SegmentThreadsTest, TwoThreadsGiveTheBitsOfOne) {
  const SegmentIndexPtr index = random_index(9, 400);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor x = random_tensor({kInputs, 70000}, 10, type).requires_grad_();
    std::vector<at::Tensor> values, gradients;
    for (const int threads : {1, 2}) {
      at::set_num_threads(threads);
      x.mutable_grad() = at::Tensor();
      values.push_back(segment_mean(x, index));
      (values.back() * values.back()).sum().backward();
      gradients.push_back(x.grad());
    }
    EXPECT_TRUE(at::equal(values[0], values[1]));
    EXPECT_TRUE(at::equal(gradients[0], gradients[1]));
  }
}

TEST(SegmentSumTest, Bfloat16IsSummedInFloat) {
  // 256 + 1 is 256 in bfloat16; in float 256 + 8 * 1 = 264 is kept.
  const std::vector<int32_t> outputs(9, 0), inputs = {0, 1, 1, 1, 1, 1, 1, 1, 1};
  const auto index = std::make_shared<SegmentIndex>(1, 2, outputs, inputs);
  const at::Tensor x = at::tensor({256.0, 1.0}).to(at::kBFloat16).view({2, 1});
  EXPECT_EQ(segment_sum(x, index).item<float>(), 264);
}

TEST(SegmentSumTest, WrongShapesAreRefused) {
  const SegmentIndexPtr index = random_index(1);
  EXPECT_THROW(segment_sum(at::zeros({kInputs + 1, 2}), index), c10::ValueError);
  EXPECT_THROW(segment_sum(at::zeros({kInputs, 2}, at::kInt), index), c10::ValueError);
  EXPECT_THROW(segment_sum(at::zeros({kInputs, 2}), index, at::ones({3})), c10::ValueError);
  EXPECT_THROW(SegmentIndex(1, 1, std::vector<int32_t>{1}, std::vector<int32_t>{0}),
               std::invalid_argument);
}

TEST(SegmentSumTest, NoEdgesGiveZeros) {
  const auto index =
      std::make_shared<SegmentIndex>(2, 3, std::vector<int32_t>{}, std::vector<int32_t>{});
  at::Tensor x = at::ones({3, 4}).requires_grad_();
  const at::Tensor sum = segment_sum(x, index);
  EXPECT_EQ(sum.sum().item<float>(), 0);
  sum.sum().backward();
  EXPECT_EQ(x.grad().abs().sum().item<float>(), 0);
}

}  // namespace
}  // namespace lagom::tensor

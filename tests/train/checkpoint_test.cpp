#include "lagom/train/checkpoint.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <nlohmann/json.hpp>

#include "lagom/train/run_log.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "tests/testing/command.h"

namespace lagom::train {
namespace {

using ::testing::HasSubstr;

struct Two : torch::nn::Module {
  explicit Two(int64_t width) {
    weight = register_parameter("weight", at::randn({width, 2}));
    mean = register_buffer("mean", at::randn({3}));
  }
  at::Tensor weight, mean;
};

std::string error_of(Two& module, const std::string& path, const std::string& prefix) {
  try {
    load_module(module, tensor::load_tensors(path), "f", prefix);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

TEST(CheckpointTest, AModuleComesBackFromItsFile) {
  testing::TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  const Two from(4);
  tensor::save_tensors(path, module_tensors(from, "model."), {{"step", "12"}});

  Two to(4);
  load_module(to, tensor::load_tensors(path), path, "model.");

  EXPECT_TRUE(at::equal(to.weight, from.weight));
  EXPECT_TRUE(at::equal(to.mean, from.mean));
  EXPECT_EQ(tensor::load_tensors(path).metadata.at("step"), "12");
}

TEST(CheckpointTest, AnotherArchitectureIsRefusedBeforeAnythingChanges) {
  testing::TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  const Two from(4);
  std::vector<tensor::NamedTensor> tensors = module_tensors(from, "model.");
  tensor::save_tensors(path, tensors, {});
  Two wider(5);
  const at::Tensor mean = wider.mean.clone();

  EXPECT_EQ(error_of(wider, path, "model."),
            "f: tensor 'model.weight': expected shape [5, 2], found [4, 2]");
  EXPECT_TRUE(at::equal(wider.mean, mean));
  EXPECT_EQ(error_of(wider, path, "other."), "f: has no tensor 'other.weight'");
  tensors.emplace_back("model.extra", at::zeros({1}));
  tensor::save_tensors(path, tensors, {});
  Two same(4);
  EXPECT_EQ(error_of(same, path, "model."),
            "f: tensor 'model.extra': the model has no such parameter");
}

TEST(CheckpointTest, EveryDtypeComesBack) {
  testing::TemporaryFolder folder;
  std::vector<tensor::NamedTensor> tensors;
  for (const at::ScalarType type : {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt,
                                    at::kLong, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    // One value of one byte first, so that the next tensors are not aligned.
    tensors.emplace_back("byte" + std::to_string(tensors.size()), at::ones({1}, at::kByte));
    tensors.emplace_back(c10::toString(type), at::arange(6, at::kInt).view({2, 3}).to(type));
  }
  tensors.emplace_back("empty", at::empty({0, 3}));
  tensors.emplace_back("transposed", at::arange(6, at::kFloat).view({2, 3}).t());
  tensor::save_tensors(folder / "t", tensors, {});

  const tensor::TensorFile file = tensor::load_tensors(folder / "t");

  for (const auto& [name, values] : tensors) {
    EXPECT_TRUE(at::equal(file.find(name), values)) << name;
    EXPECT_EQ(file.find(name).scalar_type(), values.scalar_type()) << name;
  }
}

TEST(RunLogTest, ResumedRunDropsWhatItsCheckpointHadNotReached) {
  testing::TemporaryFolder folder;
  {
    RunLog log(folder.path(), 0);
    for (int64_t step = 0; step < 5; ++step) {
      const std::vector<formats::Scalar> scalars = {
          {"loss", 1.0 / (1 + static_cast<double>(step))}};
      log.add(step, scalars);
    }
  }
  {
    RunLog log(folder.path(), 3);
    const std::vector<formats::Scalar> scalars = {{"loss", std::nan("")}};
    log.add(3, scalars);
  }

  EXPECT_EQ(read_file(folder / "log.jsonl"),
            "{\"step\":0,\"loss\":1.0}\n{\"step\":1,\"loss\":0.5}\n"
            "{\"step\":2,\"loss\":0.3333333333333333}\n{\"step\":3,\"loss\":null}\n");
}

TEST(RunLogTest, DurationsReadWell) {
  EXPECT_EQ(duration_to_string(45.4), "45 s");
  EXPECT_EQ(duration_to_string(130), "2 min 10 s");
  EXPECT_EQ(duration_to_string(3 * 3600 + 5 * 60 + 1), "3 h 05 min");
}

}  // namespace
}  // namespace lagom::train

#include "lagom/lm/trainer.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lagom/lm/checkpoint.h"
#include "lagom/lm/evaluation.h"
#include "lagom/lm/import.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "tests/lm/reference.h"
#include "tests/testing/command.h"

namespace lagom::lm {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A corpus in which every byte follows from the one before.
std::string alphabet_text(int64_t size) {
  std::string text;
  for (int64_t i = 0; i < size; ++i) text += static_cast<char>('a' + i % 26);
  return text;
}

LmTrainOptions small_run(const testing::TemporaryFolder& folder) {
  LmTrainOptions options;
  options.steps = 12;
  options.batch = 4;
  options.eval_every = 0;
  options.eval_windows = 4;
  options.save_every = 0;
  options.schedule.learning_rate = 1e-2;
  options.data.train = folder.write("text.txt", alphabet_text(4000));
  options.model = small_options();
  options.model.vocab_size = 256;
  return options;
}

bool same_weights(const Model& a, const Model& b) {
  const auto x = model_tensors(a), y = model_tensors(b);
  for (size_t i = 0; i < x.size(); ++i) {
    // Thresholds may be NaN on both sides.
    if (!at::allclose(x[i].second, y[i].second, 0, 0, /*equal_nan=*/true)) return false;
  }
  return true;
}

TEST(TrainerTest, LearnsTheAlphabet) {
  const testing::TemporaryFolder folder;
  LmTrainOptions options = small_run(folder);
  options.steps = 120;
  LmTrainer trainer(options, folder / "run", false);
  LmStepReport report;
  while (trainer.step() < options.steps) report = trainer.train_step();
  EXPECT_LT(report.loss, 0.1);  // log(256) = 5.5 at first
}

TEST(TrainerTest, ResumingGivesTheSameBits) {
  const testing::TemporaryFolder folder;
  LmTrainOptions options = small_run(folder);
  options.accumulate = 2;
  options.capacity_warmup_share = 0.5;
  LmTrainer whole(options, folder / "whole", false);
  for (int i = 0; i < 12; ++i) whole.train_step();
  {
    LmTrainer first(options, folder / "parts", false);
    for (int i = 0; i < 5; ++i) first.train_step();
    first.save();
    first.train_step();  // lost: it was after the checkpoint
  }

  LmTrainer second(options, folder / "parts", true);
  EXPECT_EQ(second.step(), 5);
  for (int i = 0; i < 7; ++i) second.train_step();

  EXPECT_TRUE(same_weights(whole.model(), second.model()));
}

TEST(TrainerTest, RunWritesAModelThatEvaluatesTheSame) {
  const testing::TemporaryFolder folder;
  LmTrainOptions options = small_run(folder);
  options.sample_every = 12;
  options.sample_prompt = "abc";
  LmTrainer trainer(options, folder / "run", false);
  trainer.run([] { return false; });

  const LoadedModel loaded = load_model(folder / "run");
  EXPECT_TRUE(same_weights(*loaded.model, trainer.model()));
  EXPECT_EQ(loaded.tokenizer, "bytes");
  EXPECT_FALSE(loaded.model->calibrated_thresholds.isnan().any().item<bool>());
  EXPECT_THAT(read_file(folder / "run/samples.txt"), HasSubstr("== step 12\nabc"));
  EXPECT_THAT(read_file(folder / "run/log.jsonl"), HasSubstr("\"validation_loss\""));
  EXPECT_THAT(read_file(folder / "run/options.toml"), HasSubstr("steps = 12"));
}

TEST(TrainerTest, DataOrderDoesNotDependOnTheModel) {
  const testing::TemporaryFolder folder;
  LmTrainOptions routed = small_run(folder), dense = routed;
  dense.model.routing.every = 0;
  // Before any training both models' losses are near log(256), on the same windows.
  const double a = LmTrainer(routed, folder / "a", false).train_step().loss;
  const double b = LmTrainer(dense, folder / "b", false).train_step().loss;
  EXPECT_NEAR(a, b, 0.05);
}

TEST(TrainerTest, CapacityWarmUpEndsAtTheModels) {
  const testing::TemporaryFolder folder;
  LmTrainOptions options = small_run(folder);
  options.capacity_warmup_share = 0.5;  // of 12 steps
  LmTrainer trainer(options, folder / "run", false);
  std::vector<double> capacities;
  for (int i = 0; i < 8; ++i) capacities.push_back(trainer.train_step().capacity);
  EXPECT_EQ(capacities[0], 1);
  EXPECT_DOUBLE_EQ(capacities[3], 1 - 0.75 / 2);
  EXPECT_EQ(capacities[6], 0.25);
  EXPECT_EQ(capacities[7], 0.25);
}

TEST(TrainerTest, BadInputIsNamed) {
  const testing::TemporaryFolder folder;
  const auto complaint = [&](const LmTrainOptions& options) -> std::string {
    try {
      LmTrainer trainer(options, folder / "run", false);
      trainer.train_step();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  LmTrainOptions options = small_run(folder);
  options.data.train = folder.write("empty.txt", "");
  EXPECT_THAT(complaint(options), HasSubstr("a corpus of 0 tokens has no window"));
  options.data.train = folder.write("one.txt", "a");
  EXPECT_THAT(complaint(options), HasSubstr("a corpus of 1 tokens has no window"));
  options.data.train = folder / "missing.txt";
  EXPECT_THAT(complaint(options), HasSubstr("missing.txt"));
  options = small_run(folder);
  options.model.vocab_size = 100;
  EXPECT_THAT(complaint(options), HasSubstr("vocab_size is 100"));
  options = small_run(folder);
  options.steps = 0;
  EXPECT_THAT(complaint(options), HasSubstr("steps"));
  options = small_run(folder);
  options.model.num_heads = 5;
  EXPECT_THAT(complaint(options), HasSubstr("num_heads"));
  options = small_run(folder);
  options.schedule.learning_rate = 1e30;
  options.optimizer.clip_norm = 0;
  options.schedule.warmup_share = 0;
  LmTrainer exploding(options, folder / "run", false);
  EXPECT_THAT(
      [&] {
        for (int i = 0; i < 12; ++i) exploding.train_step();
      },
      ThrowsMessage<std::runtime_error>(HasSubstr("not finite")));
}

TEST(CheckpointTest, BrokenFilesAreRefused) {
  const testing::TemporaryFolder folder;
  const Model model(small_options(), 1);
  const std::string path = folder / "model.safetensors";
  save_model(path, model, "bytes");
  EXPECT_TRUE(same_weights(*load_model(path).model, model));

  const auto resaved = [&](const std::string& key, const std::string& from, const std::string& to) {
    tensor::TensorFile file = tensor::load_tensors(path);
    std::string& text = file.metadata.at(key);
    text.replace(text.find(from), from.size(), to);
    tensor::save_tensors(folder / "broken.safetensors", file.tensors, file.metadata);
    try {
      load_model(folder / "broken.safetensors");
    } catch (const FormatError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(resaved("options", "d_model = 32", "d_model = 64"), HasSubstr("shape"));
  EXPECT_THAT(resaved("options", "gate = ", "gait = "), HasSubstr("gait"));
  EXPECT_THAT(resaved("options", "num_layers = 4", "num_layers = 5"), HasSubstr("missing"));
  EXPECT_THAT(resaved("options", "predictor = true", "predictor = false"),
              HasSubstr("none of the"));
  EXPECT_THAT(resaved("options", "num_heads = 4", "num_heads = 5"), HasSubstr("num_heads"));
  EXPECT_THAT(resaved("version", "1", "2"), HasSubstr("version"));
  const std::string bytes = read_file(path);
  EXPECT_THROW(load_model(folder.write("cut.safetensors", bytes.substr(0, bytes.size() - 9))),
               FormatError);
}

TEST(ImportTest, LlamaRoundTrips) {
  const testing::TemporaryFolder folder;
  LmOptions options = small_options();
  options.routing.every = 0;
  options.activation = Activation::kSwiglu;
  options.num_kv_heads = 2;
  for (const bool tied : {false, true}) {
    options.tied_head = tied;
    Model model(options, 1);
    enlarge_weights(model, 2);
    export_llama(model, folder / "llama");

    const LoadedModel loaded = load_model(folder / "llama");

    EXPECT_TRUE(same_weights(*loaded.model, model));
    EXPECT_EQ(loaded.tokenizer, "bytes");
  }
  EXPECT_THROW(export_llama(Model(small_options(), 1), folder / "routed"), std::invalid_argument);
}

TEST(ImportTest, LlamasRotaryBaseIsReadWhereverItStands) {
  const testing::TemporaryFolder folder;
  LmOptions options = small_options();
  options.routing.every = 0;
  options.activation = Activation::kSwiglu;
  options.rope_theta = 500000;
  export_llama(Model(options, 1), folder / "llama");
  const std::string config = read_file(folder / "llama/config.json");
  const size_t at = config.find("\"rope_theta\"");
  const size_t end = config.find('\n', at);
  const auto load_with = [&](const std::string& field) {
    folder.write("llama/config.json", config.substr(0, at) + field + "," + config.substr(end));
    return load_model(folder / "llama").model->options().rope_theta;
  };
  EXPECT_EQ(load_with(R"("rope_theta": 500000)"), 500000);
  EXPECT_EQ(load_with(R"("rope_parameters": {"rope_type": "default", "rope_theta": 500000})"),
            500000);
  EXPECT_THAT([&] { load_with(R"("rope_parameters": {"rope_type": "llama3", "factor": 8.0})"); },
              ThrowsMessage<FormatError>(HasSubstr("llama3")));
  EXPECT_THAT([&] { load_with(R"("rope_scaling": {"type": "linear", "factor": 2.0})"); },
              ThrowsMessage<FormatError>(HasSubstr("linear")));
  EXPECT_THAT([&] { load_with(R"("mlp_bias": true)"); },
              ThrowsMessage<FormatError>(HasSubstr("mlp_bias")));
}

TEST(ImportTest, Gpt2KeepsItsLogits) {
  const testing::TemporaryFolder folder;
  LmOptions options = small_options();
  options.routing.every = 0;
  options.norm = Norm::kLayer;
  options.positions = Positions::kLearned;
  options.bias = true;
  Model model(options, 1);
  enlarge_weights(model, 2);
  // GPT-2 keeps its weights the other way round, [in, out].
  std::vector<tensor::NamedTensor> tensors;
  for (const auto& [name, value] : model_tensors(model)) {
    std::string theirs = name;
    const auto rename = [&](const std::string& from, const std::string& to) {
      const size_t at = theirs.find(from);
      if (at != std::string::npos) theirs.replace(at, from.size(), to);
      return at != std::string::npos;
    };
    bool turned = false;
    if (theirs == "embedding.weight") theirs = "wte.weight";
    if (theirs == "position_embedding.weight") theirs = "wpe.weight";
    if (theirs.starts_with("norm.")) rename("norm", "ln_f");
    rename("blocks.", "h.");
    rename("attention_norm", "ln_1");
    rename("mlp_norm", "ln_2");
    turned |= rename("qkv", "attn.c_attn");
    turned |= rename("attention_out", "attn.c_proj");
    turned |= rename("mlp_in", "mlp.c_fc");
    turned |= rename("mlp_out", "mlp.c_proj");
    tensors.emplace_back("transformer." + theirs,
                         turned && value.dim() == 2 ? value.t().contiguous() : value);
  }
  tensor::save_tensors(folder / "model.safetensors", tensors, {});
  folder.write("config.json", R"({"model_type": "gpt2", "vocab_size": 31, "n_positions": 24,
    "n_embd": 32, "n_layer": 4, "n_head": 4, "n_inner": null, "layer_norm_epsilon": 1e-5})");

  const LoadedModel loaded = load_model(folder / "model.safetensors");

  EXPECT_TRUE(same_weights(*loaded.model, model));
  folder.write("config.json", R"({"model_type": "gpt2", "vocab_size": 31, "n_embd": 32,
    "n_layer": 4, "n_head": 4, "n_positions": 25})");
  EXPECT_THAT([&] { load_model(folder / "model.safetensors"); },
              ThrowsMessage<FormatError>(HasSubstr("wpe.weight")));
  folder.write("config.json", R"({"model_type": "bert"})");
  EXPECT_THAT([&] { load_model(folder / "model.safetensors"); },
              ThrowsMessage<FormatError>(HasSubstr("model_type")));
}

TEST(ImportTest, ConversionAtFullCapacityKeepsTheDenseModel) {
  LmOptions options = small_options();
  options.routing.every = 0;
  Model dense(options, 1);
  enlarge_weights(dense, 2);
  const auto routed = convert_to_routed(dense, {.capacity = 0.25, .gate = Gate::kNone}, 3);
  const at::Tensor tokens = random_tokens(2, 24, 31, 4);

  const at::Tensor full = routed->forward(tokens, {.capacity = 1}).hidden;

  EXPECT_TRUE(at::equal(full, dense.forward(tokens).hidden));
  EXPECT_GT(max_difference(routed->forward(tokens).hidden, full), 1e-3);
  EXPECT_THROW(convert_to_routed(*routed, {}, 3), std::invalid_argument);
}

TEST(EvaluationTest, CountsOfThePredictor) {
  RoutedLayer layer;
  layer.predictor_logits = at::tensor({1.F, 1.F, -1.F, -1.F, -1.F, 2.F}).view({1, 6});
  layer.chosen = at::tensor({1, 0, 1, 0, 0, 1}).to(at::kBool).view({1, 6});
  const RoutingCounts counts = count_predictions(layer);
  EXPECT_EQ(counts.true_positive, 2);
  EXPECT_EQ(counts.false_positive, 1);
  EXPECT_EQ(counts.false_negative, 1);
  EXPECT_EQ(counts.true_negative, 2);
  EXPECT_DOUBLE_EQ(counts.accuracy(), 4.0 / 6);
  EXPECT_DOUBLE_EQ(counts.precision(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(counts.recall(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(counts.realised_rate(), 0.5);
  EXPECT_DOUBLE_EQ(counts.majority_accuracy(), 0.5);
}

TEST(EvaluationTest, CalibrationGivesTheShareInEveryBlock) {
  const testing::TemporaryFolder folder;
  LmOptions options = small_options();
  options.vocab_size = 256;
  Model model(options, 1);
  enlarge_weights(model, 2);
  DataOptions data_options;
  data_options.train = folder.write("text.txt", alphabet_text(1000));
  data_options.validation = folder.write("other.txt", std::string("to be or not to be, that ") +
                                                          std::string("is the question: whether") +
                                                          std::string("'tis nobler in the mind"));
  const LmData data = open_data(data_options, folder.path());

  calibrate_thresholds(model, data.validation, *data.tokenizer, {});

  const Evaluation evaluation =
      evaluate(model, data.validation, *data.tokenizer, {.routing = Routing::kThreshold});
  ASSERT_EQ(evaluation.tokens, 48);  // two windows of 24
  EXPECT_EQ(evaluation.rates, (std::vector<double>{0.25, 0.25}));
}

TEST(DataTest, DocumentsEndAtTheEndToken) {
  const testing::TemporaryFolder folder;
  DataOptions options;
  options.train = folder.write("a.bin", std::string("a\0b\0\0\0c\0d\0e\0", 12));
  options.validation = options.train;
  const LmData data = open_data(options, folder.path());
  const std::vector<int64_t> begins = {0};

  const LmBatch batch = data.train.batch(begins, 5, 256, 0);

  EXPECT_TRUE(at::equal(batch.tokens, at::tensor({97, 98, 0, 99, 100}, at::kLong).view({1, 5})));
  EXPECT_TRUE(at::equal(batch.targets, at::tensor({98, 0, 99, 100, 101}, at::kLong).view({1, 5})));
  EXPECT_TRUE(at::equal(batch.segments, at::tensor({0, 0, 0, 1, 1}, at::kLong).view({1, 5})));
}

}  // namespace
}  // namespace lagom::lm

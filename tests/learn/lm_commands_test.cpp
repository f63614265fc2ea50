#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lagom/util/file.h"
#include "tests/testing/command.h"

namespace lagom {
namespace {

using nlohmann::json;
using testing::CommandResult;
using ::testing::HasSubstr;
using testing::run_command;

constexpr const char* kConfig = R"(steps = 6
batch = 2
eval_windows = 2
[data]
train = "TEXT"
[model]
d_model = 32
num_layers = 2
seq_len = 32
)";

/// A folder with a text, a config and, after `train`, a run.
class LmCommandsTest : public ::testing::Test {
 protected:
  LmCommandsTest() {
    std::string text;
    for (int i = 0; i < 300; ++i) text += "to be or not to be ";
    text_ = folder_.write("text.txt", text);
    std::string config = kConfig;
    config.replace(config.find("TEXT"), 4, text_);
    config_ = folder_.write("config.toml", config);
  }
  CommandResult lm(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "lm");
    return run_command("lagom-learn", arguments);
  }
  CommandResult train() const { return lm({"train", config_, "--out", run()}); }
  std::string run() const { return folder_ / "run"; }

  testing::TemporaryFolder folder_;
  std::string text_, config_;
};

TEST_F(LmCommandsTest, TrainsEvaluatesAndSamples) {
  const CommandResult trained = train();
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("validation loss"));

  const CommandResult evaluated = lm({"eval", run(), text_, "--windows", "2", "--json"});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  const json rows = json::parse(evaluated.out);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0]["routing"], "topk");
  EXPECT_EQ(rows[0]["causal"], false);
  EXPECT_EQ(rows[1]["routing"], "predictor");
  EXPECT_EQ(rows[0]["tokens"], 64);

  const std::vector<std::string> sample = {"sample", run(),          "--prompt", "to ",   "--json",
                                           "--set",  "max_tokens=4", "--set",    "seed=3"};
  const CommandResult sampled = lm(sample);
  ASSERT_EQ(sampled.status, 0) << sampled.err;
  EXPECT_EQ(json::parse(sampled.out)[0]["tokens"].size(), 4U);
  EXPECT_EQ(lm(sample).out, sampled.out);
}

TEST_F(LmCommandsTest, ResumesAFinishedRunWithoutAStep) {
  ASSERT_EQ(train().status, 0);
  const std::string before = read_file(run() + "/model.safetensors");
  ASSERT_EQ(lm({"train", config_, "--out", run(), "--resume"}).status, 0);
  EXPECT_EQ(read_file(run() + "/model.safetensors"), before);
}

TEST_F(LmCommandsTest, CountsFlopsOfAConfig) {
  const CommandResult counted =
      lm({"flops", config_, "--set", "model.routing.capacity=0.25", "--json"});
  ASSERT_EQ(counted.status, 0) << counted.err;
  const json table = json::parse(counted.out);
  EXPECT_EQ(table["length"], 32);
  // One dense and one routed block of 32 and 8 tokens; router 2 S d, predictor 2 S (d p + p).
  const auto block = [](int64_t n) { return 24 * n * 32 * 32 + 4 * n * n * 32; };
  EXPECT_EQ(table["forward"],
            block(32) + block(8) + 2 * 32 * 32 + 2 * 32 * (32 * 16 + 16) + 2 * 32 * 32 * 256);
}

TEST_F(LmCommandsTest, ConvertsADenseRunToARoutedModel) {
  ASSERT_EQ(lm({"train", config_, "--out", run(), "--set", "model.routing.every=0", "--set",
                "model.activation=swiglu"})
                .status,
            0);
  ASSERT_EQ(lm({"convert", run(), folder_ / "mod", "--to", "mod"}).status, 0);
  ASSERT_EQ(lm({"convert", run(), folder_ / "llama", "--to", "llama"}).status, 0);
  EXPECT_EQ(lm({"eval", folder_ / "mod", text_, "--windows", "1"}).status, 0);
  EXPECT_EQ(lm({"eval", folder_ / "llama", text_, "--windows", "1"}).status, 0);
  EXPECT_THAT(lm({"convert", folder_ / "mod", folder_ / "again", "--to", "llama"}).err,
              HasSubstr("dense"));
}

TEST_F(LmCommandsTest, BadInputIsOneLine) {
  const auto expect_failure = [](const CommandResult& result, const char* what) {
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr(what));
  };
  expect_failure(lm({"train", config_, "--out", run(), "--set", "model.dmodel=3"}), "dmodel");
  expect_failure(lm({"train", config_, "--out", run(), "--set", "model.num_heads=5"}), "num_heads");
  expect_failure(lm({"train", config_, "--out", run(), "--set", "data.train=missing.txt"}),
                 "missing.txt");
  expect_failure(lm({"sample", folder_ / "nothing"}), "nothing");
  ASSERT_EQ(train().status, 0);
  expect_failure(lm({"sample", run(), "--prompt", std::string(33, 'x')}), "the context 32");
  expect_failure(lm({"sample", run(), "--routing", "topk"}), "causal");
  expect_failure(lm({"sample", run(), "--weights", "int3"}), "int8");
  EXPECT_EQ(lm({"train"}).status, 1);
  EXPECT_EQ(lm({"sing"}).status, 2);
}

}  // namespace
}  // namespace lagom

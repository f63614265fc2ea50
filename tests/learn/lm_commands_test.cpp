#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lagom/text/token_file.h"
#include "lagom/util/file.h"
#include "tests/testing/command.h"
#include "tests/testing/small_tokenizer.h"

namespace lagom {
namespace {

using nlohmann::json;
using testing::CommandResult;
using ::testing::ElementsAreArray;
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

TEST_F(LmCommandsTest, TokenizesACorpusThatTrains) {
  const std::string tokenizer = folder_.write("tokenizer.json", testing::small_tokenizer().dump());
  // " ab" is one token: 30 of it after the first word, then the end of the text.
  std::string document = "ab", lines;
  std::vector<int64_t> tokens = {256}, expected;
  for (int i = 0; i < 30; ++i) {
    document += " ab";
    tokens.push_back(259);
  }
  tokens.push_back(261);
  for (int i = 0; i < 10; ++i) {
    lines += json{{"text", document}}.dump() + '\n';
    expected.insert(expected.end(), tokens.begin(), tokens.end());
  }
  const std::string shard = folder_ / "corpus.bin";

  const CommandResult written =
      lm({"tokenize", tokenizer, folder_.write("corpus.jsonl", lines), shard});

  ASSERT_EQ(written.status, 0) << written.err;
  EXPECT_THAT(written.err, HasSubstr("320 tokens of 262"));
  std::vector<int64_t> found(expected.size());
  const text::TokenFile file = text::TokenFile::open_shard(shard);
  ASSERT_EQ(file.size(), 320);
  file.read(0, found, 262);
  EXPECT_THAT(found, ElementsAreArray(expected));

  const CommandResult trained =
      lm({"train", config_, "--out", run(), "--set", "data.train=" + shard, "--set",
          "data.validation=" + shard, "--set", "data.tokenizer=" + tokenizer, "--set",
          "model.vocab_size=262"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  const CommandResult sampled = lm({"sample", run(), "--prompt", "ab", "--json"});
  EXPECT_EQ(sampled.status, 0) << sampled.err;

  ASSERT_EQ(lm({"tokenize", "bytes", text_, shard}).status, 0);
  EXPECT_EQ(text::TokenFile::open_shard(shard).size(), std::ssize(read_file(text_)) + 1);
}

TEST_F(LmCommandsTest, TokenizeSaysWhatIsWrong) {
  const auto complaint = [&](const std::string& tokenizer, const std::string& in) {
    const CommandResult result = lm({"tokenize", tokenizer, in, folder_ / "out.bin"});
    EXPECT_EQ(result.status, 1);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out.bin"));
    return result.err;
  };
  EXPECT_THAT(complaint("bytes", folder_.write("a.jsonl", "\"a\"\n{\"txt\": 1}\n")),
              HasSubstr("line 2"));
  EXPECT_THAT(complaint("bytes", folder_ / "none.txt"), HasSubstr("none.txt"));
  EXPECT_THAT(complaint(folder_.write("t.json", "{}"), text_), HasSubstr("t.json"));
}

TEST_F(LmCommandsTest, ShowsRoutes) {
  ASSERT_EQ(train().status, 0);
  const CommandResult shown =
      lm({"routes", run(), text_, "--windows", "4", "--html", folder_ / "routes.html"});
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("to be or not to be"));
  EXPECT_THAT(shown.out, HasSubstr("Is it more than position and token?"));
  EXPECT_THAT(read_file(folder_ / "routes.html"), HasSubstr("<svg"));

  const CommandResult machine = lm({"routes", run(), text_, "--windows", "4", "--json"});
  ASSERT_EQ(machine.status, 0) << machine.err;
  const json analysis = json::parse(machine.out);
  EXPECT_EQ(analysis["tokens"], 128);
  EXPECT_EQ(analysis["layers"][0]["rate"], 0.125);  // 4 of 32
  EXPECT_EQ(analysis["controls"].size(), 5U);

  const CommandResult causal =
      lm({"routes", run(), text_, "--windows", "4", "--routing", "predictor", "--json"});
  ASSERT_EQ(causal.status, 0) << causal.err;
  EXPECT_EQ(json::parse(causal.out)["controls"].size(), 0U);
  EXPECT_THAT(lm({"routes", run(), text_, "--map", "99"}).err, HasSubstr("no window 99"));
}

TEST_F(LmCommandsTest, TurnsTheDial) {
  ASSERT_EQ(train().status, 0);
  const CommandResult dial =
      lm({"eval", run(), text_, "--windows", "4", "--rates", "0.5,1,2", "--json"});
  ASSERT_EQ(dial.status, 0) << dial.err;
  const json rows = json::parse(dial.out);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[2]["share"], 0.25);
  EXPECT_LE(rows[0]["kv_bytes"], rows[2]["kv_bytes"]);
  EXPECT_THAT(lm({"eval", run(), text_, "--rates", "0"}).err, HasSubstr("above 0"));
}

TEST_F(LmCommandsTest, TrainsAndSamplesExperts) {
  const std::vector<std::string> kinds = {"model.routing.every=0", "model.experts.choice=token",
                                          "model.experts.every=2"};
  for (const std::string& kind : kinds) {
    const std::string out = folder_ / kind;
    const CommandResult trained =
        lm({"train", config_, "--out", out, "--set", "model.experts.count=3", "--set",
            "model.experts.no_ops=1", "--set", kind});
    ASSERT_EQ(trained.status, 0) << trained.err;
    const CommandResult evaluated = lm({"eval", out, text_, "--windows", "2"});
    ASSERT_EQ(evaluated.status, 0) << evaluated.err;
    EXPECT_THAT(evaluated.out, HasSubstr("experts of block 0"));
    EXPECT_EQ(lm({"sample", out, "--set", "max_tokens=4"}).status, 0);
  }
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

/// A plan of two families and six short runs.
class IsoflopCommandTest : public LmCommandsTest {
 protected:
  IsoflopCommandTest() {
    plan_ = folder_.write("plan.toml", "config = \"" + config_ + R"("
budgets = [1e9]
sizes = ["32x1", "32x2", "32x4"]
seeds = [1]
min_steps = 2
[families.dense]
set = ["model.routing.every=0"]
[families.mod]
sizes = ["32x2", "32x4"]
)");
  }
  std::string out() const { return folder_ / "out"; }
  int64_t results() const {
    int64_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(out())) {
      count += entry.path().filename() == "result.json";
    }
    return count;
  }
  std::string plan_;
};

TEST_F(IsoflopCommandTest, RunsReportsAndDoesNothingTwice) {
  const CommandResult dry = lm({"isoflop", plan_, "--dry-run"});
  ASSERT_EQ(dry.status, 0) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr("32x4"));

  const CommandResult half = lm({"isoflop", plan_, "--out", out(), "--shard", "1/2"});
  ASSERT_EQ(half.status, 0) << half.err;
  EXPECT_EQ(results(), 3);
  EXPECT_THAT(half.err, HasSubstr("[3/3]"));
  const CommandResult whole = lm({"isoflop", plan_, "--out", out(), "--json"});
  ASSERT_EQ(whole.status, 0) << whole.err;
  EXPECT_EQ(results(), 5);
  const json analysis = json::parse(whole.out);
  EXPECT_EQ(analysis["runs_done"], 5);
  EXPECT_EQ(analysis["curves"][0]["points"].size(), 3U);
  EXPECT_GT(analysis["curves"][1]["points"][0]["loss"], 0);
  for (const char* file : {"plan.csv", "points.csv", "fit.csv", "report.html"}) {
    EXPECT_FALSE(read_file(out() + "/" + file).empty());
  }
  const CommandResult again = lm({"isoflop", plan_, "--out", out()});
  EXPECT_EQ(again.status, 0);
  EXPECT_THAT(again.err, ::testing::Not(HasSubstr("loss")));
}

TEST_F(IsoflopCommandTest, GoesOnAfterAKill) {
  {
    testing::Command runner("lagom-learn", {"lm", "isoflop", plan_, "--out", out(), "--jobs", "1"});
    ASSERT_TRUE(runner.wait_for("[1/5]", std::chrono::seconds(60)));
    runner.signal(SIGKILL);
    runner.wait();
  }
  const int64_t before = results();
  EXPECT_GE(before, 1);
  // The run that the dead runner had in hand may still be saving: then it is another's.
  for (int i = 0; i < 20 && results() < 5; ++i) {
    const CommandResult rest = lm({"isoflop", plan_, "--out", out()});
    ASSERT_EQ(rest.status, 0) << rest.err;
  }
  EXPECT_EQ(results(), 5);
}

TEST_F(IsoflopCommandTest, TwoRunnersShareAFolder) {
  testing::Command first("lagom-learn", {"lm", "isoflop", plan_, "--out", out(), "--jobs", "1"});
  testing::Command second("lagom-learn", {"lm", "isoflop", plan_, "--out", out(), "--jobs", "1"});
  const CommandResult a = first.wait(), b = second.wait();
  EXPECT_EQ(a.status, 0) << a.err;
  EXPECT_EQ(b.status, 0) << b.err;
  EXPECT_EQ(results(), 5);
  const auto ended = [](const std::string& err) {
    int64_t count = 0;
    for (size_t at = err.find("] 1e9"); at != std::string::npos; at = err.find("] 1e9", at + 1)) {
      ++count;
    }
    return count;
  };
  EXPECT_EQ(ended(a.err) + ended(b.err), 5);  // none twice
}

TEST_F(IsoflopCommandTest, BadPlansAreOneLine) {
  const auto expect_failure = [](const CommandResult& result, const char* what) {
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr(what));
  };
  expect_failure(lm({"isoflop", plan_, "--out", out(), "--set", "budgets=[1e5]"}), "too small");
  expect_failure(lm({"isoflop", plan_, "--out", out(), "--set", "seeds=[1,1]"}), "given twice");
  expect_failure(lm({"isoflop", plan_, "--out", out(), "--shard", "3/2"}), "--shard");
  expect_failure(lm({"isoflop", plan_, "--out", out(), "--set", "families.mod.match=\"thick\""}),
                 "both sizes and match");
  expect_failure(lm({"isoflop", plan_}), "--out");
  expect_failure(lm({"isoflop", folder_ / "none.toml", "--out", out()}), "none.toml");
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

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lagom/collect/measured_file.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/rewrite/configuration.h"
#include "lagom/util/file.h"
#include "tests/testing/command.h"

namespace lagom {
namespace {

using collect::Row;
using nlohmann::json;
using testing::CommandResult;
using ::testing::HasSubstr;
using testing::run_command;

// Shapes as a measured kernel has them; N stands for a number.
constexpr const char* kKernel = R"(HloModule kernel
ENTRY main {
  p0 = f32[N,64]{1,0} parameter(0)
  p1 = f32[64,32]{1,0} parameter(1)
  ROOT node = f32[N,32]{1,0} dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";

constexpr const char* kConfig = R"(steps = 60
configs = 8
eval_every = 20
train = ["TRAIN"]
valid = ["VALID"]
[data]
link_hops = 4
[data.reduction]
kind = "contract"
[model]
width = 16
trunk_layers = 1
linear_layers = 1
graph_layers = 1
dropout = 0
[schedule]
learning_rate = 1e-2
)";

/// Measured kernels, made up: a form costs what it costs in each of them.
class CostModelCommandsTest : public ::testing::Test {
 protected:
  CostModelCommandsTest() {
    for (const int n : {8, 16, 24, 28, 32}) {
      const std::string folder = n < 32 ? "train" : "valid";
      std::filesystem::create_directories(folder_ / folder);
      const std::string name = "k" + std::to_string(n);
      collect::write_measured(
          folder_.path() / folder / name, hlo::read_hlo_text(kernel(n), name),
          {.programs = {"p"}, .signature = name, .device = "cpu made up", .hlo = kernel(n)},
          n == 28 ? flag_rows() : rows());
    }
    std::string config = kConfig;
    config.replace(config.find("TRAIN"), 5, folder_ / "train");
    config.replace(config.find("VALID"), 5, folder_ / "valid");
    config_ = folder_.write("config.toml", config);
  }

  static std::string kernel(int n) {
    std::string text = kKernel;
    for (size_t at; (at = text.find("[N,")) != std::string::npos;) {
      text.replace(at + 1, 1, std::to_string(n));
    }
    return text;
  }
  using Measured = std::vector<std::pair<const char*, double>>;
  /// Of a kernel that has no forms and no layouts: no node is configurable.
  static std::vector<Row> flag_rows() {
    return rows_of({{"", 1.0}, {"flag xla_cpu_prefer_vector_width 512\n", 0.9}});
  }
  static std::vector<Row> rows() {
    return rows_of({{"", 1.0},
                    {"node form swapped_dot\n", 0.5},
                    {"node operand-layout 1 {0,1}\n", 1.6},
                    {"node operand-layout 0 {0,1}\n", 2.0},
                    {"flag xla_cpu_prefer_vector_width 512\n", 0.9},
                    {"node form swapped_dot\nflag xla_cpu_prefer_vector_width 512\n", 0.4}});
  }
  static std::vector<Row> rows_of(const Measured& measured) {
    std::vector<Row> rows;
    for (const auto& [configuration, ratio] : measured) {
      rows.push_back({.configuration = configuration,
                      .seconds = ratio * 1e-5,
                      .default_seconds = 1e-5,
                      .ratio = {.median = ratio, .low = ratio - 0.01, .high = ratio + 0.01}});
    }
    return rows;
  }

  CommandResult learn(const std::vector<std::string>& arguments) const {
    return run_command("lagom-learn", arguments);
  }
  CommandResult train(const std::string& seeds = "[1]") const {
    return learn({"train", config_, "--out", folder_ / "run", "--set", "seeds=" + seeds});
  }
  std::string model() const { return folder_ / "run/best.safetensors"; }
  std::string npz() const { return folder_ / "valid/k32.npz"; }

  testing::TemporaryFolder folder_;
  std::string config_;
};

TEST_F(CostModelCommandsTest, TrainsAndRanksAKernelThatItHasNotSeen) {
  const CommandResult trained = train();
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("best kendall_tau"));

  const CommandResult ranked = learn({"rank", model(), npz(), "--top", "2", "--json"});
  ASSERT_EQ(ranked.status, 0) << ranked.err;
  const json result = json::parse(ranked.out);
  EXPECT_EQ(result["configurations"], 6);
  ASSERT_EQ(result["best"].size(), 2u);
  EXPECT_EQ(result["best"][0]["row"], 5);
  EXPECT_LE(result["best"][0]["cost"], result["best"][1]["cost"]);
  EXPECT_GT(result["seconds_per_configuration"], 0);

  // The file says where its data was measured, and what it expects.
  const CommandResult inspected = run_command("lagom", {"inspect", "--json", "--stats", model()});
  ASSERT_EQ(inspected.status, 0) << inspected.err;
  const json file = json::parse(inspected.out);
  EXPECT_EQ(file["kind"], "safetensors");
  EXPECT_THAT(file["metadata"]["options"].get<std::string>(), HasSubstr("\"cpu made up\""));
  EXPECT_FALSE(file["arrays"].empty());
}

TEST_F(CostModelCommandsTest, RanksSampledConfigurationsOfAProgram) {
  ASSERT_EQ(train().status, 0);
  const std::string text = kernel(40);
  const std::string program = folder_.write("program.hlo", text);

  const std::vector<std::string> command = {"rank",  model(), program,  "--samples", "30",
                                            "--top", "3",     "--json", "--seed",    "4"};
  const CommandResult ranked = learn(command);
  ASSERT_EQ(ranked.status, 0) << ranked.err;
  const json result = json::parse(ranked.out);
  EXPECT_GT(result["configurations"], 10);
  ASSERT_EQ(result["best"].size(), 3u);
  const auto configuration =
      rewrite::Configuration::from_string(result["best"][0]["configuration"].get<std::string>());
  EXPECT_NO_THROW(rewrite::apply(hlo::read_hlo_text(text, "program"), configuration));
  EXPECT_EQ(json::parse(learn(command).out)["best"], result["best"]);
}

TEST_F(CostModelCommandsTest, LearnsFromTheGraphsOfRewrittenKernels) {
  const std::string rewritten = folder_ / "rewritten";
  for (const std::string split : {"train", "valid"}) {
    const CommandResult converted =
        run_command("lagom", {"convert", folder_ / split, rewritten + "/" + split, "--encoding",
                              "rewritten", "--features", "3"});
    ASSERT_EQ(converted.status, 0) << converted.err;
  }
  const CommandResult trained = learn(
      {"train", config_, "--out", folder_ / "run", "--set", "model.kind=\"rewritten\"", "--set",
       "train=[\"" + rewritten + "/train\"]", "--set", "valid=[\"" + rewritten + "/valid\"]",
       "--set", "loss.hinge=0", "--set", "loss.log_mse=1"});
  ASSERT_EQ(trained.status, 0) << trained.err;

  const CommandResult ranked = learn({"rank", model(), rewritten + "/valid/k32.npz", "--json"});
  ASSERT_EQ(ranked.status, 0) << ranked.err;
  EXPECT_EQ(json::parse(ranked.out)["best"][0]["row"], 5);
  const std::string program = folder_.write("program.hlo", kernel(40));
  const CommandResult sampled =
      learn({"rank", model(), program, "--samples", "30", "--top", "1", "--json"});
  ASSERT_EQ(sampled.status, 0) << sampled.err;
  EXPECT_THAT(json::parse(sampled.out)["best"][0]["configuration"].get<std::string>(),
              HasSubstr("form swapped"));
  // Of the other encoding: refused, saying both.
  const CommandResult refused = learn({"rank", model(), npz()});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("a graph per configuration"));
}

TEST_F(CostModelCommandsTest, EvaluatesSeedsAndBaselines) {
  ASSERT_EQ(train("[1, 2]").status, 0);
  const std::string models =
      (folder_ / "run/seed-1/best.safetensors") + "," + (folder_ / "run/seed-2/best.safetensors");
  const CommandResult evaluated =
      learn({"eval", models, folder_ / "train", "--seeds", "--baselines", "--json"});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  const json result = json::parse(evaluated.out);
  EXPECT_EQ(result["graphs"].size(), 4u);
  ASSERT_EQ(result["seed_means"].size(), 2u);
  const double mean = result["mean"]["kendall_tau"];
  EXPECT_NEAR(mean,
              (result["seed_means"][0]["kendall_tau"].get<double>() +
               result["seed_means"][1]["kendall_tau"].get<double>()) /
                  2,
              1e-12);
  EXPECT_GT(mean, 0.5);
  EXPECT_LE(result["low"]["kendall_tau"], mean);
  EXPECT_GE(result["high"]["kendall_tau"], mean);
  // The two layouts are the slowest of six, and all else ties: 2 x 4 of 15 pairs are in order,
  // in three of four kernels; the fourth has none to tell apart.
  EXPECT_NEAR(result["baselines"]["disagreements"]["mean"]["ordered_pair_accuracy"], 0.75 * 8 / 15,
              1e-12);
  EXPECT_TRUE(result["baselines"].contains("random"));
  EXPECT_TRUE(result["baselines"].contains("analytic"));
}

TEST_F(CostModelCommandsTest, ScoresAreReadBackByTheOtherEval) {
  ASSERT_EQ(train().status, 0);
  const std::string scores = folder_ / "scores.jsonl";
  const CommandResult ours =
      learn({"eval", model(), folder_ / "train", "--scores", scores, "--json"});
  ASSERT_EQ(ours.status, 0) << ours.err;
  const CommandResult again = run_command("lagom", {"eval", "--scores", scores, "--json"});
  ASSERT_EQ(again.status, 0) << again.err;
  for (const char* field : {"graphs", "mean", "low", "high"}) {
    EXPECT_EQ(json::parse(ours.out)[field], json::parse(again.out)[field]) << field;
  }
}

TEST_F(CostModelCommandsTest, BadInputIsOneLine) {
  const auto expect_failure = [](const CommandResult& result, const char* what) {
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr(what));
    EXPECT_THAT(result.err, ::testing::Not(HasSubstr("frame #")));
  };
  expect_failure(learn({"rank", folder_ / "none.safetensors", npz()}), "none.safetensors");
  expect_failure(learn({"train", config_, "--out", folder_ / "run", "--set", "model.widht=3"}),
                 "widht");
  ASSERT_EQ(train().status, 0);
  expect_failure(learn({"rank", config_, npz()}), "config.toml");
  expect_failure(learn({"eval", model(), folder_ / "nothing"}), "nothing");
  std::filesystem::remove(folder_ / "valid/k32.json");
  expect_failure(learn({"eval", model(), folder_ / "valid", "--baselines"}), "k32.json");
}

TEST_F(CostModelCommandsTest, TrainsOnSegmentsAndEvaluatesThemAll) {
  const std::vector<std::string> segmented = {"train", config_,
                                              "--out", folder_ / "run",
                                              "--set", "segments.method=metis",
                                              "--set", "segments.max_nodes=2"};
  const CommandResult trained = learn(segmented);
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("segments of at most 2 nodes"));
  const CommandResult evaluated = learn({"eval", model(), npz(), "--json"});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  const CommandResult whole = learn({"eval", model(), npz(), "--json", "--whole"});
  EXPECT_EQ(whole.status, 0) << whole.err;

  std::vector<std::string> broken = segmented;
  broken.back() = "segments.max_nodes=0";
  const CommandResult refused = learn(broken);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("segments.max_nodes: expected at least 1"));
}

TEST_F(CostModelCommandsTest, ClassifiesGeneratedFamilies) {
  const std::string families = folder_ / "families";
  ASSERT_EQ(run_command("lagom", {"generate", families, "--graphs", "50", "--min-nodes", "300",
                                  "--max-nodes", "600", "--purity", "1"})
                .status,
            0);
  const std::string config = folder_.write(
      "classes.toml",
      "task = \"classification\"\ntrain = [\"" + families + "/train\"]\nvalid = [\"" + families +
          "/valid\"]\nsteps = 60\neval_every = 30\n[model]\nwidth = 16\n[segments]\n"
          "method = \"metis\"\nmax_nodes = 200\n[schedule]\nlearning_rate = 1e-2\n");
  const CommandResult trained = learn({"train", config, "--out", folder_ / "classes"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("best accuracy"));
  const CommandResult evaluated =
      learn({"eval", folder_ / "classes/best.safetensors", families + "/test", "--json"});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  const json result = json::parse(evaluated.out);
  EXPECT_EQ(result["graphs"], 10);
  EXPECT_GE(result["accuracy"].get<double>(), 0.8);
  EXPECT_EQ(result["classes"].size(), 5u);
}

}  // namespace
}  // namespace lagom

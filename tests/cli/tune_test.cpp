#include <signal.h>

#include <chrono>
#include <filesystem>
#include <sstream>

#include "tests/cli/cli_fixture.h"

// `lagom tune` to its end, interrupted, killed, and two at once.
namespace lagom::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::Command;
using testing::CommandResult;
using ::testing::HasSubstr;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

class TuneTest : public CliTest {
 protected:
  std::vector<std::string> tune_arguments(const std::string& program, const std::string& out,
                                          const std::string& seconds) const {
    return {"tune",
            program,
            "--out",
            folder_ / out,
            "--budget-seconds",
            seconds,
            "--database",
            folder_ / "kernels"};
  }

  std::string content(const std::string& name) const {
    std::ifstream in(folder_ / name);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }

  /// Lines of the database, each of them JSON, without the first that names the device.
  std::vector<json> database_lines() const {
    std::vector<json> lines;
    for (const auto& entry : fs::directory_iterator(folder_ / "kernels")) {
      std::ifstream in(entry.path());
      std::string line;
      while (std::getline(in, line)) lines.push_back(json::parse(line));
    }
    std::erase_if(lines, [](const json& line) { return line.contains("device"); });
    return lines;
  }

  /// A program with many kernels, so that a search lasts.
  std::string long_program() const {
    std::ostringstream text;
    text << "HloModule many\nENTRY e {\n  x = f32[1,32,32,64]{3,2,1,0} parameter(0)\n"
         << "  k = f32[3,3,1,64]{3,2,1,0} parameter(1)\n  y0 = f32[1,32,32,64]{3,2,1,0} copy(x)\n";
    for (int i = 1; i <= 12; ++i) {
      // Different dilations make different kernels.
      text << (i == 12 ? "  ROOT" : " ") << " y" << i << " = f32[1,32,32,64]{3,2,1,0} convolution(y"
           << i - 1 << ", k), window={size=3x3 pad=" << i << "_" << i << "x" << i << "_" << i
           << " rhs_dilate=" << i << "x" << i
           << "}, dim_labels=b01f_01io->b01f, feature_group_count=64\n";
    }
    text << "}\n";
    return folder_.write("many.hlo", text.str());
  }
};

TEST_F(TuneTest, ADepthwiseConvolutionGetsFasterWithTheSameResults) {
  const std::string program = depthwise_program();

  const CommandResult tuned = lagom(tune_arguments(program, "out", "5"));

  ASSERT_EQ(tuned.status, 0) << tuned.err;
  EXPECT_THAT(tuned.out,
              AllOf(HasSubstr("depthwise: "), HasSubstr("x faster ["), HasSubstr("noise floor")));
  const CommandResult compared =
      lagom({"run", program, "--compare", folder_ / "out/depthwise.tuned.hlo.pb", "--compare-flags",
             folder_ / "out/depthwise.flags.json", "--json"});
  ASSERT_EQ(compared.status, 0) << compared.err << compared.out;
  const json pair = json::parse(compared.out);
  EXPECT_LT(pair.at("interval").at(1), 0.95);
  EXPECT_LT(pair.at("relative_error"), 1e-4);

  const json decisions = json::parse(content("out/depthwise.decisions.json"));
  for (const char* key :
       {"program", "device", "default_ms", "tuned_ms", "result", "retimed", "noise_floor",
        "load_average", "stopped", "note", "compile_seconds", "flags", "compiler_options",
        "configuration", "outputs", "decisions", "kernels", "trials"}) {
    EXPECT_TRUE(decisions.contains(key)) << key;
  }
  EXPECT_EQ(decisions.at("stopped"), false);
  EXPECT_GT(decisions.at("result").at("speedup"), 1.05);
  ASSERT_FALSE(decisions.at("decisions").empty());
  const json& decision = decisions.at("decisions").at(0);
  EXPECT_EQ(decision.at("instruction"), "c");
  EXPECT_EQ(decision.at("op_name"), "model/depthwise");
  EXPECT_THAT(decision.at("source").get<std::string>(), HasSubstr("model.py:12"));
  EXPECT_EQ(json::parse(content("out/depthwise.flags.json")), decisions.at("flags"));
  EXPECT_THAT(content("out/depthwise.report.html"), HasSubstr("depthwise"));
}

TEST_F(TuneTest, ResultsAreTimedAfreshWithoutASearch) {
  fs::create_directories(folder_ / "p");
  fs::copy(depthwise_program(), folder_ / "p/depthwise.hlo");
  std::vector<std::string> arguments = tune_arguments(folder_ / "p", "out", "5");
  ASSERT_EQ(lagom(arguments).status, 0);
  const std::string decisions = content("out/depthwise.decisions.json");
  arguments.push_back("--retime");

  const CommandResult result = lagom(arguments);

  EXPECT_EQ(result.status, 0) << result.err;
  const json line = json::parse(content("out/retimed.jsonl"));
  EXPECT_GT(line.at("speedup"), 1);
  EXPECT_GT(line.at("conditions_speedup"), 1);
  EXPECT_EQ(content("out/depthwise.decisions.json"), decisions);
  EXPECT_THAT(content("out/retimed.md"), HasSubstr("| depthwise convolution | 1 | 1 |"));
  // What was never tuned has nothing to time, though it equals what was.
  fs::copy(depthwise_program(), folder_ / "p/other.hlo");
  const CommandResult missing = lagom(arguments);
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.err, HasSubstr("other.decisions.json: cannot be opened"));
}

TEST_F(TuneTest, AProgramWithoutChoicesComesBackAsItIs) {
  const CommandResult tuned =
      lagom({"tune", add_program(), "--out", folder_ / "out", "--trials", "2", "--no-flags",
             "--no-layouts", "--no-barriers", "--database", "none", "--json", "--quiet"});

  ASSERT_EQ(tuned.status, 0) << tuned.err;
  EXPECT_EQ(tuned.err, "");
  const json j = json::parse(tuned.out);
  EXPECT_EQ(j.at("configuration"), "");
  EXPECT_NE(j.at("note"), "");
  EXPECT_EQ(json::parse(content("out/add.flags.json")), json::object());
}

TEST_F(TuneTest, CtrlCKeepsWhatWasMeasured) {
  Command command("lagom", tune_arguments(long_program(), "out", "120"), environment());
  ASSERT_TRUE(command.wait_for(" as depthwise", 60s)) << command.err();
  const std::vector<pid_t> workers = testing::children_of(command.pid());
  ASSERT_FALSE(workers.empty());

  command.signal(SIGINT);
  const CommandResult result = command.wait(15s);

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("stopped; the best so far:\nmany: "));
  EXPECT_EQ(json::parse(content("out/many.decisions.json")).at("stopped"), true);
  EXPECT_FALSE(content("out/many.tuned.hlo").empty());
  EXPECT_FALSE(content("out/many.report.html").empty());
  EXPECT_FALSE(database_lines().empty());
  for (const pid_t worker : workers) EXPECT_TRUE(testing::process_ends(worker, 10s)) << worker;
}

TEST_F(TuneTest, WorkersEndWithAKilledParent) {
  Command command("lagom", tune_arguments(long_program(), "out", "120"), environment());
  ASSERT_TRUE(command.wait_for("kernels", 60s)) << command.err();
  const std::vector<pid_t> workers = testing::children_of(command.pid());
  ASSERT_FALSE(workers.empty());

  command.signal(SIGKILL);

  EXPECT_EQ(command.wait(10s).status, 128 + SIGKILL);
  for (const pid_t worker : workers) EXPECT_TRUE(testing::process_ends(worker, 10s)) << worker;
}

TEST_F(TuneTest, ASearchGoesOnWhenItsWorkersAreKilled) {
  Command command("lagom", tune_arguments(depthwise_program(), "out", "6"), environment());
  ASSERT_TRUE(command.wait_for("kernels", 60s)) << command.err();

  const std::vector<pid_t> workers = testing::children_of(command.pid());
  ASSERT_FALSE(workers.empty());
  for (const pid_t worker : workers) kill(worker, SIGKILL);
  const CommandResult result = command.wait(60s);

  EXPECT_EQ(result.status, 0) << result.err;
  const json j = json::parse(content("out/depthwise.decisions.json"));
  const auto measured = std::count_if(j.at("trials").begin(), j.at("trials").end(),
                                      [](const json& trial) { return trial.contains("result"); });
  EXPECT_GT(measured, 0) << result.err;
}

TEST_F(TuneTest, TwoSearchesShareADatabaseAndWaitForEachOther) {
  const std::string program = long_program();
  Command first("lagom", tune_arguments(program, "first", "8"), environment());
  Command second("lagom", tune_arguments(program, "second", "8"), environment());

  const CommandResult one = first.wait(), two = second.wait();

  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(two.status, 0) << two.err;
  EXPECT_THAT(one.err + two.err, HasSubstr("waiting: another lagom is timing on CPU"));
  EXPECT_FALSE(database_lines().empty());  // throws where a line is damaged
  EXPECT_FALSE(content("first/many.tuned.hlo").empty());
  EXPECT_FALSE(content("second/many.tuned.hlo").empty());
}

TEST_F(TuneTest, ADamagedDatabaseIsNoHindrance) {
  const std::vector<std::string> arguments = {
      "tune",       depthwise_program(), "--out",        folder_ / "out", "--budget-seconds",
      "8",          "--no-flags",        "--no-layouts", "--strategy",    "greedy",
      "--database", folder_ / "kernels"};
  ASSERT_EQ(lagom(arguments).status, 0);
  ASSERT_FALSE(database_lines().empty());
  const auto file = *fs::directory_iterator(folder_ / "kernels");
  {
    std::ofstream out(file.path(), std::ios::app);
    json free = database_lines().back();
    free["seconds"] = 1e-300;  // as if measured, and too good to be true
    free["ratio"] = {0, 0, 0};
    out << free.dump() << "\n\xff\xfe garbage\n[1,2]\n{\"signature\":3}\n"
        << std::string(100000, '[') << "\n{\"signature\":\"torn";
  }

  const CommandResult again = lagom(arguments);

  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("(known)"));
}

}  // namespace
}  // namespace lagom::cli

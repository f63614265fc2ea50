#include "lagom/tune/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lagom/hlo/module_file.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/tune/report.h"
#include "lagom/util/file.h"
#include "tests/testing/command.h"

namespace lagom::tune {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kProgram[] = R"(HloModule m
ENTRY main {
  x = f32[1,8,8,16]{3,2,1,0} parameter(0)
  k = f32[3,3,1,16]{3,2,1,0} parameter(1)
  conv = f32[1,8,8,16]{3,2,1,0} convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=16, metadata={op_name="jit(<lambda>)/\"conv\" & <b>bold</b>" source_file="https://host/<model>.py" source_line=7}
  ROOT y = f32[1,8,8,16]{3,2,1,0} add(conv, x)
})";

/// A result as a search would give it, with everything in it that a page must escape.
TuneResult tuned_result(const SearchSpace& space) {
  TuneResult result;
  result.program = "a<b>&\"c'";
  result.device.platform = "<cpu>";
  result.device.platform_version = "v&1";
  result.baseline.seconds = result.default_seconds = 2e-3;
  result.baseline.noise_floor = 0.01;
  result.configuration = rewrite::Configuration::from_string(
      "conv form depthwise_taps\nflag xla_a true\nflag xla_b 512\nflag xla_c 0.5\n"
      "flag xla_d \"<x>&\"\n");
  result.ratio = {.median = 0.5, .low = 0.48, .high = 0.52, .pairs = 11};
  result.tuned_seconds = 1e-3;
  result.retimed = true;
  result.note = "a note with <tags> & \"quotes\"";
  result.copies_before = 1;
  result.copies_after = 3;
  result.outputs.emplace_back();
  KernelRecord record{.signature = "0123",
                      .configuration = "n form depthwise_taps\n",
                      .opcode = "convolution",
                      .default_seconds = 1e-3,
                      .seconds = 4e-4};
  record.ratio = {.median = 0.4, .low = 0.39, .high = 0.41, .pairs = 7};
  KernelRecord failed = record;
  failed.seconds.reset();
  failed.failure = measure::FailureKind::kCrash;
  failed.error = "worker aborted: <F0000> \xff & more";
  if (!space.kernels().empty()) {
    result.kernels.push_back(
        {.kernel = 0, .default_seconds = 1e-3, .forms = {record, failed}, .error = ""});
  }
  result.trials.push_back({.number = 1,
                           .elapsed_seconds = 1,
                           .origin = "greedy",
                           .configuration = result.configuration,
                           .measured = true,
                           .ratio = result.ratio});
  result.trials.push_back({.number = 2,
                           .elapsed_seconds = 2,
                           .origin = "flag",
                           .failure = measure::FailureKind::kWrongNumbers,
                           .error = "<off>"});
  return result;
}

/// Elements that stay open or are closed in the wrong order; empty when every tag has its partner.
std::string unbalanced_tags(const std::string& page) {
  const std::vector<std::string> lone = {"meta", "br", "hr", "img"};
  std::vector<std::string> open;
  size_t at = page.find("<html");
  while ((at = page.find('<', at)) != std::string::npos) {
    const size_t end = page.find('>', at);
    if (end == std::string::npos) return "a tag without end: " + page.substr(at, 40);
    const std::string tag = page.substr(at + 1, end - at - 1);
    at = end;
    if (tag.starts_with("/")) {
      if (open.empty() || open.back() != tag.substr(1)) {
        return "<" + tag + "> closes " + (open.empty() ? "nothing" : open.back());
      }
      open.pop_back();
      continue;
    }
    const std::string name = tag.substr(0, tag.find_first_of(" /"));
    const bool is_lone = std::find(lone.begin(), lone.end(), name) != lone.end();
    if (!tag.ends_with("/") && !is_lone) open.push_back(name);
  }
  return open.empty() ? "" : "<" + open.back() + "> stays open";
}

class ResultsTest : public ::testing::Test {
 protected:
  ResultsTest() : module_(hlo::read_hlo_text(kProgram, "m")), space_(module_, {}) {}

  hlo::Module module_;
  SearchSpace space_;
};

TEST_F(ResultsTest, FilesAgreeWithEachOther) {
  const testing::TemporaryFolder folder;
  const TuneResult result = tuned_result(space_);
  const ResultFiles files = result_files(folder.path() / "out", "model");

  write_results(files, module_, space_, result);

  const hlo::Module text = hlo::read_module_file(files.text);
  const hlo::Module proto = hlo::read_module_file(files.proto);
  const hlo::Module applied = rewrite::apply(module_, result.configuration);
  EXPECT_EQ(describe_difference(text, applied), "");
  EXPECT_EQ(describe_difference(proto, applied), "");
  const json flags = json::parse(read_file(files.flags));
  EXPECT_EQ(flags, (json{{"xla_a", true}, {"xla_b", 512}, {"xla_c", 0.5}, {"xla_d", "<x>&"}}));
  const json decisions = json::parse(read_file(files.decisions));
  EXPECT_EQ(decisions.at("flags"), flags);
  EXPECT_EQ(rewrite::Configuration::from_string(decisions.at("configuration").get<std::string>()),
            result.configuration);
  EXPECT_DOUBLE_EQ(decisions.at("result").at("speedup"), 2);
  EXPECT_EQ(decisions.at("trials").size(), 2u);
  EXPECT_EQ(decisions.at("trials").at(1).at("failure"), "wrong numbers");
  EXPECT_EQ(decisions.at("copies").at("tuned"), 3);
}

TEST_F(ResultsTest, NamesFollowTheProgram) {
  EXPECT_EQ(program_name("dir/mobilenet.hlo.pb.gz"), "mobilenet");
  EXPECT_EQ(program_name("module_0001.jit_f.before_optimizations.txt"),
            "module_0001.jit_f.before_optimizations");
  EXPECT_EQ(program_name("x"), "x");
  EXPECT_EQ(result_files("out", "x").report, "out/x.report.html");
}

TEST_F(ResultsTest, ReportIsOneSelfContainedPage) {
  for (const bool is_default : {false, true}) {
    TuneResult result = tuned_result(space_);
    if (is_default) result.configuration = {};
    result.stopped = is_default;

    const std::string page = report_html(module_, space_, result);

    EXPECT_EQ(unbalanced_tags(page), "");
    EXPECT_TRUE(page.starts_with("<!doctype html>"));
    for (const char* external : {"src=", "href=", "url(", "@import", "<script", "<link"}) {
      EXPECT_THAT(page, Not(HasSubstr(external)));
    }
    EXPECT_THAT(page, HasSubstr("prefers-color-scheme:dark"));
    EXPECT_THAT(page, HasSubstr("width=device-width"));
  }
}

TEST_F(ResultsTest, ReportEscapesWhatComesFromThePrograms) {
  TuneResult result = tuned_result(space_);
  result.decisions.push_back({.decision = result.configuration.decisions.at(0),
                              .opcode = "convolution",
                              .shape = "f32[1,8,8,16]",
                              .op_name = "jit(<lambda>)/\"conv\" & <b>bold</b>",
                              .source = "<model>.py:7",
                              .default_seconds = 1e-3,
                              .seconds = 4e-4,
                              .advice = "write <this> & that"});

  const std::string page = report_html(module_, space_, result);

  EXPECT_EQ(unbalanced_tags(page), "");
  for (const char* raw : {"a<b>", "<lambda>", "<b>bold", "<model>", "<tags>", "<cpu>", "<off>",
                          "<this>", "<x>", "<F0000>"}) {
    EXPECT_THAT(page, Not(HasSubstr(raw)));
  }
  EXPECT_THAT(page, HasSubstr("a&lt;b&gt;&amp;"));
  EXPECT_THAT(page, HasSubstr("write &lt;this&gt; &amp; that"));
}

TEST_F(ResultsTest, AnEmptyResultHasAReport) {
  TuneResult result;

  EXPECT_EQ(unbalanced_tags(report_html(module_, space_, result)), "");
  EXPECT_NO_THROW(json::parse(decisions_json(space_, result)));
}

}  // namespace
}  // namespace lagom::tune

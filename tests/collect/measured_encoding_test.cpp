#include "lagom/collect/measured_encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lagom/collect/measured_file.h"
#include "lagom/formats/npz.h"
#include "lagom/graph/duplicates.h"
#include "lagom/graph/graph_cache.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "tests/collect/measured_dot.h"
#include "tests/testing/command.h"

namespace lagom::collect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MeasuredEncodingTest : public ::testing::Test {
 protected:
  MeasuredEncodingTest() {
    std::filesystem::create_directories(folder_ / "in/train");
    write_measured(folder_ / "in/train/k", hlo::read_hlo_text(kMeasuredDot, "t"),
                   {.programs = {"p"}, .signature = "k", .hlo = kMeasuredDot},
                   {measured_row("", 2e-3), measured_row("node form swapped_dot\n", 1e-3),
                    measured_row("flag xla_cpu_prefer_vector_width 512\n", 3e-3)});
  }

  graph::GraphCache encode(const EncodingOptions& options) {
    EXPECT_EQ(encode_measured(folder_ / "in", folder_ / "out", options), 1);
    graph::transcode_graph(folder_ / "out/train/k.npz", folder_ / "k.graph");
    return graph::GraphCache(folder_ / "k.graph");
  }

  testing::TemporaryFolder folder_;
};

TEST_F(MeasuredEncodingTest, RewrittenKernelsHaveAGraphPerForm) {
  const graph::GraphCache graph =
      encode({.encoding = Encoding::kRewritten, .graph = {.feature_version = 3}});

  EXPECT_EQ(graph.feature_version(), 3);
  EXPECT_EQ(graph.num_config_nodes(), 0);
  EXPECT_THAT(graph.arrays().values<int64_t>("graph_splits", 1), ElementsAre(0, 3, 7));
  EXPECT_THAT(graph.arrays().values<int32_t>("config_graph", 1), ElementsAre(0, 1, 0));
  EXPECT_THAT(graph.config_runtime(), ElementsAre(2'000'000, 1'000'000, 3'000'000));
  EXPECT_EQ(graph.arrays().find("node_config_form"), nullptr);
  // The flag tells row 2 from row 0, the graph row 1.
  EXPECT_EQ(graph::find_duplicates(graph).num_groups(), 3);
  EXPECT_EQ(read_file(folder_ / "out/train/k.json"), read_file(folder_ / "in/train/k.json"));
}

TEST_F(MeasuredEncodingTest, DecisionsStayBesideFeaturesOfAnotherVersion) {
  const graph::GraphCache graph = encode({.graph = {.feature_version = 2}});

  EXPECT_EQ(graph.feature_version(), 2);
  EXPECT_EQ(graph.num_nodes(), 3);
  EXPECT_THAT(graph.node_config_ids(), ElementsAre(2));
  const auto forms = graph.arrays().values<int16_t>("node_config_form", 2);
  EXPECT_EQ(forms[0], 0);
  EXPECT_GT(forms[1], 0);
  EXPECT_EQ(graph.arrays().find("node_feat_v2"), nullptr);
}

TEST_F(MeasuredEncodingTest, RowsOfARuleCanBeLeftOut) {
  const graph::GraphCache graph =
      encode({.encoding = Encoding::kRewritten, .without_form = "swapped_dot"});

  EXPECT_THAT(graph.config_runtime(), ElementsAre(2'000'000, 3'000'000));
  EXPECT_EQ(graph.arrays().values<float>("config_ratio", 2).size(), 4u);
  EXPECT_THAT(graph.arrays().values<int64_t>("graph_splits", 1), ElementsAre(0, 3));
  const std::string json = read_file(folder_ / "out/train/k.json");
  EXPECT_EQ(json.find("swapped_dot"), std::string::npos);
  EXPECT_NE(json.find("xla_cpu_prefer_vector_width"), std::string::npos);
}

TEST_F(MeasuredEncodingTest, WholeProgramsComeFromTheirFolder) {
  std::filesystem::create_directories(folder_ / "in/valid");
  std::filesystem::create_directories(folder_ / "programs");
  write_measured(folder_ / "in/valid/p", hlo::read_hlo_text(kMeasuredDot, "t"),
                 {.programs = {"p"}, .signature = "p"},
                 {measured_row("", 2e-3), measured_row("node form swapped_dot\n", 1e-3)});
  EncodingOptions options = {.encoding = Encoding::kRewritten};
  EXPECT_EQ(encode_measured(folder_ / "in", folder_ / "out", options), 1);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/valid/p.npz"));

  options.programs = folder_ / "programs";
  try {
    encode_measured(folder_ / "in", folder_ / "out", options);
    FAIL() << "a program without HLO";
  } catch (const FormatError& e) {
    EXPECT_THAT(e.what(), HasSubstr("there is no HLO of the program 'p'"));
  }

  write_file(folder_ / "programs/p.hlo", kMeasuredDot);
  EXPECT_EQ(encode_measured(folder_ / "in", folder_ / "out", options), 2);
  graph::transcode_graph(folder_ / "out/valid/p.npz", folder_ / "p.graph");
  const graph::GraphCache graph(folder_ / "p.graph");
  EXPECT_THAT(graph.arrays().values<int64_t>("graph_splits", 1), ElementsAre(0, 3, 7));
  EXPECT_NE(read_file(folder_ / "out/valid/p.json").find("HloModule"), std::string::npos);
}

TEST_F(MeasuredEncodingTest, BadFoldersAreRefused) {
  EXPECT_THROW(encode_measured(folder_ / "absent", folder_ / "out", {}), SystemError);
  std::filesystem::create_directories(folder_ / "empty");
  EXPECT_THROW(encode_measured(folder_ / "empty", folder_ / "out", {}), FormatError);
  const auto refused = [&](std::string_view from, std::string_view to, const char* message) {
    std::string text = read_file(folder_ / "in/train/k.json");
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    std::filesystem::create_directories(folder_ / "bad");
    std::filesystem::copy_file(folder_ / "in/train/k.npz", folder_ / "bad/k.npz",
                               std::filesystem::copy_options::overwrite_existing);
    write_file(folder_ / "bad/k.json", text.replace(at, from.size(), to));
    try {
      encode_measured(folder_ / "bad", folder_ / "out", {.encoding = Encoding::kRewritten});
      FAIL() << message;
    } catch (const FormatError& e) {
      EXPECT_THAT(e.what(), HasSubstr(message));
    }
  };
  refused("form swapped_dot", "form no_such_rule", "no_such_rule");
  refused("\"configurations\"", "\"configuration\"", "configurations");
  refused("dot(a, b)", "dot(a, c)", "c");
}

}  // namespace
}  // namespace lagom::collect

#include "lagom/collect/program_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "lagom/hlo/text_reader.h"

namespace lagom::collect {
namespace {

using ::testing::ElementsAre;

constexpr const char* kProgram = R"(HloModule m
ENTRY main {
  a = f32[8,16]{1,0} parameter(0)
  b = f32[16,4]{1,0} parameter(1)
  c = f32[8,4]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT d = f32[8,4]{1,0} tanh(c)
})";

TEST(ProgramGraphTest, ConfigurationsBecomeArrays) {
  const hlo::Module module = hlo::read_hlo_text(kProgram, "m.hlo");
  const ProgramGraph graph("m", module,
                           {rewrite::Configuration::from_string(""),
                            rewrite::Configuration::from_string("c output-layout {0,1}\n"
                                                                "d barrier 0\n")},
                           {.graph = {.feature_version = 2}});
  const rank::ConfiguredGraph view = graph.view();
  EXPECT_EQ(view.feature_version, 2);
  EXPECT_EQ(view.num_configs, 2);
  EXPECT_THAT(view.node_config_ids, ElementsAre(2, 3));
  // Configuration 1, node c, output: minor dimension 0, then 1.
  EXPECT_EQ(view.node_config_feat[2 * 18], 0);
  EXPECT_EQ(view.node_config_feat[2 * 18 + 1], 1);
  EXPECT_EQ(view.node_config_feat[0], -1);
  EXPECT_THAT(view.node_config_barrier, ElementsAre(0, 0, 0, 1));
  EXPECT_THROW(ProgramGraph("m", module, {}, {}), std::invalid_argument);
}

TEST(ProgramGraphTest, EachConfigurationCanBeAGraph) {
  const hlo::Module module = hlo::read_hlo_text(kProgram, "m.hlo");
  const auto barrier = rewrite::Configuration::from_string("d barrier 0\n");
  const ProgramGraph graph(
      "m", module,
      {barrier, rewrite::Configuration::from_string("c form swapped_dot\n"),
       rewrite::Configuration::from_string("flag xla_cpu_prefer_vector_width 512\n"), barrier},
      {.encoding = Encoding::kRewritten});
  const rank::ConfiguredGraph view = graph.view();
  // As it is, with a barrier, with the dot swapped and its result transposed.
  EXPECT_THAT(view.graph_splits, ElementsAre(0, 4, 9, 14));
  EXPECT_THAT(view.config_graph, ElementsAre(1, 2, 0, 1));
  EXPECT_TRUE(view.node_config_ids.empty());
  EXPECT_TRUE(view.node_config_form.empty());
  const auto program = graph::make_op_graph(module);
  EXPECT_TRUE(
      std::equal(program.node_feat.begin(), program.node_feat.end(), view.node_feat.begin()));
  const auto other = graph::make_op_graph(rewrite::apply(module, barrier));
  EXPECT_TRUE(
      std::equal(other.node_opcode.begin(), other.node_opcode.end(), view.node_opcode.begin() + 4));
  for (size_t i = 0; i < other.edge_index.size(); ++i) {
    EXPECT_EQ(view.edge_index[program.edge_index.size() + i], 4 + other.edge_index[i]);
  }
}

TEST(ProgramGraphTest, SamplesAreDifferentAndBeginWithTheDefault) {
  const hlo::Module module = hlo::read_hlo_text(kProgram, "m.hlo");
  const tune::SearchSpace space(module, {});
  std::mt19937_64 random(1);
  const auto samples = sample_configurations(space, 50, 4, random);
  std::set<std::string> texts;
  for (const auto& sample : samples) texts.insert(sample.to_string());
  EXPECT_EQ(texts.size(), samples.size());
  EXPECT_GT(samples.size(), 10u);
  EXPECT_EQ(samples[0].to_string(), "");
  EXPECT_NO_THROW(ProgramGraph("m", module, samples, {}));
}

}  // namespace
}  // namespace lagom::collect

#include "lagom/collect/configuration_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "lagom/hlo/text_reader.h"
#include "lagom/rewrite/rule.h"

namespace lagom::collect {
namespace {

using rewrite::Configuration;
using ::testing::Each;
using ::testing::ElementsAre;

// Nodes: x 0, k 1, w 2, conv 3, flat 4, dot 5.
constexpr char kProgram[] = R"(HloModule m
ENTRY main {
  x = f32[1,8,8,16]{3,2,1,0} parameter(0)
  k = f32[3,3,1,16]{3,2,1,0} parameter(1)
  w = f32[16,4]{1,0} parameter(2)
  conv = f32[1,8,8,16]{3,2,1,0} convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=16
  flat = f32[64,16]{1,0} reshape(conv)
  ROOT dot = f32[64,4]{1,0} dot(flat, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";

TEST(ConfigurationFeaturesTest, DecisionsHaveTheirPlaces) {
  const hlo::Module module = hlo::read_hlo_text(kProgram, "p");

  const ConfigurationFeatures features = configuration_features(
      module, {Configuration(),
               Configuration::from_string("conv form depthwise_taps\ndot operand-layout 1 {0,1}\n"
                                          "dot output-layout {1,0}\ndot barrier 0\n"
                                          "flag xla_cpu_prefer_vector_width 512\n")});

  EXPECT_THAT(features.node_config_ids, ElementsAre(3, 5));
  EXPECT_THAT(features.node_config_form, ElementsAre(0, 0, form_number("depthwise_taps"), 0));
  EXPECT_THAT(features.node_config_barrier, ElementsAre(0, 0, 0, 1));
  ASSERT_EQ(features.node_config_feat.size(), 2u * 2 * 18);
  const auto begin = features.node_config_feat.begin();
  EXPECT_THAT(std::vector<float>(begin, begin + 54), Each(-1));
  EXPECT_THAT(std::vector<float>(begin + 54, begin + 72),
              ElementsAre(1, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 1, -1, -1, -1, -1));
  const size_t flags = flag_columns().size();
  EXPECT_THAT(std::vector<float>(features.config_flags.begin(),
                                 features.config_flags.begin() + static_cast<long>(flags)),
              Each(-1));
  EXPECT_EQ(features.config_flags[flags], 512);
}

TEST(ConfigurationFeaturesTest, RefusesWhatHasNoPlace) {
  const hlo::Module module = hlo::read_hlo_text(kProgram, "p");
  for (const char* text :
       {"nobody form depthwise_taps\n", "conv form no_such_rule\n", "flag xla_no_such_flag true\n",
        "flag xla_cpu_prefer_vector_width \"wide\"\n"}) {
    EXPECT_THROW(configuration_features(module, {Configuration::from_string(text)}),
                 std::invalid_argument)
        << text;
  }
}

TEST(FormNumberTest, EveryRuleHasOneOfItsOwn) {
  std::set<int> numbers;
  for (const rewrite::Rule* rule : rewrite::all_rules()) {
    EXPECT_GT(form_number(rule->name()), 0) << rule->name();
    numbers.insert(form_number(rule->name()));
  }
  EXPECT_EQ(numbers.size(), rewrite::all_rules().size());
  EXPECT_EQ(form_number("depthwise_taps"), 1);
  EXPECT_EQ(form_number("col2im"), 9);
}

}  // namespace
}  // namespace lagom::collect

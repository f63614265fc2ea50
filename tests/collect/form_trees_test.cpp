#include "lagom/collect/form_trees.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lagom/collect/configuration_features.h"
#include "lagom/graph/op_graph.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/rewrite/configuration.h"
#include "lagom/tune/kernel_features.h"
#include "lagom/util/error.h"
#include "tests/testing/command.h"

namespace lagom::collect {
namespace {

using ::testing::ElementsAre;

constexpr char kDot[] = R"(HloModule m
ENTRY e {
  a = f32[64,96]{1,0} parameter(0)
  b = f32[96,32]{1,0} parameter(1)
  ROOT node = f32[64,32]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)";

/// A tree that gives 1 where the feature is at most the threshold and 2 above it.
std::string stump(const std::string& feature, double threshold) {
  return "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nobjective=huber\n"
         "feature_names=" +
         feature +
         "\ntree_sizes=1\n\nTree=0\nnum_leaves=2\nnum_cat=0\nsplit_feature=0\nthreshold=" +
         std::to_string(threshold) +
         "\ndecision_type=8\nleft_child=-1\nright_child=-2\nleaf_value=1 2\nis_linear=0\n\n"
         "end of trees\n";
}

class FormTreesTest : public ::testing::Test {
 protected:
  std::vector<double> costs(const std::string& feature, double threshold) {
    const auto path = folder_.write("trees.txt", stump(feature, threshold));
    const auto swapped = rewrite::Configuration::from_string("node form swapped_dot\n");
    return load_form_trees(path).costs(module_, {{}, swapped});
  }
  /// Each side of the value gives the other leaf, so the feature is the value.
  void expect_feature(const std::string& feature, double value) {
    EXPECT_THAT(costs(feature, value - 0.5), ElementsAre(0, 2)) << feature;
    EXPECT_THAT(costs(feature, value + 0.5), ElementsAre(0, 1)) << feature;
  }

  testing::TemporaryFolder folder_;
  hlo::Module module_ = hlo::read_hlo_text(kDot, "dot");
};

TEST_F(FormTreesTest, FeaturesAreTakenByTheirNames) {
  expect_feature("opcode", graph::opcode_number(hlo::Opcode::kDot, 2));
  expect_feature("form", form_number("swapped_dot"));
  const auto node = tune::describe_node(module_, "node");
  expect_feature("node_0", node.at(0));
  expect_feature("node_3", node.at(3));
  EXPECT_THAT(costs("node_999", 1e9), ElementsAre(0, 2));  // missing: to the right here
}

TEST_F(FormTreesTest, OtherNamesAndOtherDecisionsAreRefused) {
  EXPECT_THROW(costs("node_x", 0), FormatError);
  EXPECT_THROW(costs("phase_of_the_moon", 0), FormatError);
  const auto path = folder_.write("trees.txt", stump("form", 1));
  const auto layout = rewrite::Configuration::from_string("node operand-layout 0 {0,1}\n");
  EXPECT_THROW(load_form_trees(path).costs(module_, {layout}), FormatError);
}

}  // namespace
}  // namespace lagom::collect

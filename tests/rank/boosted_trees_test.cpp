#include "lagom/rank/boosted_trees.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "tests/testing/command.h"
#include "tests/testing/data.h"

namespace lagom::rank {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

/// Two trees by hand. The first: x <= 1.5 (or missing) gives 1; else kind in {0, 33} gives 10, any
/// other 100. The second: y <= 0 gives 0.25, else 0.5; a 0 is missing there and goes right.
constexpr char kByHand[] =
    "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nobjective=regression\n"
    "feature_names=x kind y\ntree_sizes=1 1\n\n"
    "Tree=0\nnum_leaves=3\nnum_cat=1\nsplit_feature=0 1\nthreshold=1.5 0\ndecision_type=10 1\n"
    "left_child=-1 -2\nright_child=1 -3\nleaf_value=1 10 100\ncat_boundaries=0 2\n"
    "cat_threshold=1 2\nis_linear=0\nshrinkage=1\n\n\n"
    "Tree=1\nnum_leaves=2\nnum_cat=0\nsplit_feature=2\nthreshold=0\ndecision_type=4\n"
    "left_child=-1\nright_child=-2\nleaf_value=0.25 0.5\nis_linear=0\nshrinkage=1\n\n\n"
    "end of trees\n\nparameters:\nend of parameters\n";

class BoostedTreesTest : public ::testing::Test {
 protected:
  BoostedTrees load(const std::string& text) {
    return BoostedTrees::load(folder_.write("trees.txt", text));
  }
  std::string refusal(std::string_view what, std::string_view by) {
    std::string text = kByHand;
    text.replace(text.find(what), what.size(), by);
    try {
      load(text);
    } catch (const FormatError& e) {
      return e.what();
    }
    return "";
  }

  testing::TemporaryFolder folder_;
};

TEST_F(BoostedTreesTest, WalksAsTheTreesSay) {
  const BoostedTrees trees = load(kByHand);

  EXPECT_THAT(trees.feature_names(), ElementsAre("x", "kind", "y"));
  EXPECT_EQ(trees.predict(std::vector<double>{1.5, 5, -1}), 1.25);
  EXPECT_EQ(trees.predict(std::vector<double>{kMissing, 5, 1}), 1.5);
  EXPECT_EQ(trees.predict(std::vector<double>{2, 0, 0}), 10.5);
  EXPECT_EQ(trees.predict(std::vector<double>{2, 33, 0}), 10.5);
  EXPECT_EQ(trees.predict(std::vector<double>{2, 1, kMissing}), 100.5);
  EXPECT_EQ(trees.predict(std::vector<double>{2, 64, -2}), 100.25);
  EXPECT_EQ(trees.predict(std::vector<double>{2, -1, -2}), 100.25);
  EXPECT_EQ(trees.predict(std::vector<double>{2, kMissing, -2}), 100.25);
  EXPECT_EQ(trees.predict(std::vector<double>{2, 1e300, -2}), 100.25);
  EXPECT_THROW(trees.predict(std::vector<double>{1, 2}), std::invalid_argument);
}

TEST_F(BoostedTreesTest, PredictsWhatLightgbmDoes) {
  const auto folder = testing::data_folder() / "boosted_trees";
  const BoostedTrees trees = BoostedTrees::load(folder / "trees.txt");
  std::istringstream lines(read_file(folder / "predictions.jsonl"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto j = nlohmann::json::parse(line);
    std::vector<double> features;
    for (const auto& value : j["features"]) {
      features.push_back(value.is_null() ? kMissing : value.get<double>());
    }
    EXPECT_NEAR(trees.predict(features), j["prediction"].get<double>(), 1e-14) << line;
  }
  EXPECT_EQ(count, 40);
}

TEST_F(BoostedTreesTest, RefusesWhatItCannotPredict) {
  EXPECT_THAT(refusal("tree\n", "forest\n"), HasSubstr("no text form of LightGBM's trees"));
  EXPECT_THAT(refusal("objective=regression", "objective=binary sigmoid:1"),
              HasSubstr("header: objective is 'binary sigmoid:1'"));
  EXPECT_THAT(refusal("num_class=1", "num_class=3"), HasSubstr("num_class is 3, expected 1"));
  EXPECT_THAT(refusal("is_linear=0", "is_linear=1"), HasSubstr("Tree=0: is_linear is 1"));
  EXPECT_THAT(refusal("right_child=1 -3", "right_child=0 -3"), HasSubstr("node 0 has no child 0"));
  EXPECT_THAT(refusal("right_child=1 -3", "right_child=1 -4"), HasSubstr("node 1 has no child -4"));
  EXPECT_THAT(refusal("split_feature=2", "split_feature=3"),
              HasSubstr("Tree=1: there is no feature 3"));
  EXPECT_THAT(refusal("leaf_value=1 10 100", "leaf_value=1 10"),
              HasSubstr("expected 3 numbers, found 2"));
  EXPECT_THAT(refusal("leaf_value=1 10 100", "leaf_value=1 x 100"),
              HasSubstr("expected a number, found 'x'"));
  EXPECT_THAT(refusal("cat_boundaries=0 2", "cat_boundaries=0 9"), HasSubstr("cat_threshold"));
  EXPECT_THAT(refusal("threshold=1.5 0", "threshold=1.5 1"), HasSubstr("no set of categories"));
  EXPECT_THAT(refusal("Tree=1", "Tree=2"), HasSubstr("Tree=1: is missing"));
  EXPECT_THAT(refusal("end of trees", ""), HasSubstr("end of trees: is missing"));
}

}  // namespace
}  // namespace lagom::rank

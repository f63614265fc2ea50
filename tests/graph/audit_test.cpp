#include "lagom/graph/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "lagom/util/error.h"
#include "tests/testing/command.h"
#include "tests/testing/npz_arrays.h"

namespace lagom::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

GraphCache cache_of(const testing::TemporaryFolder& folder, const testing::NpzArrays& arrays) {
  testing::write_npz(folder / "x.npz", arrays);
  transcode_graph(folder / "x.npz", folder / "x.graph");
  return GraphCache(folder / "x.graph");
}

/// No two rows alike.
DuplicateGroups all_distinct(size_t rows) {
  DuplicateGroups groups;
  groups.group_of_row.resize(rows);
  std::iota(groups.group_of_row.begin(), groups.group_of_row.end(), 0);
  groups.first_row = groups.group_of_row;
  return groups;
}

/// Around 1 ms, in no order.
std::vector<double> calm_runtimes(size_t rows) {
  std::mt19937 random(11);
  std::vector<double> values(rows);
  for (double& value : values) value = 1e6 + static_cast<double>(random() % 100000);
  return values;
}

const DuplicateGroups kGroups{.group_of_row = {0, 1, 0, 2, 0, 1}, .first_row = {0, 1, 3}};
const std::vector<double> kValues = {10, 100, 12, 7, 8, 102};

TEST(DuplicatesTest, RowsOfEqualLayoutsAreOneGroup) {
  const testing::TemporaryFolder folder;
  const DuplicateGroups groups = find_duplicates(cache_of(folder, testing::small_layout_graph()));
  EXPECT_THAT(groups.group_of_row, ElementsAre(0, 1, 0));
  EXPECT_THAT(groups.first_row, ElementsAre(0, 1));
}

TEST(DuplicatesTest, TilesAreComparedByTheirFeatures) {
  const testing::TemporaryFolder folder;
  testing::NpzArrays arrays = testing::small_tile_graph();
  EXPECT_EQ(find_duplicates(cache_of(folder, arrays)).num_groups(), 2);
  arrays["config_feat"] =
      formats::Array::of<float>({2, kTileConfigFeatures}, std::vector<float>(48, 0));
  EXPECT_EQ(find_duplicates(cache_of(folder, arrays)).num_groups(), 1);
}

TEST(DuplicatesTest, FormsAndFlagsBesideTheLayoutsTellConfigurationsApart) {
  const testing::TemporaryFolder folder;
  testing::NpzArrays arrays = testing::small_layout_graph();
  arrays["node_config_form"] = formats::Array::of<int16_t>({3, 1}, {0, 0, 0});
  arrays["config_flags"] = formats::Array::of<int8_t>({3, 2}, {0, 1, 0, 1, 0, 1});
  EXPECT_EQ(find_duplicates(cache_of(folder, arrays)).num_groups(), 2);
  arrays["config_flags"] = formats::Array::of<int8_t>({3, 2}, {0, 1, 0, 1, 0, 2});
  EXPECT_EQ(find_duplicates(cache_of(folder, arrays)).num_groups(), 3);
  arrays["config_flags"] = formats::Array::of<int8_t>({2, 2}, {0, 1, 0, 1});
  EXPECT_THAT(
      [&] { find_duplicates(cache_of(folder, arrays)); },
      ::testing::ThrowsMessage<FormatError>(HasSubstr("config_flags: does not have a row")));
}

TEST(DuplicatesTest, TileRuntimesAreRelativeToTheirNormalizers) {
  const testing::TemporaryFolder folder;
  EXPECT_THAT(comparable_runtimes(cache_of(folder, testing::small_tile_graph())),
              ElementsAre(1.5, 1));
}

TEST(DuplicatesTest, MergeRules) {
  EXPECT_THAT(merge_rows(kGroups, kValues, MergeRule::kFirst), ElementsAre(10, 100, 7));
  EXPECT_THAT(merge_rows(kGroups, kValues, MergeRule::kMean), ElementsAre(10, 101, 7));
  EXPECT_THAT(merge_rows(kGroups, kValues, MergeRule::kMin), ElementsAre(8, 100, 7));
  EXPECT_THROW(merge_rows(kGroups, std::vector<double>{1}, MergeRule::kMin), std::invalid_argument);
}

TEST(DuplicatesTest, NoiseIsPooledOverRepeats) {
  const RepeatNoise noise = noise_of_repeats(kGroups, kValues);
  EXPECT_EQ(noise.repeated_groups, 2);
  EXPECT_EQ(noise.repeats, 3);
  // Relative distances 0, 0.2, -0.2 from 10 and -1/101, 1/101 from 101, over 2 + 1 degrees.
  EXPECT_NEAR(noise.relative_deviation, std::sqrt((0.04 + 0.04 + 2.0 / (101 * 101)) / 3), 1e-12);
  EXPECT_DOUBLE_EQ(noise.largest_spread, 0.5);  // 12 / 8 - 1
}

TEST(DuplicatesTest, WithoutRepeatsThereIsNoNoise) {
  EXPECT_EQ(noise_of_repeats(all_distinct(3), std::vector<double>{1, 2, 3}).relative_deviation, 0);
}

TEST(AuditTest, CalmRuntimesAreNotSuspicious) {
  const GraphAudit audit = audit_runtimes(all_distinct(500), calm_runtimes(500));
  EXPECT_THAT(audit.findings, IsEmpty());
  EXPECT_EQ(audit.distinct, 500);
}

TEST(AuditTest, RuntimesThatGrowWithTheRowAreDrift) {
  std::vector<double> values = calm_runtimes(500);
  for (size_t row = 0; row < values.size(); ++row)
    values[row] *= 1 + static_cast<double>(row) / 500;
  const GraphAudit audit = audit_runtimes(all_distinct(500), values);
  EXPECT_THAT(audit.findings, ElementsAre(HasSubstr("drift: runtimes change with the row")));
}

TEST(AuditTest, ASearchThatFindsFasterConfigurationsIsNoDriftWhereRepeatsAgree) {
  // Every configuration twice in a row, each faster than the one before, repeats in both orders.
  DuplicateGroups groups;
  std::vector<double> values;
  for (int64_t group = 0; group < 100; ++group) {
    groups.first_row.push_back(2 * group);
    const double ns = 1e6 - 1000.0 * static_cast<double>(group), first = group % 2 == 0 ? 1 : 0;
    for (const double repeat : {first, 1 - first}) {
      groups.group_of_row.push_back(group);
      values.push_back(ns + 10 * repeat);
    }
  }
  const GraphAudit audit = audit_runtimes(groups, values);
  EXPECT_THAT(audit.findings, IsEmpty());
  EXPECT_LT(std::abs(audit.drift), 0.1);
}

TEST(AuditTest, BandsInBlocksOfRows) {
  std::vector<double> values = calm_runtimes(600);
  for (size_t row = 0; row < values.size(); ++row) values[row] *= row / 100 % 2 == 0 ? 1 : 3;
  const GraphAudit audit = audit_runtimes(all_distinct(600), values);
  EXPECT_THAT(audit.findings, ElementsAre(HasSubstr("blocks: two bands a factor of 2.")));
  EXPECT_GT(audit.gap, 2.7);  // from 1.1 ms to 3 ms
}

TEST(AuditTest, BandsThatAlternateAtRandomAreNoBlocks) {
  std::vector<double> values = calm_runtimes(600);
  std::mt19937 random(3);
  for (double& value : values) value *= random() % 2 == 0 ? 1 : 3;
  EXPECT_THAT(audit_runtimes(all_distinct(600), values).findings, IsEmpty());
}

TEST(AuditTest, ImpossibleRuntimes) {
  EXPECT_THAT(audit_runtimes(kGroups, kValues).findings,
              ElementsAre(HasSubstr("one configuration differs by 50.0 %")));
  EXPECT_THAT(audit_runtimes(all_distinct(2), std::vector<double>{1, 2000}).findings,
              ElementsAre(HasSubstr("slowest over fastest is 2000")));
}

TEST(AuditTest, WithoutLabelsThereIsNothingToFind) {
  const testing::TemporaryFolder folder;
  testing::NpzArrays arrays = testing::small_layout_graph();
  arrays["config_runtime"] = formats::Array::of<int64_t>({3}, {0, 0, 0});
  const GraphAudit audit = audit_graph(cache_of(folder, arrays));
  EXPECT_EQ(audit.distinct, 2);
  EXPECT_THAT(audit.findings, IsEmpty());
}

}  // namespace
}  // namespace lagom::graph

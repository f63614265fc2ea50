#include "lagom/collect/measured_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lagom/formats/npz.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/util/file.h"
#include "tests/testing/command.h"

namespace lagom::collect {
namespace {

using ::testing::ElementsAre;

constexpr char kDot[] = R"(HloModule kernel
ENTRY main {
  p0 = f32[8,4]{1,0} parameter(0)
  p1 = f32[4,2]{1,0} parameter(1)
  ROOT node = f32[8,2]{1,0} dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";

Row row(const std::string& configuration, double seconds) {
  return {.configuration = configuration,
          .seconds = seconds,
          .default_seconds = 2e-6,
          .ratio = {.median = seconds / 2e-6, .low = 0.5, .high = 1.5, .pairs = 5}};
}

TEST(RowLogTest, RowsOutliveTheProcessAndATornLine) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "rows.jsonl";
  {
    RowLog log(path);
    log.add(row("", 2e-6));
    Row failed = row("node output-layout {0,1}\n", 0);
    failed.failure = measure::FailureKind::kTimeout;
    failed.error = "no answer";
    log.add(failed);
  }
  std::ofstream(path, std::ios::app) << "{\"configuration\": \"torn";

  RowLog log(path);
  log.add(row("flag xla_cpu_prefer_vector_width 128\n", 3e-6));
  const RowLog again(path);

  ASSERT_EQ(again.rows().size(), 3u);
  EXPECT_EQ(again.rows()[0].ratio.high, 1.5);
  EXPECT_EQ(again.rows()[1].error, "no answer");
  EXPECT_FALSE(again.rows()[1].ok());
  EXPECT_TRUE(again.contains("flag xla_cpu_prefer_vector_width 128\n"));
  EXPECT_FALSE(again.contains("flag xla_cpu_prefer_vector_width 256\n"));
}

TEST(MeasuredFileTest, HoldsMeasuredRowsAndNamesFailures) {
  const testing::TemporaryFolder folder;
  const hlo::Module module = hlo::read_hlo_text(kDot, "k");
  Row failed = row("node form no_such_rule\n", 0);
  failed.failure = measure::FailureKind::kCompile;
  failed.error = "no such rule";

  write_measured(
      folder / "k", module,
      {.programs = {"p", "q"}, .signature = "s", .device = "cpu", .default_seconds = 2e-6},
      {row("", 2e-6), failed, row("node output-layout {0,1}\n", 1.5e-6)});

  const formats::NpzReader file(folder / "k.npz");
  EXPECT_THAT(formats::values_as<int64_t>(file.read("config_runtime")), ElementsAre(2000, 1500));
  EXPECT_THAT(formats::values_as<int64_t>(file.read("config_runtime_normalizers")),
              ElementsAre(2000, 2000));
  EXPECT_THAT(formats::values_as<int64_t>(file.read("node_config_ids")), ElementsAre(2));
  EXPECT_THAT(file.header("node_config_feat").shape, ElementsAre(2, 1, 18));
  EXPECT_THAT(file.header("node_feat").shape, ElementsAre(3, 140));
  EXPECT_THAT(file.header("node_feat_v2").shape, ElementsAre(3, 135));
  // The dot contracts dimension 1 of its left side: columns 159 to 162 of v2.
  const auto extended = formats::values_as<float>(file.read("node_feat_v2"));
  EXPECT_THAT(std::vector<float>(extended.begin() + 2 * 135 + 19, extended.begin() + 2 * 135 + 23),
              ElementsAre(1, -1, -1, -1));
  const auto json = nlohmann::json::parse(read_file(folder / "k.json"));
  EXPECT_EQ(json.at("configurations").size(), 2u);
  EXPECT_EQ(json.at("failures").at(0).at("error"), "no such rule");
  EXPECT_EQ(json.at("default_ns"), 2000);
}

TEST(MeasuredFileTest, NothingMeasuredIsNoFile) {
  const testing::TemporaryFolder folder;
  EXPECT_THROW(write_measured(folder / "k", hlo::read_hlo_text(kDot, "k"), {.programs = {"p"}}, {}),
               std::invalid_argument);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace lagom::collect

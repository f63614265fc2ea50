#include "lagom/collect/measured_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lagom/collect/measured_file.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/tune/kernel_features.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "tests/collect/measured_dot.h"
#include "tests/testing/command.h"

namespace lagom::collect {
namespace {

using ::testing::HasSubstr;

class MeasuredKernelsTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& device = "cpu") {
    write_measured(
        folder_ / name, module_,
        {.programs = {"p", "q"},
         .signature = name,
         .device = device,
         .strategy = "kernel",
         .hlo = kMeasuredDot},
        {measured_row("node form swapped_dot\n", 1e-3),
         measured_row("node form swapped_dot\nnode output-layout {0,1}\n", 4e-3),
         measured_row("flag xla_cpu_prefer_vector_width 512\n", 2e-3), measured_row("", 2e-3)});
  }

  const hlo::Module module_ = hlo::read_hlo_text(kMeasuredDot, "t");
  testing::TemporaryFolder folder_;
};

TEST_F(MeasuredKernelsTest, GiveTheDefaultAndFormsThatStandAlone) {
  write("0123");

  const tune::DeviceRecords all = measured_forms(folder_.path());

  EXPECT_EQ(all.device, "cpu");
  ASSERT_EQ(all.records.size(), 2u);
  EXPECT_EQ(all.records[0].configuration, "");
  EXPECT_EQ(all.records[1].configuration, "node form swapped_dot\n");
  EXPECT_EQ(all.records[1].signature, "0123");
  EXPECT_EQ(all.records[1].opcode, "dot");
  EXPECT_NEAR(*all.records[1].seconds, 1e-3, 1e-12);
  EXPECT_NEAR(all.records[1].ratio.median, 0.5, 1e-12);
  EXPECT_NEAR(all.records[1].ratio.low, 0.475, 1e-6);
  EXPECT_EQ(all.records[1].node, tune::describe_node(module_, "node"));
}

TEST_F(MeasuredKernelsTest, AFileOfThemIsADatabase) {
  write("0123");
  const tune::DeviceRecords all = measured_forms(folder_.path());

  tune::write_database_file(folder_ / "mine.jsonl", all);
  const auto read = tune::read_databases(folder_.path());

  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].device, "cpu");
  ASSERT_EQ(read[0].records.size(), 2u);
  EXPECT_EQ(read[0].records[1].configuration, all.records[1].configuration);
  EXPECT_DOUBLE_EQ(read[0].records[1].ratio.median, all.records[1].ratio.median);
  ASSERT_EQ(read[0].records[1].node.size(), all.records[1].node.size());
  EXPECT_NEAR(read[0].records[1].node[0], all.records[1].node[0], 5e-4);
}

TEST_F(MeasuredKernelsTest, WhatIsNoSuchFolderIsRefused) {
  EXPECT_THROW(measured_forms(folder_ / "absent"), SystemError);
  EXPECT_THROW(measured_forms(folder_.path()), FormatError);  // empty
  EXPECT_THROW(tune::read_databases(folder_.path()), FormatError);
  write("0123");
  write("4567", "another device");
  try {
    measured_forms(folder_.path());
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'cpu' and 'another device'"));
  }
}

TEST_F(MeasuredKernelsTest, ADescriptionThatDoesNotFitItsRowsIsNamed) {
  write("0123");
  nlohmann::json j = nlohmann::json::parse(read_file(folder_ / "0123.json"));
  j["configurations"].erase(0);
  write_file(folder_ / "0123.json", j.dump());

  try {
    measured_forms(folder_.path());
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), HasSubstr("0123.json"));
    EXPECT_THAT(error.what(), HasSubstr("expected as many as the npz has rows, 4, found 3"));
  }
  write_file(folder_ / "0123.json", "{\"hlo\": 3}");
  EXPECT_THROW(measured_forms(folder_.path()), FormatError);
}

}  // namespace
}  // namespace lagom::collect

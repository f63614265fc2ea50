#include "lagom/collect/collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "lagom/formats/npz.h"
#include "lagom/hlo/module_file.h"
#include "lagom/util/error.h"
#include "tests/testing/command.h"
#include "tests/testing/plugins.h"

// Collections of small programs, with a real compiler.
namespace lagom::collect {
namespace {

namespace fs = std::filesystem;

constexpr char kProgram[] = R"(HloModule m
ENTRY e {
  x = f32[1,16,16,8]{3,2,1,0} parameter(0)
  k = f32[3,3,1,8]{3,2,1,0} parameter(1)
  c = f32[1,16,16,8]{3,2,1,0} convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=8
  d = f32[1,16,16,8]{3,2,1,0} convolution(c, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=8
  w = f32[8,4]{1,0} parameter(2)
  f = f32[256,8]{1,0} reshape(d)
  ROOT y = f32[256,4]{1,0} dot(f, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";

class CollectorTest : public ::testing::Test {
 protected:
  CollectorTest() {
    options_.out = folder_.path() / "out";
    options_.configurations = 10;
    options_.seconds_per_row = 0.01;
    options_.worker.plugin = testing::plugin_path();
    setenv("LAGOM_LOCK_DIR", (folder_ / "locks").c_str(), 1);
    programs_ = {folder_.write("m.hlo", kProgram)};
  }
  ~CollectorTest() override { unsetenv("LAGOM_LOCK_DIR"); }

  std::vector<fs::path> files(const std::string& ending) const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(options_.out)) {
      if (entry.path().string().ends_with(ending)) found.push_back(entry.path());
    }
    return found;
  }

  testing::TemporaryFolder folder_;
  CollectOptions options_;
  std::vector<fs::path> programs_;
};

TEST_F(CollectorTest, EachDistinctKernelGetsOneFile) {
  const CollectSummary summary = collect(programs_, options_);

  // The two convolutions are one kernel.
  EXPECT_EQ(summary.written, 2u);
  EXPECT_EQ(summary.rows, 20u);
  EXPECT_EQ(files(".npz").size(), 2u);
  EXPECT_EQ(files(".json").size(), 2u);
  EXPECT_TRUE(files(".jsonl").empty());
  for (const fs::path& path : files(".npz")) {
    const auto runtimes =
        formats::values_as<int64_t>(formats::NpzReader(path).read("config_runtime"));
    EXPECT_GE(runtimes.size(), 8u);
    for (const int64_t runtime : runtimes) EXPECT_GT(runtime, 0);
  }
  const CollectSummary again = collect(programs_, options_);
  EXPECT_EQ(again.kept, 2u);
  EXPECT_EQ(again.rows, 0u);
}

TEST_F(CollectorTest, AStoppedCollectionGoesOn) {
  int asked = 0;
  options_.should_stop = [&] { return ++asked > 12; };
  const CollectSummary first = collect(programs_, options_);
  EXPECT_TRUE(first.stopped);
  options_.should_stop = {};

  const CollectSummary second = collect(programs_, options_);

  EXPECT_EQ(first.written + second.written, 2u);
  EXPECT_EQ(first.rows + second.rows, 20u);
  EXPECT_TRUE(files(".jsonl").empty());
}

TEST_F(CollectorTest, ShardsDivideTheKernels) {
  options_.num_shards = 2;
  options_.configurations = 2;
  size_t written = 0;
  for (options_.shard = 0; options_.shard < 2; ++options_.shard) {
    written += collect(programs_, options_).written;
  }
  EXPECT_EQ(written, 2u);
}

TEST_F(CollectorTest, FilesGoIntoTheSplitOfTheirPrograms) {
  options_.configurations = 2;
  // The same dot, another convolution: what both have is for training.
  std::string other = kProgram;
  for (size_t at; (at = other.find("3x3 pad=1_1x1_1")) != std::string::npos;) {
    other.replace(at, 15, "3x3 pad=2_0x1_1");
  }
  programs_.push_back(folder_.write("n.hlo", other));
  options_.splits = folder_.write("s.tsv", "program\tfamily\tsplit\nm\tf\ttest\nn\tg\ttrain\n");

  collect(programs_, options_);

  EXPECT_EQ(files(".npz").size(), 3u);
  size_t in_train = 0, in_test = 0;
  for (const fs::path& path : files(".npz")) {
    in_train += path.parent_path() == options_.out / "kernel" / "train";
    in_test += path.parent_path() == options_.out / "kernel" / "test";
  }
  EXPECT_EQ(in_train, 2u);
  EXPECT_EQ(in_test, 1u);
  programs_.push_back(folder_.write("unknown.hlo", kProgram));
  EXPECT_THROW(collect(programs_, options_), FormatError);
}

TEST_F(CollectorTest, WholeProgramsHaveTheDefaultAndRandomRows) {
  options_.kind = CollectionKind::kGraph;

  const CollectSummary summary = collect(programs_, options_);

  EXPECT_EQ(summary.written, 1u);
  const formats::NpzReader file(options_.out / "graph" / "m.npz");
  EXPECT_GE(file.header("config_runtime").shape[0], 8);
  const auto nodes = formats::values_as<int64_t>(file.read("node_config_ids"));
  EXPECT_TRUE(std::is_sorted(nodes.begin(), nodes.end()));
}

TEST_F(CollectorTest, ProgramsThatTakeTooLongAreLeftOut) {
  options_.kind = CollectionKind::kGraph;
  options_.max_run_seconds = 1e-9;
  const CollectSummary summary = collect(programs_, options_);
  EXPECT_EQ(summary.written, 0u);
  EXPECT_EQ(summary.left_out, 1u);
}

TEST_F(CollectorTest, AFileThatIsNoProgramIsALine) {
  std::vector<std::string> lines;
  options_.on_progress = [&](const std::string& line) { lines.push_back(line); };
  options_.configurations = 2;
  programs_.insert(programs_.begin(), folder_.write("bad.hlo", "HloModule"));

  const CollectSummary summary = collect(programs_, options_);

  EXPECT_EQ(summary.left_out, 1u);
  EXPECT_EQ(summary.written, 2u);
  EXPECT_THAT(lines.at(0), ::testing::HasSubstr("2 distinct kernels"));
  EXPECT_THAT(lines.at(1), ::testing::HasSubstr("bad: left out: "));
}

TEST_F(CollectorTest, WhatTuningMeasuredIsData) {
  options_.from_database = folder_.path() / "database";
  const hlo::Module module = hlo::read_module_file(programs_[0]);
  const tune::SearchSpace space(module, {});
  const tune::Kernel& kernel = space.kernels().at(0);
  {
    tune::Database database(options_.from_database, "some device");
    tune::KernelRecord record{.signature = kernel.cut_out.signature,
                              .configuration = "",
                              .opcode = "convolution",
                              .default_seconds = 4e-3,
                              .seconds = 4e-3,
                              .ratio = {.median = 1, .low = 0.98, .high = 1.02},
                              .error = {},
                              .node = {}};
    database.add(record);
    record.configuration = tune::form_configuration(*kernel.rules.at(0));
    record.seconds = 1e-3;
    record.ratio = {.median = 0.25, .low = 0.24, .high = 0.26};
    database.add(record);
  }

  const CollectSummary summary = collect(programs_, options_);

  EXPECT_EQ(summary.written, 1u);  // the dot is not in the database
  EXPECT_EQ(summary.left_out, 1u);
  EXPECT_EQ(summary.rows, 2u);
  ASSERT_EQ(files(".npz").size(), 1u);
  EXPECT_EQ(formats::values_as<int64_t>(
                formats::NpzReader(files(".npz")[0]).read("config_runtime")),
            (std::vector<int64_t>{4000000, 1000000}));
}

TEST_F(CollectorTest, ADatabaseOfSeveralDevicesIsRefused) {
  options_.from_database = folder_.path() / "database";
  EXPECT_THROW(collect(programs_, options_), SystemError);  // none there
  tune::Database(options_.from_database, "one");
  tune::Database(options_.from_database, "two");
  EXPECT_THROW(collect(programs_, options_), std::invalid_argument);
}

}  // namespace
}  // namespace lagom::collect

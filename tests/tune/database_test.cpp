#include "lagom/tune/database.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace lagom::tune {
namespace {

class DatabaseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("lagom-database-" + std::to_string(::getpid()) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static KernelRecord record(const std::string& configuration, double ratio) {
    KernelRecord r;
    r.signature = "0123";
    r.configuration = configuration;
    r.opcode = "dot";
    r.default_seconds = 2e-3;
    r.seconds = 2e-3 * ratio;
    r.ratio = {.median = ratio, .low = ratio - 0.01, .high = ratio + 0.01, .pairs = 7};
    return r;
  }

  std::filesystem::path file() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) return entry.path();
    return {};
  }

  std::filesystem::path folder_;
};

TEST_F(DatabaseTest, RemembersAcrossRunsAndKeepsDevicesApart) {
  Database(folder_, "cpu A").add(record("node form x\n", 0.5));
  const Database again(folder_, "cpu A");
  const auto found = again.find("0123", "node form x\n");
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->ratio.median, 0.5);
  EXPECT_DOUBLE_EQ(*found->seconds, 1e-3);
  EXPECT_EQ(found->ratio.pairs, 7);
  EXPECT_FALSE(again.find("0123", ""));
  EXPECT_FALSE(Database(folder_, "cpu B").find("0123", "node form x\n"));
}

TEST_F(DatabaseTest, KeepsFailuresButNotStops) {
  KernelRecord failed = record("node form x\n", 1);
  failed.seconds.reset();
  failed.failure = measure::FailureKind::kCompile;
  failed.error = "no";
  KernelRecord stopped = record("node form y\n", 1);
  stopped.failure = measure::FailureKind::kStopped;
  {
    Database database(folder_, "cpu");
    database.add(failed);
    database.add(stopped);
  }
  const Database again(folder_, "cpu");
  EXPECT_EQ(again.find("0123", "node form x\n")->error, "no");
  EXPECT_FALSE(again.find("0123", "node form x\n")->seconds);
  EXPECT_FALSE(again.find("0123", "node form y\n"));
}

TEST_F(DatabaseTest, AnErrorMayQuoteAnyBytes) {
  KernelRecord failed = record("a\n", 1);
  failed.seconds.reset();
  failed.failure = measure::FailureKind::kCrash;
  failed.error = "worker aborted: \xff\xfe";
  Database(folder_, "cpu").add(failed);

  EXPECT_TRUE(Database(folder_, "cpu").find("0123", "a\n")->error.starts_with("worker aborted: "));
}

TEST_F(DatabaseTest, TimesThatCannotBeAreSkipped) {
  for (const double ratio : {0.0, -0.5}) {
    Database(folder_, "cpu").add(record("a\n", ratio));
  }
  KernelRecord free = record("b\n", 0.5);
  free.seconds = 0;
  Database(folder_, "cpu").add(free);

  const Database again(folder_, "cpu");
  EXPECT_EQ(again.num_skipped(), 3u);
  EXPECT_EQ(again.size(), 0u);
}

TEST_F(DatabaseTest, ALineTornByAKillCostsOnlyItself) {
  Database(folder_, "cpu").add(record("a\n", 0.5));
  const auto path = file();
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 9);
  Database(folder_, "cpu").add(record("b\n", 0.25));
  const Database again(folder_, "cpu");
  EXPECT_EQ(again.num_skipped(), 1u);
  EXPECT_FALSE(again.find("0123", "a\n"));
  EXPECT_TRUE(again.find("0123", "b\n"));
}

TEST_F(DatabaseTest, AnEmptyFolderNameKeepsItInMemory) {
  Database database("", "cpu");
  database.add(record("a\n", 0.5));
  EXPECT_TRUE(database.find("0123", "a\n"));
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

}  // namespace
}  // namespace lagom::tune

#include "lagom/measure/pool.h"

#include <unistd.h>

#include <memory>
#include <stdexcept>

#include "lagom/measure/timing_lock.h"
#include "tests/measure/worker_fixture.h"

namespace lagom::measure {
namespace {

using ::testing::HasSubstr;
using WorkerPoolTest = WorkerTest;

TEST_F(WorkerPoolTest, SharesOutCandidates) {
  std::vector<std::vector<int>> sets = split_cpus(1);
  if (sets.size() > 2) sets.resize(2);
  WorkerPool pool(options(), sets);
  for (const BaselineResult& baseline : pool.load_baseline(matmul_baseline(64))) {
    ASSERT_TRUE(baseline.ok()) << baseline.error;
  }
  std::vector<MeasureRequest> requests;
  for (int i = 0; i < 5; ++i) {
    requests.push_back(candidate(i == 2 ? wrong_matmul(64) : lagom::testing::matmul_module(64)));
    requests.back().timing.budget_seconds = 0.1;
  }

  std::vector<int> seen(requests.size(), 0);
  pool.measure(requests, [&](size_t i, const MeasureResult& result) {
    ++seen[i];
    EXPECT_EQ(result.ok(), i != 2) << result.error;
  });

  EXPECT_EQ(seen, std::vector<int>(requests.size(), 1));
}

TEST_F(WorkerPoolTest, PassesOnWhatTheCallbackThrows) {
  WorkerPool pool(options(), split_cpus(1));
  pool.load_baseline(matmul_baseline(64));
  std::vector<MeasureRequest> requests(3, candidate(lagom::testing::matmul_module(64)));

  EXPECT_THROW(
      pool.measure(requests,
                   [](size_t, const MeasureResult&) { throw std::runtime_error("enough"); }),
      std::runtime_error);
}

TEST_F(WorkerPoolTest, OverlappingCpusAreRefused) {
  EXPECT_THROW(WorkerPool({}, {{0, 1}, {1}}), std::invalid_argument);
  EXPECT_THROW(WorkerPool({}, {}), std::invalid_argument);
}

TEST(TimingLockTest, SecondHolderWaitsAndSaysSo) {
  const std::string folder = ::testing::TempDir() + "lagom_lock_" + std::to_string(getpid());
  setenv("LAGOM_LOCK_DIR", folder.c_str(), 1);
  auto first = std::make_unique<TimingLock>(std::vector<int>{1, 0}, nullptr, nullptr);
  ASSERT_TRUE(first->locked());

  std::vector<std::string> notices;
  const TimingLock refused(
      {1}, [&](const std::string& line) { notices.push_back(line); }, [] { return true; });
  EXPECT_FALSE(refused.locked());
  EXPECT_THAT(notices, ::testing::ElementsAre(HasSubstr("timing on CPU 1")));

  const TimingLock elsewhere({5}, nullptr, [] { return true; });
  EXPECT_TRUE(elsewhere.locked());

  first.reset();
  const TimingLock again({0, 1}, nullptr, [] { return true; });
  EXPECT_TRUE(again.locked());
  unsetenv("LAGOM_LOCK_DIR");
}

}  // namespace
}  // namespace lagom::measure

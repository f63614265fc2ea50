#include "lagom/measure/timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace lagom::measure {
namespace {

// Runs that take what they are told, without any time passing.
struct FakeProgram {
  std::vector<double> seconds;  // given in turn, the last one for ever
  int runs = 0;

  TimedRun run() {
    return [this] {
      const size_t i = std::min(static_cast<size_t>(runs++), seconds.size() - 1);
      return seconds[i];
    };
  }
};

TEST(TimePairsTest, SteadyTimesEndAfterTheLeastPairs) {
  FakeProgram baseline{{0.2}};
  FakeProgram candidate{{0.1}};

  const PairedTimes times =
      time_pairs(baseline.run(), candidate.run(), 0.2, {.min_pairs = 5, .max_pairs = 100});

  EXPECT_EQ(times.baseline.size(), 5u);
  EXPECT_EQ(times.ratio.median, 0.5);
  EXPECT_EQ(times.runs_per_time, 1);
  EXPECT_EQ(baseline.runs, 5);
  EXPECT_EQ(candidate.runs, 5);
}

TEST(TimePairsTest, NoisyTimesGoOnToTheLastPair) {
  FakeProgram baseline{{0.1}};
  FakeProgram candidate;
  for (int i = 0; i < 100; ++i) candidate.seconds.push_back(i % 2 == 0 ? 0.1 : 0.2);

  const PairedTimes times =
      time_pairs(baseline.run(), candidate.run(), 0.1,
                 {.min_pairs = 5, .max_pairs = 30, .target_width = 0.02, .budget_seconds = 100});

  EXPECT_EQ(times.ratio.pairs, 30);
}

TEST(TimePairsTest, ALargeEffectNeedsNoNarrowInterval) {
  FakeProgram baseline{{1}};
  const auto pairs_until_done = [&](double low, double high) {
    FakeProgram candidate;
    for (int i = 0; i < 100; ++i) candidate.seconds.push_back(i % 2 == 0 ? low : high);
    return time_pairs(baseline.run(), candidate.run(), 1,
                      {.min_pairs = 5, .max_pairs = 30, .target_width = 0.02, .effect_share = 0.25})
        .ratio.pairs;
  };
  EXPECT_EQ(pairs_until_done(0.1, 0.2), 5);   // 0.1 wide, 0.85 away from 1
  EXPECT_EQ(pairs_until_done(0.9, 1.0), 30);  // 0.1 wide, 0.05 away
}

TEST(TimePairsTest, BudgetEndsTheTimingButNotBeforeTheLeastPairs) {
  FakeProgram baseline{{0.1}};
  FakeProgram candidate;
  for (int i = 0; i < 100; ++i) candidate.seconds.push_back(i % 2 == 0 ? 0.1 : 0.2);

  const PairedTimes times = time_pairs(baseline.run(), candidate.run(), 0.1,
                                       {.min_pairs = 7, .max_pairs = 90, .budget_seconds = 0});

  EXPECT_EQ(times.ratio.pairs, 7);
}

TEST(TimePairsTest, ShortProgramsRunSeveralTimesForOneTime) {
  FakeProgram baseline{{1e-4}};
  FakeProgram candidate{{1e-4}};

  const PairedTimes times =
      time_pairs(baseline.run(), candidate.run(), 1e-4, {.min_pairs = 5, .max_pairs = 5});

  EXPECT_EQ(times.runs_per_time, 40);  // 4 ms
  EXPECT_EQ(baseline.runs, 200);
  EXPECT_NEAR(times.baseline[0], 1e-4, 1e-12);
}

TEST(TimePairsTest, OrderAlternates) {
  std::string order;
  const auto baseline = [&] {
    order += 'D';
    return 0.1;
  };
  const auto candidate = [&] {
    order += 'C';
    return 0.1;
  };

  time_pairs(baseline, candidate, 0.1, {.min_pairs = 4, .max_pairs = 4});

  EXPECT_EQ(order, "DCCDDCCD");
}

TEST(TimePairsTest, HopelessCandidateIsDroppedAfterTwoPairs) {
  FakeProgram baseline{{0.1}};
  FakeProgram candidate{{0.3}};

  const PairedTimes times = time_pairs(baseline.run(), candidate.run(), 0.1,
                                       {.min_pairs = 10, .max_pairs = 90, .stop_ratio = 2});

  EXPECT_TRUE(times.dropped_early);
  EXPECT_EQ(times.ratio.pairs, 2);
}

TEST(TimePairsTest, OneSlowRunDoesNotDropACandidate) {
  FakeProgram baseline{{0.1}};
  FakeProgram candidate{{0.5, 0.1}};

  const PairedTimes times = time_pairs(baseline.run(), candidate.run(), 0.1,
                                       {.min_pairs = 5, .max_pairs = 5, .stop_ratio = 2});

  EXPECT_FALSE(times.dropped_early);
  EXPECT_EQ(times.ratio.median, 1);
}

}  // namespace
}  // namespace lagom::measure

#include "lagom/rank/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <string>

#include "lagom/util/statistics.h"

namespace lagom::rank {
namespace {

constexpr double kTail = 0.025;

using Member = double GraphMetrics::*;
constexpr Member kMembers[] = {&GraphMetrics::kendall_tau, &GraphMetrics::ordered_pair_accuracy,
                               &GraphMetrics::top1_slowdown, &GraphMetrics::top5_slowdown,
                               &GraphMetrics::top10_slowdown};

void check(std::span<const std::vector<GraphMetrics>> runs, int64_t resamples) {
  if (runs.empty() || runs.front().empty()) {
    throw std::invalid_argument("summarize: there is nothing to take a mean of");
  }
  for (const auto& run : runs) {
    if (run.size() == runs.front().size()) continue;
    throw std::invalid_argument("summarize: a seed has " + std::to_string(run.size()) +
                                " graphs, the first one " + std::to_string(runs.front().size()));
  }
  if (resamples < 1) throw std::invalid_argument("summarize: resamples must be at least 1");
}

/// `count` numbers below `count`, with repeats.
void draw(std::vector<size_t>& numbers, std::mt19937_64& random) {
  for (size_t& number : numbers) number = random() % numbers.size();
}

}  // namespace

MetricsSummary summarize(std::span<const std::vector<GraphMetrics>> runs, int64_t resamples,
                         uint64_t random_seed) {
  check(runs, resamples);
  MetricsSummary summary;
  for (const auto& run : runs) summary.seed_means.push_back(mean_of(run));
  summary.mean = mean_of(summary.seed_means);

  std::mt19937_64 random(random_seed);
  std::vector<size_t> seeds(runs.size()), graphs(runs.front().size());
  std::vector<GraphMetrics> drawn(seeds.size() * graphs.size()), means;
  for (int64_t i = 0; i < resamples; ++i) {
    draw(seeds, random);
    draw(graphs, random);
    auto out = drawn.begin();
    for (const size_t s : seeds) {
      for (const size_t g : graphs) *out++ = runs[s][g];
    }
    means.push_back(mean_of(drawn));
  }
  std::vector<double> values(means.size());
  for (const Member member : kMembers) {
    for (size_t i = 0; i < means.size(); ++i) values[i] = means[i].*member;
    std::sort(values.begin(), values.end());
    summary.low.*member = quantile_of(values, kTail);
    summary.high.*member = quantile_of(values, 1 - kTail);
  }
  return summary;
}

}  // namespace lagom::rank

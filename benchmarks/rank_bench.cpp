#include <benchmark/benchmark.h>

#include <random>

#include "lagom/rank/metrics.h"

namespace lagom::rank {
namespace {

void BM_KendallTau(benchmark::State& state) {
  std::mt19937_64 random(1);
  std::vector<double> scores(static_cast<size_t>(state.range(0))), runtimes(scores.size());
  for (double& score : scores) score = std::normal_distribution<double>()(random);
  // Runtimes in nanoseconds, some of them equal.
  for (double& runtime : runtimes) runtime = 1e6 + static_cast<double>(random() % scores.size());
  for (auto _ : state) benchmark::DoNotOptimize(kendall_tau(scores, runtimes));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_KendallTau)->ArgName("configs")->Arg(1000)->Arg(100000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lagom::rank

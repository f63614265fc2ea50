#include "lagom/rank/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace lagom::rank {
namespace {

void check(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) {
    throw std::invalid_argument(std::to_string(a.size()) + " scores for " +
                                std::to_string(b.size()) + " runtimes");
  }
  for (const auto& values : {a, b}) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) {
        throw std::invalid_argument("value " + std::to_string(i) + " is NaN");
      }
    }
  }
}

int64_t pairs_of(int64_t n) {
  return n * (n - 1) / 2;
}

/// Pairs within runs of equal neighbours.
template <typename Equal>
int64_t tied_pairs(size_t n, Equal&& equal) {
  int64_t pairs = 0;
  for (size_t begin = 0; begin < n;) {
    size_t end = begin + 1;
    while (end < n && equal(end - 1, end)) ++end;
    pairs += pairs_of(static_cast<int64_t>(end - begin));
    begin = end;
  }
  return pairs;
}

/// Sorts and returns the number of pairs that stood in descending order.
int64_t sort_counting_inversions(std::vector<double>& values) {
  std::vector<double> merged(values.size());
  int64_t inversions = 0;
  for (size_t width = 1; width < values.size(); width *= 2) {
    for (size_t begin = 0; begin < values.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, values.size());
      const size_t end = std::min(begin + 2 * width, values.size());
      size_t left = begin, right = middle;
      for (size_t out = begin; out < end; ++out) {
        if (right == end || (left < middle && values[left] <= values[right])) {
          merged[out] = values[left++];
        } else {
          inversions += static_cast<int64_t>(middle - left);
          merged[out] = values[right++];
        }
      }
    }
    values.swap(merged);
  }
  return inversions;
}

/// Pairs by what they have in common.
struct PairCounts {
  int64_t all = 0, tied_a = 0, tied_b = 0, tied_both = 0, discordant = 0;

  int64_t concordant() const { return all - tied_a - tied_b + tied_both - discordant; }
};

PairCounts count_pairs(std::span<const double> a, std::span<const double> b) {
  const size_t n = a.size();
  std::vector<std::pair<double, double>> pairs(n);
  for (size_t i = 0; i < n; ++i) pairs[i] = {a[i], b[i]};
  std::sort(pairs.begin(), pairs.end());
  PairCounts counts{.all = pairs_of(static_cast<int64_t>(n))};
  counts.tied_a =
      tied_pairs(n, [&](size_t i, size_t j) { return pairs[i].first == pairs[j].first; });
  counts.tied_both = tied_pairs(n, [&](size_t i, size_t j) { return pairs[i] == pairs[j]; });
  std::vector<double> seconds(n);
  for (size_t i = 0; i < n; ++i) seconds[i] = pairs[i].second;
  counts.discordant = sort_counting_inversions(seconds);
  counts.tied_b = tied_pairs(n, [&](size_t i, size_t j) { return seconds[i] == seconds[j]; });
  return counts;
}

template <typename Member>
double mean(std::span<const GraphMetrics> graphs, Member member) {
  double sum = 0;
  for (const GraphMetrics& graph : graphs) sum += graph.*member;
  return graphs.empty() ? 0 : sum / static_cast<double>(graphs.size());
}

}  // namespace

double kendall_tau(std::span<const double> a, std::span<const double> b) {
  check(a, b);
  const PairCounts counts = count_pairs(a, b);
  const auto untied_a = static_cast<double>(counts.all - counts.tied_a);
  const auto untied_b = static_cast<double>(counts.all - counts.tied_b);
  if (untied_a == 0 || untied_b == 0) return 0;
  const auto difference = static_cast<double>(counts.concordant() - counts.discordant);
  return std::clamp(difference / std::sqrt(untied_a) / std::sqrt(untied_b), -1.0, 1.0);
}

double ordered_pair_accuracy(std::span<const double> scores, std::span<const double> runtimes) {
  check(scores, runtimes);
  const PairCounts counts = count_pairs(scores, runtimes);
  const int64_t ordered = counts.all - counts.tied_b;
  return ordered == 0 ? 0 : static_cast<double>(counts.concordant()) / static_cast<double>(ordered);
}

std::vector<int64_t> order_by_score(std::span<const double> scores) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return scores[static_cast<size_t>(a)] < scores[static_cast<size_t>(b)];
  });
  return order;
}

double top_k_slowdown(std::span<const double> scores, std::span<const double> runtimes, int64_t k) {
  check(scores, runtimes);
  if (k < 1 || scores.empty()) throw std::invalid_argument("top_k_slowdown: nothing to choose");
  const std::vector<int64_t> order = order_by_score(scores);
  double best = runtimes[static_cast<size_t>(order[0])];
  for (size_t i = 1; i < std::min(order.size(), static_cast<size_t>(k)); ++i) {
    best = std::min(best, runtimes[static_cast<size_t>(order[i])]);
  }
  return best / *std::min_element(runtimes.begin(), runtimes.end());
}

GraphMetrics graph_metrics(std::span<const double> scores, std::span<const double> runtimes) {
  check(scores, runtimes);
  if (runtimes.size() < 2) {
    throw std::invalid_argument("a ranking needs at least 2 configurations, found " +
                                std::to_string(runtimes.size()));
  }
  for (size_t i = 0; i < runtimes.size(); ++i) {
    if (runtimes[i] > 0 && std::isfinite(runtimes[i])) continue;
    throw std::invalid_argument("runtime " + std::to_string(i) +
                                " is no measurement (0 or less, or not finite); test files have "
                                "placeholders instead of runtimes");
  }
  return {.kendall_tau = kendall_tau(scores, runtimes),
          .ordered_pair_accuracy = ordered_pair_accuracy(scores, runtimes),
          .top1_slowdown = top_k_slowdown(scores, runtimes, 1),
          .top5_slowdown = top_k_slowdown(scores, runtimes, 5),
          .top10_slowdown = top_k_slowdown(scores, runtimes, 10)};
}

GraphMetrics mean_of(std::span<const GraphMetrics> graphs) {
  return {.kendall_tau = mean(graphs, &GraphMetrics::kendall_tau),
          .ordered_pair_accuracy = mean(graphs, &GraphMetrics::ordered_pair_accuracy),
          .top1_slowdown = mean(graphs, &GraphMetrics::top1_slowdown),
          .top5_slowdown = mean(graphs, &GraphMetrics::top5_slowdown),
          .top10_slowdown = mean(graphs, &GraphMetrics::top10_slowdown)};
}

double tile_score(std::span<const GraphMetrics> graphs) {
  return 2 - mean(graphs, &GraphMetrics::top5_slowdown);
}

double layout_score(std::span<const GraphMetrics> graphs) {
  return mean(graphs, &GraphMetrics::kendall_tau);
}

}  // namespace lagom::rank

#include "lagom/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace lagom::measure {
namespace {

// P(fewer than k of n fair coins show heads), k <= n / 2.
double binomial_below(int n, int k) {
  double sum = 0;
  for (int i = 0; i < k; ++i) {
    sum += std::exp(std::lgamma(n + 1.0) - std::lgamma(i + 1.0) - std::lgamma(n - i + 1.0) -
                    n * std::log(2.0));
  }
  return sum;
}

}  // namespace

double median(std::span<const double> values) {
  if (values.empty()) return 0;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double Ratio::distance_from_one() const {
  return std::max(std::abs(low - 1), std::abs(high - 1));
}

Ratio paired_ratio(std::span<const double> baseline, std::span<const double> candidate,
                   double confidence) {
  if (baseline.size() != candidate.size()) {
    throw std::invalid_argument("paired_ratio: the two sides have different numbers of times");
  }
  const int n = static_cast<int>(baseline.size());
  if (n == 0) return {};
  std::vector<double> ratios;
  double log_sum = 0;
  for (size_t i = 0; i < baseline.size(); ++i) {
    if (!(baseline[i] > 0) || !(candidate[i] > 0)) {
      throw std::invalid_argument("paired_ratio: a time is not positive");
    }
    ratios.push_back(candidate[i] / baseline[i]);
    log_sum += std::log(ratios.back());
  }
  std::sort(ratios.begin(), ratios.end());
  int k = 1;
  while (k + 1 <= n / 2 && 1 - 2 * binomial_below(n, k + 1) >= confidence) ++k;
  Ratio ratio;
  ratio.median = median(ratios);
  ratio.low = ratios[static_cast<size_t>(k - 1)];
  ratio.high = ratios[static_cast<size_t>(n - k)];
  ratio.geometric = std::exp(log_sum / n);
  ratio.coverage = n == 1 ? 0 : 1 - 2 * binomial_below(n, k);
  ratio.pairs = n;
  return ratio;
}

}  // namespace lagom::measure

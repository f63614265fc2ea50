#include "lagom/util/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>

namespace lagom {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Sums from which a correlation follows.
struct Moments {
  double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;

  void add(double a, double b) {
    n += 1;
    x += a;
    y += b;
    xx += a * a;
    yy += b * b;
    xy += a * b;
  }
  Moments& operator+=(const Moments& other) {
    n += other.n;
    x += other.x;
    y += other.y;
    xx += other.xx;
    yy += other.yy;
    xy += other.xy;
    return *this;
  }
  double correlation() const {
    const double a = xx - x * x / n, b = yy - y * y / n;
    return a > 0 && b > 0 ? (xy - x * y / n) / std::sqrt(a * b) : kNaN;
  }
};

}  // namespace

double mean_of(std::span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation_of(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double quantile_of(std::span<const double> sorted, double share) {
  if (sorted.empty()) throw std::invalid_argument("quantile_of: there are no values");
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - std::floor(place));
}

Interval percentile_interval(std::vector<double> draws) {
  std::erase_if(draws, [](double value) { return std::isnan(value); });
  if (draws.empty()) return {kNaN, kNaN};
  std::sort(draws.begin(), draws.end());
  return {quantile_of(draws, 0.025), quantile_of(draws, 0.975)};
}

std::vector<double> average_ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double rank = 0.5 * static_cast<double>(begin + 1 + end);
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = rank;
    begin = end;
  }
  return ranks;
}

Correlation spearman(std::span<const double> x, std::span<const double> y,
                     std::span<const int64_t> groups, int64_t resamples) {
  const int64_t total = std::accumulate(groups.begin(), groups.end(), int64_t{0});
  if (x.size() != y.size() || total != std::ssize(x)) {
    throw std::invalid_argument("spearman: " + std::to_string(x.size()) + " and " +
                                std::to_string(y.size()) + " values in groups of " +
                                std::to_string(total));
  }
  const std::vector<double> ranks_x = average_ranks(x), ranks_y = average_ranks(y);
  // From the mean on, so that sums of squares keep their digits.
  const double middle = 0.5 * static_cast<double>(x.size() + 1);
  std::vector<Moments> parts;
  Moments all;
  size_t pair = 0;
  for (const int64_t size : groups) {
    Moments part;
    for (int64_t i = 0; i < size; ++i, ++pair)
      part.add(ranks_x[pair] - middle, ranks_y[pair] - middle);
    all += part;
    parts.push_back(part);
  }
  Correlation result{.rho = all.correlation(), .interval = {}};
  std::mt19937_64 random(1);
  std::vector<double> draws;
  for (int64_t i = 0; i < resamples && !parts.empty(); ++i) {
    Moments drawn;
    for (size_t g = 0; g < parts.size(); ++g) drawn += parts[random() % parts.size()];
    draws.push_back(drawn.correlation());
  }
  result.interval = percentile_interval(std::move(draws));
  return result;
}

}  // namespace lagom

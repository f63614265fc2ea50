#include "lagom/tune/neighbours.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lagom/tune/kernel_features.h"

namespace lagom::tune {
namespace {

constexpr size_t kMaxNeighbours = 16;
/// Distance at which a neighbour has half the weight of one at 0.
constexpr double kHalfDistance = 1.0;
/// Doubt of a log ratio that a neighbour at distance 1 leaves.
constexpr double kDeviationPerDistance = 0.12;
constexpr double kLeastDeviation = 0.05;

std::string key_of(std::string_view opcode, const std::string& configuration) {
  return std::string(opcode) + '\n' + configuration;
}

/// Without the CPUs.
std::string_view compiler_of(std::string_view device) {
  return device.substr(0, device.rfind(" cpus"));
}

}  // namespace

double doubt_of_device(std::string_view other, std::string_view device) {
  if (other == device) return 0;
  constexpr double kOtherCpus = 0.15, kOtherCompiler = 0.7;
  return compiler_of(other) == compiler_of(device) ? kOtherCpus : kOtherCompiler;
}

Belief combine(const Belief& a, const Belief& b) {
  if (!std::isfinite(a.deviation)) return b;
  if (!std::isfinite(b.deviation)) return a;
  const double weight_a = 1 / (a.deviation * a.deviation);
  const double weight_b = 1 / (b.deviation * b.deviation);
  const double sum = weight_a + weight_b;
  return {.mean = (a.mean * weight_a + b.mean * weight_b) / sum, .deviation = 1 / std::sqrt(sum)};
}

void Neighbours::add(const KernelRecord& record, double extra_deviation) {
  if (record.node.empty() || record.configuration.empty() || !record.seconds) return;
  if (record.failure != measure::FailureKind::kNone || record.ratio.median <= 0) return;
  points_[key_of(record.opcode, record.configuration)].push_back(
      {.node = record.node,
       .log_ratio = std::log(record.ratio.median),
       .extra_deviation = extra_deviation,
       .signature = record.signature});
  ++size_;
}

Belief Neighbours::log_ratio(std::string_view opcode, const std::vector<float>& node,
                             const std::string& configuration, std::string_view but) const {
  const auto it = points_.find(key_of(opcode, configuration));
  Belief belief{.mean = 0, .deviation = std::numeric_limits<double>::infinity()};
  if (it == points_.end()) return belief;
  std::vector<std::pair<double, const Point*>> near;
  for (const Point& point : it->second) {
    const double d = distance(node, point.node);
    if (std::isfinite(d) && (but.empty() || point.signature != but)) near.emplace_back(d, &point);
  }
  if (near.empty()) return belief;
  const auto closer = [](const auto& a, const auto& b) { return a.first < b.first; };
  const size_t count = std::min(kMaxNeighbours, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end(),
                    closer);
  near.resize(count);
  const auto weight_of = [](double d, const Point& point) {
    const double reach = d / kHalfDistance;
    return std::exp2(-reach * reach) / (1 + point.extra_deviation) + 1e-12;
  };
  double weights = 0, mean = 0, nearest = std::numeric_limits<double>::infinity();
  for (const auto& [d, point] : near) {
    const double weight = weight_of(d, *point);
    weights += weight;
    mean += weight * point->log_ratio;
    nearest = std::min(
        nearest, std::hypot(kLeastDeviation + kDeviationPerDistance * d, point->extra_deviation));
  }
  mean /= weights;
  double spread = 0;
  for (const auto& [d, point] : near) {
    spread += weight_of(d, *point) * (point->log_ratio - mean) * (point->log_ratio - mean);
  }
  return {.mean = mean, .deviation = std::hypot(nearest, std::sqrt(spread / weights))};
}

}  // namespace lagom::tune

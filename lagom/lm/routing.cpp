#include "lagom/lm/routing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace lagom::lm {
namespace {

/// SplitMix64's finaliser: every bit of the input moves every bit of the result.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

float ordered(float score) {
  return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
}

}  // namespace

std::vector<int64_t> top_k_positions(std::span<const float> scores, int64_t k) {
  std::vector<int64_t> positions(scores.size());
  std::iota(positions.begin(), positions.end(), 0);
  if (k < static_cast<int64_t>(scores.size())) {
    const auto before = [&](int64_t a, int64_t b) {
      const float x = ordered(scores[static_cast<size_t>(a)]);
      const float y = ordered(scores[static_cast<size_t>(b)]);
      return x != y ? x > y : a < b;
    };
    std::nth_element(positions.begin(), positions.begin() + k, positions.end(), before);
    positions.resize(static_cast<size_t>(k));
    std::sort(positions.begin(), positions.end());
  }
  return positions;
}

float top_k_threshold(std::span<const float> scores, int64_t k) {
  float lowest = std::numeric_limits<float>::infinity();
  for (const int64_t position : top_k_positions(scores, k)) {
    lowest = std::min(lowest, ordered(scores[static_cast<size_t>(position)]));
  }
  return lowest;
}

bool HardCap::admit(bool wants, int64_t position) {
  const double allowed = std::ceil(share_ * static_cast<double>(position + 1) - 1e-9);
  if (!wants || static_cast<double>(entered_ + 1) > allowed) return false;
  ++entered_;
  return true;
}

float random_score(uint64_t draw, int64_t layer, int64_t row, int64_t position) {
  uint64_t state = mix(draw);
  for (const int64_t part : {layer, row, position})
    state = mix(state ^ static_cast<uint64_t>(part));
  // Box-Muller on two numbers in (0, 1].
  constexpr double kUnit = 1.0 / 9007199254740992.0;  // 2^-53
  const double a = (static_cast<double>(state >> 11) + 1) * kUnit;
  const double b = (static_cast<double>(mix(state) >> 11) + 1) * kUnit;
  return static_cast<float>(std::sqrt(-2 * std::log(a)) * std::cos(2 * std::numbers::pi * b));
}

}  // namespace lagom::lm

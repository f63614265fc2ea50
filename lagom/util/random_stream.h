#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <unordered_set>
#include <vector>

namespace lagom {

/// SplitMix64 (Steele, Lea and Flood 2014): the same stream in every build.
class Random {
 public:
  explicit Random(uint64_t state) : state_(state) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  /// In [0, count); off by less than count / 2^64.
  int64_t below(int64_t count) {
    return static_cast<int64_t>(next() % static_cast<uint64_t>(count));
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

/// What is drawn for sample `number` of a run; each purpose has a number of its own.
inline Random random_stream(int64_t seed, int64_t number, uint64_t purpose) {
  Random mix(static_cast<uint64_t>(seed) * 0xD1342543DE82EF95ULL + purpose);
  return Random(mix.next() ^ static_cast<uint64_t>(number) * 0xA0761D6478BD642FULL);
}

/// `wanted` different numbers below `count`, ascending (Floyd's method).
inline std::vector<int64_t> different_numbers(int64_t count, int64_t wanted, Random random) {
  std::unordered_set<int64_t> chosen;
  for (int64_t i = count - wanted; i < count; ++i) {
    const int64_t pick = random.below(i + 1);
    chosen.insert(chosen.contains(pick) ? i : pick);
  }
  std::vector<int64_t> out(chosen.begin(), chosen.end());
  std::sort(out.begin(), out.end());
  return out;
}

/// Which of `count` things sample `index` of a run is: each comes once in each round of `count`
/// samples.
inline size_t place_in_rounds(size_t count, int64_t seed, int64_t index) {
  const auto all = static_cast<int64_t>(count);
  Random random = random_stream(seed, index / all, /*purpose=*/2);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = all - 1; i > 0; --i) {
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(random.below(i + 1))]);
  }
  return order[static_cast<size_t>(index % all)];
}

}  // namespace lagom

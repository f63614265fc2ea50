#include "lagom/text/window_sampler.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace lagom::text {
namespace {

uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

}  // namespace

int64_t permuted(int64_t index, int64_t count, uint64_t seed) {
  int half_bits = 1;
  while ((uint64_t{1} << (2 * half_bits)) < static_cast<uint64_t>(count)) ++half_bits;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  auto value = static_cast<uint64_t>(index);
  do {
    uint64_t left = value >> half_bits, right = value & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t next = left ^ (mix(seed ^ mix(right + (round << 56))) & mask);
      left = right;
      right = next;
    }
    value = left << half_bits | right;
  } while (value >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(value);
}

WindowSampler::WindowSampler(int64_t num_tokens, int64_t length, uint64_t seed)
    : num_tokens_(num_tokens), length_(length), seed_(seed) {
  if (length < 1 || num_tokens < length + 1) {
    throw std::invalid_argument("a corpus of " + std::to_string(num_tokens) +
                                " tokens has no window of " + std::to_string(length) +
                                " tokens and the one after them");
  }
  // Room for every phase: the last window needs one token more.
  count_ = std::max<int64_t>(1, (num_tokens - length) / length);
}

int64_t WindowSampler::begin_of(int64_t cursor) const {
  const int64_t epoch = cursor / count_;
  const uint64_t seed = mix(seed_ ^ mix(static_cast<uint64_t>(epoch)));
  const int64_t slack = num_tokens_ - count_ * length_;  // phases 0 .. slack - 1
  const auto phase =
      static_cast<int64_t>(mix(seed) % static_cast<uint64_t>(std::min(slack, length_)));
  return phase + permuted(cursor % count_, count_, seed) * length_;
}

}  // namespace lagom::text

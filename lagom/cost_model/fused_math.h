#pragma once

// Element-wise functions that compilers turn into vector code: no branches, no calls.

#include <cstdint>
#include <cstring>

// Inlined by force: only then they are compiled for the instructions of the loop around them.
#define LAGOM_INLINE [[gnu::always_inline]] inline

namespace lagom::cost_model {

/// exp(x) to 2 ulp for x in [-87, 88]; beyond, the value at the end of the range.
LAGOM_INLINE float fast_exp(float x) {
  x = x < -87.0F ? -87.0F : x;
  x = x > 88.0F ? 88.0F : x;
  // x = n ln 2 + r; adding 1.5 * 2^23 rounds to a whole number.
  const float shifted = x * 1.44269504F + 12582912.0F;
  const float n = shifted - 12582912.0F;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const auto bits = (static_cast<int32_t>(n) + 127) << 23;
  float scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}

LAGOM_INLINE float fast_sigmoid(float x) {
  return 1.0F / (1.0F + fast_exp(-x));
}

/// The normal distribution: density * sqrt(2 pi), and the probability of at most x. The latter by
/// Abramowitz and Stegun 7.1.26, 7.5e-8 off at most.
struct Normal {
  float density, probability;
};
LAGOM_INLINE Normal fast_normal(float x) {
  const float positive = x < 0 ? -x : x;
  const float density = fast_exp(-0.5F * x * x);
  const float t = 1.0F / (1.0F + 0.3275911F * 0.707106781F * positive);
  float p = 1.061405429F;
  p = p * t - 1.453152027F;
  p = p * t + 1.421413741F;
  p = p * t - 0.284496736F;
  p = p * t + 0.254829592F;
  const float tail = 0.5F * p * t * density;
  return {density, x < 0 ? tail : 1.0F - tail};
}

LAGOM_INLINE float fast_gelu(float x) {
  return x * fast_normal(x).probability;
}
LAGOM_INLINE float fast_gelu_slope(float x) {
  const Normal normal = fast_normal(x);
  return normal.probability + x * normal.density * 0.398942280F;
}

/// 1 or 0 with probability `share` by a hash (MurmurHash3's mixer) of seed and place.
LAGOM_INLINE float hash_keeps(uint32_t place, uint32_t seed, uint32_t threshold) {
  uint32_t h = place * 0x9E3779B1U ^ seed;
  h ^= h >> 16;
  h *= 0x85EBCA6BU;
  h ^= h >> 13;
  h *= 0xC2B2AE35U;
  h ^= h >> 16;
  return (h >> 8) >= threshold ? 1.0F : 0.0F;  // 24 bits, compared as whole numbers
}

}  // namespace lagom::cost_model

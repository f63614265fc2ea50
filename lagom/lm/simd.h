#pragma once

// Sixteen floats at a time, by the compiler's vector types: one 512-bit register, two of 256 bits
// or four of 128, as the clone that runs has them. Private to kernel sources, which are compiled
// with contraction of a * b + c into fused multiply-adds.

#include <cstdint>
#include <cstring>

// Compiled for three generations of x86 and chosen when the program starts.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LAGOM_HAS_CLONES
#define LAGOM_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define LAGOM_CLONES
#endif
#define LAGOM_INLINE inline __attribute__((always_inline))

namespace lagom::lm::simd {

inline constexpr int64_t kWidth = 16;
using Floats = float __attribute__((vector_size(64)));
using Words = uint32_t __attribute__((vector_size(64)));
using Ints = int32_t __attribute__((vector_size(64)));
using Halves = uint16_t __attribute__((vector_size(32)));  // bfloat16 bits
using Bytes = int8_t __attribute__((vector_size(16)));

LAGOM_INLINE Floats load(const float* p) {
  Floats r;
  std::memcpy(&r, p, sizeof r);
  return r;
}
LAGOM_INLINE void store(float* p, Floats v) {
  std::memcpy(p, &v, sizeof v);
}
/// The first `n` elements; 0 for the rest.
LAGOM_INLINE Floats load_part(const float* p, int64_t n) {
  Floats r{};
  std::memcpy(&r, p, static_cast<size_t>(n) * sizeof(float));
  return r;
}
LAGOM_INLINE void store_part(float* p, Floats v, int64_t n) {
  std::memcpy(p, &v, static_cast<size_t>(n) * sizeof(float));
}

// bfloat16: the upper half of a float; stores round to nearest even.
LAGOM_INLINE Floats widen(Halves bits) {
  return reinterpret_cast<Floats>(__builtin_convertvector(bits, Words) << 16);
}
LAGOM_INLINE Halves narrow(Floats v) {
  const Words bits = reinterpret_cast<Words>(v);
  return __builtin_convertvector((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16, Halves);
}
LAGOM_INLINE Floats load(const uint16_t* p) {
  Halves bits;
  std::memcpy(&bits, p, sizeof bits);
  return widen(bits);
}
LAGOM_INLINE Floats load_part(const uint16_t* p, int64_t n) {
  Halves bits{};
  std::memcpy(&bits, p, static_cast<size_t>(n) * sizeof(uint16_t));
  return widen(bits);
}
LAGOM_INLINE void store(uint16_t* p, Floats v) {
  const Halves bits = narrow(v);
  std::memcpy(p, &bits, sizeof bits);
}
LAGOM_INLINE void store_part(uint16_t* p, Floats v, int64_t n) {
  const Halves bits = narrow(v);
  std::memcpy(p, &bits, static_cast<size_t>(n) * sizeof(uint16_t));
}

LAGOM_INLINE Floats all(float x) {
  return Floats{} + x;
}

LAGOM_INLINE float sum(Floats v) {
  using Eight = float __attribute__((vector_size(32)));
  using Four = float __attribute__((vector_size(16)));
  Eight halves[2];
  std::memcpy(halves, &v, sizeof v);
  const Eight eight = halves[0] + halves[1];
  Four quarters[2];
  std::memcpy(quarters, &eight, sizeof eight);
  const Four four = quarters[0] + quarters[1];
  return (four[0] + four[2]) + (four[1] + four[3]);
}
/// e^x within 2 ulp (Cody-Waite reduction, polynomial of degree 6); x is clamped to [-87, 88].
LAGOM_INLINE Floats exp(Floats x) {
  x = x < all(-87.0F) ? all(-87.0F) : x;
  x = x > all(88.0F) ? all(88.0F) : x;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number
  const Floats n = (x * 1.44269504F + kRound) - kRound;
  const Floats r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  Floats p = all(1.0F / 720);
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r * r + r + 1.0F;
  const Ints power = (__builtin_convertvector(n, Ints) + 127) << 23;
  return p * reinterpret_cast<Floats>(power);
}

LAGOM_INLINE Floats sigmoid(Floats x) {
  return 1.0F / (1.0F + exp(-x));
}

}  // namespace lagom::lm::simd

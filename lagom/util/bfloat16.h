#pragma once

#include <bit>
#include <cstdint>

namespace lagom {

/// The bits of the bfloat16 nearest to a float, ties to even; NaNs stay NaNs.
inline uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

}  // namespace lagom

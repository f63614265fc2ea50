#pragma once

#include <cstdint>
#include <string_view>

namespace lagom {

/// XLA's PrimitiveType; the values are the numbers used on the wire.
enum class PrimitiveType : int32_t {
  kInvalid = 0,
  kPred = 1,
  kS8 = 2,
  kS16 = 3,
  kS32 = 4,
  kS64 = 5,
  kU8 = 6,
  kU16 = 7,
  kU32 = 8,
  kU64 = 9,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kTuple = 13,   ///< This, opaque, token and buffer are no array types.
  kOpaque = 14,
  kC64 = 15,
  kBF16 = 16,
  kToken = 17,
  kC128 = 18,
  kF8E5M2 = 19,
  kF8E4M3FN = 20,
  kS4 = 21,
  kU4 = 22,
  kF8E4M3B11FNUZ = 23,
  kF8E5M2FNUZ = 24,
  kF8E4M3FNUZ = 25,
  kS2 = 26,
  kU2 = 27,
  kF8E4M3 = 28,
  kF8E3M4 = 29,
  kS1 = 30,
  kU1 = 31,
  kF4E2M1FN = 32,
  kF8E8M0FNU = 33,
  kBuffer = 34,
};
inline constexpr int kNumPrimitiveTypes = 35;

enum class NumberKind { kNone, kPred, kSigned, kUnsigned, kFloat, kComplex };

/// How a type stores a number.
struct NumberFormat {
  std::string_view name;  ///< "f32", "bf16"...; "invalid" when the number means no array type.
  NumberKind kind = NumberKind::kNone;
  int bits = 0;   ///< Width of a value.
  int bytes = 0;  ///< Bytes of a value in an unpacked host buffer: at least 1 for array types.
  /// Bits of the significand, the hidden one included, for floats and complex: 24 for f32 and c64.
  int significand_bits = 0;

  bool is_float() const { return kind == NumberKind::kFloat; }
  bool is_complex() const { return kind == NumberKind::kComplex; }
  bool is_integer() const { return kind == NumberKind::kSigned || kind == NumberKind::kUnsigned; }
};

/// Any integer is allowed; one that is no array type gives kind kNone.
const NumberFormat& number_format(PrimitiveType type);

/// The value of one stored element as a double; `part` 1 is a complex value's imaginary part.
/// 64-bit integers lose their low bits. `bytes` points at format.bytes bytes of any alignment.
double decode_number(PrimitiveType type, const void* bytes, int part = 0);

/// Stores the nearest representable value (ties to even); integers saturate, floats overflow to
/// infinity or, where a type has none, to its largest value. A complex value's imaginary part is
/// set to `imaginary`, which other types ignore.
void encode_number(PrimitiveType type, double value, void* bytes, double imaginary = 0);

}  // namespace lagom

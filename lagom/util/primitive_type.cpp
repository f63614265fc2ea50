#include "lagom/util/primitive_type.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace lagom {
namespace {

enum class Specials {
  kIeee,          // the top exponent holds infinities and NaNs
  kOnlyNan,       // no infinity; the all-ones pattern is NaN (FN)
  kUnsignedZero,  // no infinity; the pattern of minus zero is NaN (FNUZ)
  kNone,          // every pattern is a number
  kPower,         // an unsigned exponent and nothing else; 0xff is NaN (E8M0)
};

// A float of at most 16 bits.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials;

  uint32_t sign_bit() const { return 1u << (exponent_bits + mantissa_bits); }
  uint32_t mantissa_mask() const { return (1u << mantissa_bits) - 1; }
  uint32_t exponent_mask() const { return (1u << exponent_bits) - 1; }
  uint32_t nan() const {
    switch (specials) {
      case Specials::kIeee:
        return (exponent_mask() << mantissa_bits) | (1u << (mantissa_bits - 1));
      case Specials::kUnsignedZero:
        return sign_bit();
      case Specials::kNone:
        return 0;
      case Specials::kOnlyNan:
      case Specials::kPower:
        break;
    }
    return (exponent_mask() << mantissa_bits) | mantissa_mask();
  }
  // The largest finite pattern without its sign.
  uint32_t largest() const {
    const uint32_t all = (exponent_mask() << mantissa_bits) | mantissa_mask();
    switch (specials) {
      case Specials::kIeee:
        return (exponent_mask() << mantissa_bits) - 1;
      case Specials::kOnlyNan:
      case Specials::kPower:
        return all - 1;
      case Specials::kUnsignedZero:
      case Specials::kNone:
        break;
    }
    return all;
  }

  double decode(uint32_t bits) const {
    const double nan_value = std::numeric_limits<double>::quiet_NaN();
    if (specials == Specials::kPower) {
      return bits == 0xff ? nan_value : std::ldexp(1.0, static_cast<int>(bits) - bias);
    }
    const double sign = bits & sign_bit() ? -1.0 : 1.0;
    const uint32_t exponent = (bits >> mantissa_bits) & exponent_mask();
    const uint32_t mantissa = bits & mantissa_mask();
    if (specials == Specials::kUnsignedZero && bits == sign_bit()) return nan_value;
    if (specials == Specials::kOnlyNan && (bits & ~sign_bit()) == nan()) return nan_value;
    if (specials == Specials::kIeee && exponent == exponent_mask()) {
      return mantissa != 0 ? nan_value : sign * std::numeric_limits<double>::infinity();
    }
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * std::ldexp(mantissa + (mantissa_mask() + 1.0),
                             static_cast<int>(exponent) - bias - mantissa_bits);
  }

  uint32_t encode(double value) const {
    if (std::isnan(value)) {
      const bool has_signed_nan = specials == Specials::kIeee || specials == Specials::kOnlyNan;
      return nan() | (has_signed_nan && std::signbit(value) ? sign_bit() : 0);
    }
    if (specials == Specials::kPower) {
      if (!(value > 0)) return 0;
      const double power = std::nearbyint(std::log2(value)) + bias;
      return static_cast<uint32_t>(std::clamp(power, 0.0, 254.0));
    }
    const uint32_t sign = std::signbit(value) ? sign_bit() : 0;
    const double magnitude = std::abs(value);
    if (magnitude == 0) return specials == Specials::kUnsignedZero ? 0 : sign;
    // The pattern's integer value is linear inside a binade: round the significand to an integer.
    int exponent = 0;
    std::frexp(magnitude, &exponent);
    const int biased = std::isinf(magnitude) ? 1 << 16 : std::max(exponent - 1 + bias, 1);
    uint32_t bits = largest() + 1;
    if (biased <= static_cast<int>(exponent_mask()) + 1) {
      const double steps = std::nearbyint(std::ldexp(magnitude, bias + mantissa_bits - biased));
      bits = (static_cast<uint32_t>(biased - 1) << mantissa_bits) + static_cast<uint32_t>(steps);
    }
    if (bits > largest()) {
      bits = specials == Specials::kIeee ? exponent_mask() << mantissa_bits : largest();
    }
    if (bits == 0 && specials == Specials::kUnsignedZero) return 0;
    return bits | sign;
  }
};

const SmallFloat* small_float(PrimitiveType type) {
  static constexpr SmallFloat kF16{5, 10, 15, Specials::kIeee};
  static constexpr SmallFloat kBF16{8, 7, 127, Specials::kIeee};
  static constexpr SmallFloat kE5M2{5, 2, 15, Specials::kIeee};
  static constexpr SmallFloat kE4M3{4, 3, 7, Specials::kIeee};
  static constexpr SmallFloat kE3M4{3, 4, 3, Specials::kIeee};
  static constexpr SmallFloat kE4M3FN{4, 3, 7, Specials::kOnlyNan};
  static constexpr SmallFloat kE4M3B11FNUZ{4, 3, 11, Specials::kUnsignedZero};
  static constexpr SmallFloat kE5M2FNUZ{5, 2, 16, Specials::kUnsignedZero};
  static constexpr SmallFloat kE4M3FNUZ{4, 3, 8, Specials::kUnsignedZero};
  static constexpr SmallFloat kE2M1FN{2, 1, 1, Specials::kNone};
  static constexpr SmallFloat kE8M0FNU{8, 0, 127, Specials::kPower};
  switch (type) {
    case PrimitiveType::kF16:
      return &kF16;
    case PrimitiveType::kBF16:
      return &kBF16;
    case PrimitiveType::kF8E5M2:
      return &kE5M2;
    case PrimitiveType::kF8E4M3:
      return &kE4M3;
    case PrimitiveType::kF8E3M4:
      return &kE3M4;
    case PrimitiveType::kF8E4M3FN:
      return &kE4M3FN;
    case PrimitiveType::kF8E4M3B11FNUZ:
      return &kE4M3B11FNUZ;
    case PrimitiveType::kF8E5M2FNUZ:
      return &kE5M2FNUZ;
    case PrimitiveType::kF8E4M3FNUZ:
      return &kE4M3FNUZ;
    case PrimitiveType::kF4E2M1FN:
      return &kE2M1FN;
    case PrimitiveType::kF8E8M0FNU:
      return &kE8M0FNU;
    default:
      return nullptr;
  }
}

constexpr std::array<NumberFormat, 35> make_formats() {
  using enum NumberKind;
  std::array<NumberFormat, 35> table{};
  for (NumberFormat& format : table) format.name = "invalid";
  const auto set = [&](PrimitiveType type, NumberFormat format) {
    table[static_cast<size_t>(type)] = format;
  };
  set(PrimitiveType::kPred, {"pred", kPred, 8, 1, 0});
  set(PrimitiveType::kS1, {"s1", kSigned, 1, 1, 0});
  set(PrimitiveType::kS2, {"s2", kSigned, 2, 1, 0});
  set(PrimitiveType::kS4, {"s4", kSigned, 4, 1, 0});
  set(PrimitiveType::kS8, {"s8", kSigned, 8, 1, 0});
  set(PrimitiveType::kS16, {"s16", kSigned, 16, 2, 0});
  set(PrimitiveType::kS32, {"s32", kSigned, 32, 4, 0});
  set(PrimitiveType::kS64, {"s64", kSigned, 64, 8, 0});
  set(PrimitiveType::kU1, {"u1", kUnsigned, 1, 1, 0});
  set(PrimitiveType::kU2, {"u2", kUnsigned, 2, 1, 0});
  set(PrimitiveType::kU4, {"u4", kUnsigned, 4, 1, 0});
  set(PrimitiveType::kU8, {"u8", kUnsigned, 8, 1, 0});
  set(PrimitiveType::kU16, {"u16", kUnsigned, 16, 2, 0});
  set(PrimitiveType::kU32, {"u32", kUnsigned, 32, 4, 0});
  set(PrimitiveType::kU64, {"u64", kUnsigned, 64, 8, 0});
  set(PrimitiveType::kF16, {"f16", kFloat, 16, 2, 11});
  set(PrimitiveType::kBF16, {"bf16", kFloat, 16, 2, 8});
  set(PrimitiveType::kF32, {"f32", kFloat, 32, 4, 24});
  set(PrimitiveType::kF64, {"f64", kFloat, 64, 8, 53});
  set(PrimitiveType::kC64, {"c64", kComplex, 64, 8, 24});
  set(PrimitiveType::kC128, {"c128", kComplex, 128, 16, 53});
  set(PrimitiveType::kF8E5M2, {"f8e5m2", kFloat, 8, 1, 3});
  set(PrimitiveType::kF8E4M3, {"f8e4m3", kFloat, 8, 1, 4});
  set(PrimitiveType::kF8E3M4, {"f8e3m4", kFloat, 8, 1, 5});
  set(PrimitiveType::kF8E4M3FN, {"f8e4m3fn", kFloat, 8, 1, 4});
  set(PrimitiveType::kF8E4M3B11FNUZ, {"f8e4m3b11fnuz", kFloat, 8, 1, 4});
  set(PrimitiveType::kF8E5M2FNUZ, {"f8e5m2fnuz", kFloat, 8, 1, 3});
  set(PrimitiveType::kF8E4M3FNUZ, {"f8e4m3fnuz", kFloat, 8, 1, 4});
  set(PrimitiveType::kF4E2M1FN, {"f4e2m1fn", kFloat, 4, 1, 2});
  set(PrimitiveType::kF8E8M0FNU, {"f8e8m0fnu", kFloat, 8, 1, 1});
  return table;
}

constexpr std::array<NumberFormat, 35> kFormats = make_formats();

template <typename T>
T load(const void* bytes, int part = 0) {
  T value;
  std::memcpy(&value, static_cast<const char*>(bytes) + part * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(T value, void* bytes, int part = 0) {
  std::memcpy(static_cast<char*>(bytes) + part * sizeof(T), &value, sizeof(T));
}

template <typename T>
void store_saturated(double value, int bits, bool is_signed, void* bytes) {
  const double low = is_signed ? -std::ldexp(1.0, bits - 1) : 0.0;
  const double high = std::ldexp(1.0, is_signed ? bits - 1 : bits);  // the first value too large
  const double rounded = std::isnan(value) ? 0.0 : std::nearbyint(value);
  T stored;
  if (rounded < low) {
    stored = static_cast<T>(low);
  } else if (rounded >= high) {
    stored = bits == static_cast<int>(8 * sizeof(T)) ? std::numeric_limits<T>::max()
                                                     : static_cast<T>(high - 1);
  } else {
    stored = static_cast<T>(rounded);
  }
  store(stored, bytes);
}

}  // namespace

const NumberFormat& number_format(PrimitiveType type) {
  const auto index = static_cast<size_t>(type);
  return kFormats[index < kFormats.size() ? index : 0];
}

double decode_number(PrimitiveType type, const void* bytes, int part) {
  switch (type) {
    case PrimitiveType::kPred:
      return load<uint8_t>(bytes) != 0 ? 1.0 : 0.0;
    case PrimitiveType::kS1:
    case PrimitiveType::kS2:
    case PrimitiveType::kS4:
    case PrimitiveType::kS8:
      return load<int8_t>(bytes);
    case PrimitiveType::kS16:
      return load<int16_t>(bytes);
    case PrimitiveType::kS32:
      return load<int32_t>(bytes);
    case PrimitiveType::kS64:
      return static_cast<double>(load<int64_t>(bytes));
    case PrimitiveType::kU1:
    case PrimitiveType::kU2:
    case PrimitiveType::kU4:
    case PrimitiveType::kU8:
      return load<uint8_t>(bytes);
    case PrimitiveType::kU16:
      return load<uint16_t>(bytes);
    case PrimitiveType::kU32:
      return load<uint32_t>(bytes);
    case PrimitiveType::kU64:
      return static_cast<double>(load<uint64_t>(bytes));
    case PrimitiveType::kF32:
      return load<float>(bytes);
    case PrimitiveType::kF64:
      return load<double>(bytes);
    case PrimitiveType::kC64:
      return load<float>(bytes, part);
    case PrimitiveType::kC128:
      return load<double>(bytes, part);
    default:
      break;
  }
  const SmallFloat* format = small_float(type);
  if (format == nullptr) return 0;
  return format->decode(number_format(type).bytes == 2 ? load<uint16_t>(bytes)
                                                       : load<uint8_t>(bytes));
}

void encode_number(PrimitiveType type, double value, void* bytes, double imaginary) {
  const NumberFormat& format = number_format(type);
  if (const SmallFloat* small = small_float(type)) {
    const uint32_t bits = small->encode(value);
    if (format.bytes == 2) {
      store(static_cast<uint16_t>(bits), bytes);
    } else {
      store(static_cast<uint8_t>(bits), bytes);
    }
    return;
  }
  switch (type) {
    case PrimitiveType::kPred:
      store<uint8_t>(value != 0 ? 1 : 0, bytes);
      return;
    case PrimitiveType::kS16:
      store_saturated<int16_t>(value, 16, true, bytes);
      return;
    case PrimitiveType::kS32:
      store_saturated<int32_t>(value, 32, true, bytes);
      return;
    case PrimitiveType::kS64:
      store_saturated<int64_t>(value, 64, true, bytes);
      return;
    case PrimitiveType::kU16:
      store_saturated<uint16_t>(value, 16, false, bytes);
      return;
    case PrimitiveType::kU32:
      store_saturated<uint32_t>(value, 32, false, bytes);
      return;
    case PrimitiveType::kU64:
      store_saturated<uint64_t>(value, 64, false, bytes);
      return;
    case PrimitiveType::kF32:
      store(static_cast<float>(value), bytes);
      return;
    case PrimitiveType::kF64:
      store(value, bytes);
      return;
    case PrimitiveType::kC64:
      store(static_cast<float>(value), bytes, 0);
      store(static_cast<float>(imaginary), bytes, 1);
      return;
    case PrimitiveType::kC128:
      store(value, bytes, 0);
      store(imaginary, bytes, 1);
      return;
    default:
      break;
  }
  if (format.kind == NumberKind::kSigned) store_saturated<int8_t>(value, format.bits, true, bytes);
  if (format.kind == NumberKind::kUnsigned) {
    store_saturated<uint8_t>(value, format.bits, false, bytes);
  }
}

}  // namespace lagom

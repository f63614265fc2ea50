#include "lagom/hlo/literal.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace lagom::hlo {
namespace {

/// A small binary floating-point format: sign, exponent, mantissa, from the most significant bit.
struct MiniFloat {
  int exponent_bits, mantissa_bits, bias;
  enum class Special { kIeee, kFiniteNan, kUnsignedZero, kNone } special;
};

/// Formats by element type (OCP 8-bit formats, MX formats; xla_data.proto's list).
bool mini_float(ElementType type, MiniFloat& format) {
  using S = MiniFloat::Special;
  switch (type) {
    case ElementType::kF16: format = {5, 10, 15, S::kIeee}; return true;
    case ElementType::kF8E5M2: format = {5, 2, 15, S::kIeee}; return true;
    case ElementType::kF8E4M3: format = {4, 3, 7, S::kIeee}; return true;
    case ElementType::kF8E3M4: format = {3, 4, 3, S::kIeee}; return true;
    case ElementType::kF8E4M3FN: format = {4, 3, 7, S::kFiniteNan}; return true;
    case ElementType::kF8E4M3B11FNUZ: format = {4, 3, 11, S::kUnsignedZero}; return true;
    case ElementType::kF8E5M2FNUZ: format = {5, 2, 16, S::kUnsignedZero}; return true;
    case ElementType::kF8E4M3FNUZ: format = {4, 3, 8, S::kUnsignedZero}; return true;
    case ElementType::kF4E2M1FN: format = {2, 1, 1, S::kNone}; return true;
    default: return false;
  }
}

double decode_mini(const MiniFloat& f, uint32_t bits) {
  using S = MiniFloat::Special;
  const int width = 1 + f.exponent_bits + f.mantissa_bits;
  const uint32_t max_exponent = (1u << f.exponent_bits) - 1;
  const uint32_t mantissa_mask = (1u << f.mantissa_bits) - 1;
  const bool negative = (bits >> (width - 1)) & 1;
  const uint32_t exponent = (bits >> f.mantissa_bits) & max_exponent;
  const uint32_t mantissa = bits & mantissa_mask;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (f.special == S::kUnsignedZero && negative && exponent == 0 && mantissa == 0) return nan;
  if (f.special == S::kFiniteNan && exponent == max_exponent && mantissa == mantissa_mask) {
    return negative ? -nan : nan;
  }
  if (f.special == S::kIeee && exponent == max_exponent) {
    const double value = mantissa ? nan : std::numeric_limits<double>::infinity();
    return negative ? -value : value;
  }
  const double significand = exponent == 0 ? mantissa : mantissa + (1u << f.mantissa_bits);
  const int power = (exponent == 0 ? 1 : static_cast<int>(exponent)) - f.bias - f.mantissa_bits;
  const double magnitude = std::ldexp(significand, power);
  return negative ? -magnitude : magnitude;
}

uint32_t encode_mini(const MiniFloat& f, double value) {
  using S = MiniFloat::Special;
  const int width = 1 + f.exponent_bits + f.mantissa_bits;
  const uint32_t max_exponent = (1u << f.exponent_bits) - 1;
  const uint32_t mantissa_mask = (1u << f.mantissa_bits) - 1;
  const uint32_t sign = std::signbit(value) ? 1u << (width - 1) : 0;
  const uint32_t ieee_nan =
      (max_exponent << f.mantissa_bits) | (1u << (f.mantissa_bits - 1));
  if (std::isnan(value)) {
    switch (f.special) {
      case S::kIeee: return sign | ieee_nan;
      case S::kFiniteNan: return sign | (max_exponent << f.mantissa_bits) | mantissa_mask;
      case S::kUnsignedZero: return 1u << (width - 1);
      case S::kNone: return sign;
    }
  }
  uint32_t largest = (max_exponent << f.mantissa_bits) | mantissa_mask;
  if (f.special == S::kIeee) largest = (max_exponent << f.mantissa_bits) - 1;
  if (f.special == S::kFiniteNan) largest -= 1;
  uint32_t magnitude;
  const double absolute = std::fabs(value);
  if (std::isinf(value)) {
    magnitude = largest + 1;
  } else if (absolute == 0) {
    return f.special == S::kUnsignedZero ? 0 : sign;
  } else {
    int exponent = std::max(std::ilogb(absolute), 1 - f.bias);
    // Round to nearest even at the format's precision; a carry moves into the exponent by itself.
    const double scaled = std::nearbyint(std::ldexp(absolute, f.mantissa_bits - exponent));
    if (scaled >= std::ldexp(1.0, 30)) {
      magnitude = largest + 1;
    } else {
      const int64_t biased = exponent + f.bias;
      const int64_t whole = static_cast<int64_t>(scaled) + ((biased - 1) << f.mantissa_bits);
      magnitude = whole > int64_t{largest} ? largest + 1 : static_cast<uint32_t>(whole);
    }
  }
  if (magnitude > largest) {
    switch (f.special) {
      case S::kIeee: magnitude = max_exponent << f.mantissa_bits; break;
      case S::kFiniteNan: magnitude = largest + 1; break;
      case S::kUnsignedZero: return 1u << (width - 1);
      case S::kNone: magnitude = largest; break;
    }
  }
  if (magnitude == 0 && f.special == S::kUnsignedZero) return 0;
  return sign | magnitude;
}

template <typename T>
T load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <typename T>
void store(char* bytes, T value) {
  std::memcpy(bytes, &value, sizeof value);
}

/// Saturating conversion, NaN to 0: what a text such as 300 for an s8 should not do silently is
/// checked by the reader before it comes here.
template <typename T>
T to_integer(double value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::min();
  }
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) {
    return std::numeric_limits<T>::max();
  }
  return static_cast<T>(value);
}

}  // namespace

double decode_element(ElementType type, const char* bytes) {
  MiniFloat format;
  if (mini_float(type, format)) {
    const uint32_t bits =
        type == ElementType::kF16 ? load<uint16_t>(bytes) : load<uint8_t>(bytes);
    return decode_mini(format, bits);
  }
  switch (type) {
    case ElementType::kPred: return bytes[0] != 0;
    case ElementType::kS1:
    case ElementType::kS2:
    case ElementType::kS4:
    case ElementType::kS8: return load<int8_t>(bytes);
    case ElementType::kS16: return load<int16_t>(bytes);
    case ElementType::kS32: return load<int32_t>(bytes);
    case ElementType::kS64: return static_cast<double>(load<int64_t>(bytes));
    case ElementType::kU1:
    case ElementType::kU2:
    case ElementType::kU4:
    case ElementType::kU8: return load<uint8_t>(bytes);
    case ElementType::kU16: return load<uint16_t>(bytes);
    case ElementType::kU32: return load<uint32_t>(bytes);
    case ElementType::kU64: return static_cast<double>(load<uint64_t>(bytes));
    case ElementType::kF32:
    case ElementType::kC64: return load<float>(bytes);
    case ElementType::kF64:
    case ElementType::kC128: return load<double>(bytes);
    case ElementType::kBF16: {
      const uint32_t bits = uint32_t{load<uint16_t>(bytes)} << 16;
      return load<float>(reinterpret_cast<const char*>(&bits));
    }
    case ElementType::kF8E8M0FNU: {
      const uint8_t bits = load<uint8_t>(bytes);
      return bits == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, bits - 127);
    }
    default:
      throw std::invalid_argument("decode_element: type " +
                                  std::string(element_type_name(type)) + " has no values");
  }
}

void encode_element(ElementType type, double value, char* bytes) {
  MiniFloat format;
  if (mini_float(type, format)) {
    const uint32_t bits = encode_mini(format, value);
    if (type == ElementType::kF16) {
      store(bytes, static_cast<uint16_t>(bits));
    } else {
      store(bytes, static_cast<uint8_t>(bits));
    }
    return;
  }
  switch (type) {
    case ElementType::kPred: bytes[0] = value != 0; return;
    case ElementType::kS1:
    case ElementType::kS2:
    case ElementType::kS4:
    case ElementType::kS8: return store(bytes, to_integer<int8_t>(value));
    case ElementType::kS16: return store(bytes, to_integer<int16_t>(value));
    case ElementType::kS32: return store(bytes, to_integer<int32_t>(value));
    case ElementType::kS64: return store(bytes, to_integer<int64_t>(value));
    case ElementType::kU1:
    case ElementType::kU2:
    case ElementType::kU4:
    case ElementType::kU8: return store(bytes, to_integer<uint8_t>(value));
    case ElementType::kU16: return store(bytes, to_integer<uint16_t>(value));
    case ElementType::kU32: return store(bytes, to_integer<uint32_t>(value));
    case ElementType::kU64: return store(bytes, to_integer<uint64_t>(value));
    case ElementType::kF32: return store(bytes, static_cast<float>(value));
    case ElementType::kF64: return store(bytes, value);
    case ElementType::kC64:
      store(bytes, static_cast<float>(value));
      return store(bytes + 4, 0.0f);
    case ElementType::kC128:
      store(bytes, value);
      return store(bytes + 8, 0.0);
    case ElementType::kBF16: {
      const float narrow = static_cast<float>(value);
      uint32_t bits = load<uint32_t>(reinterpret_cast<const char*>(&narrow));
      if (std::isnan(narrow)) {
        bits |= 0x400000;
      } else {
        bits += 0x7fff + ((bits >> 16) & 1);
      }
      return store(bytes, static_cast<uint16_t>(bits >> 16));
    }
    case ElementType::kF8E8M0FNU: {
      const double exponent = value > 0 ? std::nearbyint(std::log2(value)) + 127 : 0;
      return store(bytes, static_cast<uint8_t>(std::isnan(value) || value < 0
                                                   ? 255
                                                   : std::min(254.0, std::max(0.0, exponent))));
    }
    default:
      throw std::invalid_argument("encode_element: type " +
                                  std::string(element_type_name(type)) + " has no values");
  }
}

Literal Literal::from_values(Shape shape, const std::vector<double>& values) {
  Literal literal;
  const int64_t n = shape.num_elements();
  if (static_cast<int64_t>(values.size()) != n) {
    throw std::invalid_argument("Literal: expected " + std::to_string(n) + " values for " +
                                shape.to_string() + ", got " + std::to_string(values.size()));
  }
  const int width = element_bytes(shape.element_type);
  literal.data.resize(static_cast<size_t>(n * width));
  const Dims order = shape.minor_to_major();
  Dims stride(shape.dimensions.size(), 1);
  int64_t step = 1;
  for (const int64_t d : order) {
    stride[static_cast<size_t>(d)] = step;
    step *= shape.dimensions[static_cast<size_t>(d)];
  }
  Dims index(shape.dimensions.size(), 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < n; ++i) {
    encode_element(shape.element_type, values[static_cast<size_t>(i)],
                   literal.data.data() + offset * width);
    for (size_t d = index.size(); d-- > 0;) {
      offset += stride[d];
      if (++index[d] < shape.dimensions[d]) break;
      offset -= stride[d] * shape.dimensions[d];
      index[d] = 0;
    }
  }
  literal.shape = std::move(shape);
  return literal;
}

Literal Literal::scalar(ElementType type, double value) {
  return from_values(Shape::scalar(type), {value});
}

double Literal::value_at(int64_t linear_index) const {
  return decode_element(shape.element_type,
                        data.data() + linear_index * element_bytes(shape.element_type));
}

std::vector<double> Literal::row_major_values() const {
  const int64_t n = shape.num_elements();
  const Dims order = shape.minor_to_major();
  Dims stride(shape.dimensions.size(), 1);
  int64_t step = 1;
  for (const int64_t d : order) {
    stride[static_cast<size_t>(d)] = step;
    step *= shape.dimensions[static_cast<size_t>(d)];
  }
  std::vector<double> values(static_cast<size_t>(n));
  Dims index(shape.dimensions.size(), 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < n; ++i) {
    values[static_cast<size_t>(i)] = value_at(offset);
    for (size_t d = index.size(); d-- > 0;) {
      offset += stride[d];
      if (++index[d] < shape.dimensions[d]) break;
      offset -= stride[d] * shape.dimensions[d];
      index[d] = 0;
    }
  }
  return values;
}

bool Literal::all_equal(double value) const {
  if (elided || !shape.is_array()) return false;
  const int64_t n = shape.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    if (value_at(i) != value) return false;
  }
  return true;
}

}  // namespace lagom::hlo

#pragma once

// What each element-wise operation does to its numbers, for loops over arrays and for scalar
// functions alike. Private to lagom/hlo.
//
// A visitor is called with a function without state, double(double..., NumberType), so that a loop
// can be compiled around it and its address can be kept. The functions return false, without a
// call, for what they do not know.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "lagom/hlo/evaluator_detail.h"

namespace lagom::hlo::evaluation {

// ---- whole numbers of a width ----

inline constexpr double kTwoTo63 = 0x1p63;

/// Two's complement, 64 bits; numbers outside saturate.
inline uint64_t to_bits(double value, NumberType type) {
  if (!type.is_signed && value >= kTwoTo63) {
    return value >= 2 * kTwoTo63 ? ~uint64_t{0} : static_cast<uint64_t>(value);
  }
  if (value >= kTwoTo63) return static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (value < -kTwoTo63) return uint64_t{1} << 63;
  return static_cast<uint64_t>(static_cast<int64_t>(value));
}

/// The low bits, read as a number of the type.
inline double from_bits(uint64_t bits, NumberType type) {
  const int unused = 64 - type.bits;
  if (type.is_signed) return static_cast<double>(static_cast<int64_t>(bits << unused) >> unused);
  return static_cast<double>(bits << unused >> unused);
}

inline double smallest(NumberType type) {
  return type.is_signed ? -std::ldexp(1.0, type.bits - 1) : 0;
}
inline double largest(NumberType type) {
  return std::ldexp(1.0, type.is_signed ? type.bits - 1 : type.bits) - 1;
}

/// A whole number modulo 2^bits.
inline double wrap(double value, NumberType type) {
  if (std::fabs(value) < kTwoTo63) {
    return from_bits(static_cast<uint64_t>(static_cast<int64_t>(value)), type);
  }
  return from_bits(static_cast<uint64_t>(static_cast<__int128>(value)), type);
}

inline double saturate(double value, NumberType type) {
  if (std::isnan(value)) return 0;
  const double whole = std::trunc(value);
  if (whole <= smallest(type)) return smallest(type);
  return whole >= largest(type) ? largest(type) : whole;
}

inline double whole_quotient(double a, double b, NumberType type) {
  if (b == 0) return from_bits(~uint64_t{0}, type);
  return wrap(std::trunc(a / b), type);
}

/// a * b modulo 2^bits.
inline double whole_product(double a, double b, NumberType type) {
  const double product = a * b;
  if (std::fabs(product) < 0x1p53) return wrap(product, type);
  return from_bits(to_bits(a, type) * to_bits(b, type), type);
}

inline double whole_power(double base, double exponent, NumberType type) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return std::fmod(exponent, 2) == 0 ? 1 : -1;
    return 0;
  }
  double result = 1;
  for (auto left = static_cast<uint64_t>(exponent); left > 0; left >>= 1) {
    if ((left & 1) != 0) result = whole_product(result, base, type);
    base = whole_product(base, base, type);
  }
  return result;
}

// ---- floats ----

inline double larger(double a, double b) {
  return std::isnan(a) || a > b ? a : b;  // NaN of either side stays
}
inline double smaller(double a, double b) {
  return std::isnan(a) || a < b ? a : b;
}

/// A whole number ordered as the doubles are, -NaN < -inf < ... < -0 < +0 < ... < inf < NaN.
inline int64_t total_order(double value) {
  const auto bits = std::bit_cast<int64_t>(value);
  return bits < 0 ? std::numeric_limits<int64_t>::min() - bits - 1 : bits;
}

// ---- the operations ----

template <typename Visitor>
bool visit_unary(Opcode opcode, ElementType from, ElementType to, Visitor&& visit) {
  using T = NumberType;
  const bool is_float = is_floating(from);
  switch (opcode) {
    case Opcode::kConvert:
      if (to == ElementType::kPred) {
        visit([](double a, T) { return a != 0 ? 1.0 : 0.0; });
      } else if (is_integer(to) && is_float) {
        visit([](double a, T t) { return saturate(a, t); });
      } else if (is_integer(to)) {
        visit([](double a, T t) { return wrap(a, t); });
      } else {
        visit([](double a, T) { return a; });
      }
      return true;
    case Opcode::kCopy:
      visit([](double a, T) { return a; });
      return true;
    case Opcode::kAbs:
      if (is_float) {
        visit([](double a, T) { return std::fabs(a); });
      } else {
        visit([](double a, T t) { return wrap(std::fabs(a), t); });
      }
      return true;
    case Opcode::kNegate:
      if (is_float) {
        visit([](double a, T) { return -a; });
      } else {
        visit([](double a, T t) { return wrap(-a, t); });
      }
      return true;
    case Opcode::kNot:
      if (from == ElementType::kPred) {
        visit([](double a, T) { return a == 0 ? 1.0 : 0.0; });
      } else {
        visit([](double a, T t) { return from_bits(~to_bits(a, t), t); });
      }
      return true;
    case Opcode::kSign:
      visit([](double a, T) { return a > 0 ? 1.0 : a < 0 ? -1.0 : a; });
      return true;
    case Opcode::kPopulationCount:
      visit([](double a, T t) {
        return static_cast<double>(std::popcount(to_bits(a, t) << (64 - t.bits)));
      });
      return true;
    case Opcode::kCountLeadingZeros:
      visit([](double a, T t) {
        return static_cast<double>(
            std::min(std::countl_zero(to_bits(a, t) << (64 - t.bits)), t.bits));
      });
      return true;
    case Opcode::kIsFinite:
      visit([](double a, T) { return std::isfinite(a) ? 1.0 : 0.0; });
      return true;
    case Opcode::kAcos:
      visit([](double a, T) { return std::acos(a); });
      return true;
    case Opcode::kAcosh:
      visit([](double a, T) { return std::acosh(a); });
      return true;
    case Opcode::kAsin:
      visit([](double a, T) { return std::asin(a); });
      return true;
    case Opcode::kAsinh:
      visit([](double a, T) { return std::asinh(a); });
      return true;
    case Opcode::kAtanh:
      visit([](double a, T) { return std::atanh(a); });
      return true;
    case Opcode::kCbrt:
      visit([](double a, T) { return std::cbrt(a); });
      return true;
    case Opcode::kCeil:
      visit([](double a, T) { return std::ceil(a); });
      return true;
    case Opcode::kCosh:
      visit([](double a, T) { return std::cosh(a); });
      return true;
    case Opcode::kCosine:
      visit([](double a, T) { return std::cos(a); });
      return true;
    case Opcode::kErf:
      visit([](double a, T) { return std::erf(a); });
      return true;
    case Opcode::kExp:
      visit([](double a, T) { return std::exp(a); });
      return true;
    case Opcode::kExpm1:
      visit([](double a, T) { return std::expm1(a); });
      return true;
    case Opcode::kFloor:
      visit([](double a, T) { return std::floor(a); });
      return true;
    case Opcode::kLog:
      visit([](double a, T) { return std::log(a); });
      return true;
    case Opcode::kLog1p:
      visit([](double a, T) { return std::log1p(a); });
      return true;
    case Opcode::kLogistic:
      visit([](double a, T) { return 1 / (1 + std::exp(-a)); });
      return true;
    case Opcode::kRoundNearestAfz:
      visit([](double a, T) { return std::round(a); });
      return true;
    case Opcode::kRoundNearestEven:
      visit([](double a, T) { return std::nearbyint(a); });
      return true;
    case Opcode::kRsqrt:
      visit([](double a, T) { return 1 / std::sqrt(a); });
      return true;
    case Opcode::kSine:
      visit([](double a, T) { return std::sin(a); });
      return true;
    case Opcode::kSinh:
      visit([](double a, T) { return std::sinh(a); });
      return true;
    case Opcode::kSqrt:
      visit([](double a, T) { return std::sqrt(a); });
      return true;
    case Opcode::kTan:
      visit([](double a, T) { return std::tan(a); });
      return true;
    case Opcode::kTanh:
      visit([](double a, T) { return std::tanh(a); });
      return true;
    default:
      return false;
  }
}

/// Operations whose loops are worth compiling one by one: reducers, too. By operand type.
template <typename Visitor>
bool visit_reducer(Opcode opcode, ElementType type, Visitor&& visit) {
  using T = NumberType;
  const bool is_float = is_floating(type);
  const bool is_pred = type == ElementType::kPred;
  switch (opcode) {
    case Opcode::kAdd:
      if (is_float) {
        visit([](double a, double b, T) { return a + b; });
      } else if (is_pred) {
        visit([](double a, double b, T) { return a + b > 0 ? 1.0 : 0.0; });
      } else {
        visit([](double a, double b, T t) { return wrap(a + b, t); });
      }
      return true;
    case Opcode::kMultiply:
      if (is_float || is_pred) {
        visit([](double a, double b, T) { return a * b; });
      } else {
        visit([](double a, double b, T t) { return whole_product(a, b, t); });
      }
      return true;
    case Opcode::kMaximum:
      visit([](double a, double b, T) { return larger(a, b); });
      return true;
    case Opcode::kMinimum:
      visit([](double a, double b, T) { return smaller(a, b); });
      return true;
    case Opcode::kAnd:
      visit([](double a, double b, T t) { return from_bits(to_bits(a, t) & to_bits(b, t), t); });
      return true;
    case Opcode::kOr:
      visit([](double a, double b, T t) { return from_bits(to_bits(a, t) | to_bits(b, t), t); });
      return true;
    default:
      return false;
  }
}

/// By operand type, not kCompare.
template <typename Visitor>
bool visit_binary(Opcode opcode, ElementType type, Visitor&& visit) {
  using T = NumberType;
  if (visit_reducer(opcode, type, visit)) return true;
  const bool is_float = is_floating(type);
  switch (opcode) {
    case Opcode::kSubtract:
      if (is_float) {
        visit([](double a, double b, T) { return a - b; });
      } else {
        visit([](double a, double b, T t) { return wrap(a - b, t); });
      }
      return true;
    case Opcode::kDivide:
      if (is_float) {
        visit([](double a, double b, T) { return a / b; });
      } else {
        visit([](double a, double b, T t) { return whole_quotient(a, b, t); });
      }
      return true;
    case Opcode::kRemainder:
      if (is_float) {
        visit([](double a, double b, T) { return std::fmod(a, b); });
      } else {
        visit([](double a, double b, T) { return b == 0 ? a : std::fmod(a, b) + 0.0; });
      }
      return true;
    case Opcode::kPower:
      if (is_float) {
        visit([](double a, double b, T) { return std::pow(a, b); });
      } else {
        visit([](double a, double b, T t) { return whole_power(a, b, t); });
      }
      return true;
    case Opcode::kAtan2:
      visit([](double a, double b, T) { return std::atan2(a, b); });
      return true;
    case Opcode::kXor:
      visit([](double a, double b, T t) { return from_bits(to_bits(a, t) ^ to_bits(b, t), t); });
      return true;
    case Opcode::kShiftLeft:
      visit([](double a, double b, T t) {
        return b < 0 || b >= t.bits ? 0 : from_bits(to_bits(a, t) << static_cast<int>(b), t);
      });
      return true;
    case Opcode::kShiftRightLogical:
      visit([](double a, double b, T t) {
        if (b < 0 || b >= t.bits) return 0.0;
        const int unused = 64 - t.bits;
        return from_bits(to_bits(a, t) << unused >> unused >> static_cast<int>(b), t);
      });
      return true;
    case Opcode::kShiftRightArithmetic:
      visit([](double a, double b, T t) {
        const int unused = 64 - t.bits;
        const auto value = static_cast<int64_t>(to_bits(a, t) << unused) >> unused;
        const int places = b < 0 || b >= t.bits ? 63 : static_cast<int>(b);
        return from_bits(static_cast<uint64_t>(value >> places), t);
      });
      return true;
    default:
      return false;
  }
}

template <typename Visitor>
bool visit_compare(const Attributes& attributes, Visitor&& visit) {
  using T = NumberType;
  const std::string& direction = attributes.comparison_direction;
  if (attributes.comparison_type == "TOTALORDER") {
    if (direction == "LT") {
      visit([](double a, double b, T) { return double(total_order(a) < total_order(b)); });
    } else if (direction == "LE") {
      visit([](double a, double b, T) { return double(total_order(a) <= total_order(b)); });
    } else if (direction == "GT") {
      visit([](double a, double b, T) { return double(total_order(a) > total_order(b)); });
    } else if (direction == "GE") {
      visit([](double a, double b, T) { return double(total_order(a) >= total_order(b)); });
    } else if (direction == "EQ") {
      visit([](double a, double b, T) { return double(total_order(a) == total_order(b)); });
    } else {
      visit([](double a, double b, T) { return double(total_order(a) != total_order(b)); });
    }
    return true;
  }
  if (direction == "LT") {
    visit([](double a, double b, T) { return double(a < b); });
  } else if (direction == "LE") {
    visit([](double a, double b, T) { return double(a <= b); });
  } else if (direction == "GT") {
    visit([](double a, double b, T) { return double(a > b); });
  } else if (direction == "GE") {
    visit([](double a, double b, T) { return double(a >= b); });
  } else if (direction == "EQ") {
    visit([](double a, double b, T) { return double(a == b); });
  } else {
    visit([](double a, double b, T) { return double(a != b); });
  }
  return true;
}

/// Any instruction of two operands.
template <typename Visitor>
bool visit_binary_instruction(const Instruction& i, Visitor&& visit) {
  if (i.opcode == Opcode::kCompare) return visit_compare(i.attributes, visit);
  return visit_binary(i.opcode, i.operand(0).shape.element_type, visit);
}

}  // namespace lagom::hlo::evaluation

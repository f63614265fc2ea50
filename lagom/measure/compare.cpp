#include "lagom/measure/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "lagom/util/hash.h"

namespace lagom::measure {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

// Calls visit(begin, doubles...) for blocks of values, so that one loop serves every type.
class Decoder {
 public:
  explicit Decoder(PrimitiveType type)
      : type_(type),
        parts_(number_format(type).is_complex() ? 2 : 1),
        width_(static_cast<size_t>(number_format(type).bytes)) {
    // A table of all values makes 8- and 16-bit types nearly as fast as the others.
    if (number_format(type).is_float() && width_ <= 2 && type != PrimitiveType::kBF16) {
      table_.resize(size_t{1} << (8 * width_));
      for (size_t bits = 0; bits < table_.size(); ++bits) {
        table_[bits] = decode_number(type, &bits);
      }
    }
  }
  int64_t count(std::string_view bytes) const {
    return width_ == 0 ? 0 : static_cast<int64_t>(bytes.size() / width_ * parts_);
  }
  void decode(std::string_view bytes, int64_t begin, int64_t n, double* out) const {
    if (type_ == PrimitiveType::kF32 || type_ == PrimitiveType::kC64) {
      convert<float>(bytes, begin, n, out);
    } else if (type_ == PrimitiveType::kF64 || type_ == PrimitiveType::kC128) {
      convert<double>(bytes, begin, n, out);
    } else if (type_ == PrimitiveType::kBF16) {
      // The upper half of an f32.
      for (int64_t i = 0; i < n; ++i) {
        uint16_t bits = 0;
        std::memcpy(&bits, bytes.data() + static_cast<size_t>(begin + i) * 2, sizeof bits);
        out[i] = std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
      }
    } else if (!table_.empty()) {
      for (int64_t i = 0; i < n; ++i) {
        size_t bits = 0;
        std::memcpy(&bits, bytes.data() + static_cast<size_t>(begin + i) * width_, width_);
        out[i] = table_[bits];
      }
    } else {
      for (int64_t i = 0; i < n; ++i) {
        out[i] = decode_number(type_, bytes.data() + static_cast<size_t>(begin + i) * width_);
      }
    }
  }

 private:
  template <typename T>
  static void convert(std::string_view bytes, int64_t begin, int64_t n, double* out) {
    for (int64_t i = 0; i < n; ++i) {
      T value;
      std::memcpy(&value, bytes.data() + static_cast<size_t>(begin + i) * sizeof(T), sizeof(T));
      out[i] = value;
    }
  }

  PrimitiveType type_;
  size_t parts_;
  size_t width_;
  std::vector<double> table_;
};

constexpr int64_t kBlock = 1024;

void compare_values(double reference, double candidate, int64_t index, OutputComparison* result) {
  if (std::isfinite(reference)) {
    result->max_abs_reference = std::max(result->max_abs_reference, std::abs(reference));
  }
  if (reference == candidate) return;
  const bool reference_nan = std::isnan(reference);
  const bool candidate_nan = std::isnan(candidate);
  if (reference_nan && candidate_nan) return;
  ++result->mismatches;
  if (reference_nan != candidate_nan) {
    ++result->nan_mismatches;
  } else if (std::isinf(reference) || std::isinf(candidate)) {
    ++result->infinity_mismatches;
  } else if (std::abs(reference - candidate) > result->max_abs_difference) {
    result->max_abs_difference = std::abs(reference - candidate);
    result->worst_index = index;
  }
}

// The smallest positive normal value.
double smallest_normal(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kF16:
      return std::ldexp(1.0, -14);
    case PrimitiveType::kF32:
    case PrimitiveType::kC64:
    case PrimitiveType::kBF16:
      return std::numeric_limits<float>::min();
    case PrimitiveType::kF64:
    case PrimitiveType::kC128:
      return std::numeric_limits<double>::min();
    default:
      return 0;
  }
}

double tolerance_floor(PrimitiveType type) {
  const int bits = number_format(type).significand_bits;
  if (bits >= 53) return 1e-9;
  if (bits >= 24) return 1e-5;
  return std::ldexp(bits >= 8 ? 4.0 : 2.0, -bits);
}

}  // namespace

double OutputComparison::relative_error() const {
  if (max_abs_difference == 0) return 0;
  return max_abs_difference / max_abs_reference;
}

double OutputComparison::difference() const {
  const NumberFormat& format = number_format(element_type);
  return format.is_float() || format.is_complex() ? relative_error() : mismatch_share();
}

double OutputComparison::mismatch_share() const {
  return count == 0 ? 0 : static_cast<double>(mismatches) / static_cast<double>(count);
}

OutputComparison compare_output(PrimitiveType type, std::string_view reference,
                                std::string_view candidate) {
  if (reference.size() != candidate.size()) {
    throw std::invalid_argument("compare_output: " + std::to_string(reference.size()) +
                                " against " + std::to_string(candidate.size()) + " bytes");
  }
  const Decoder decoder(type);
  OutputComparison result;
  result.element_type = type;
  result.count = decoder.count(reference);
  double left[kBlock];
  double right[kBlock];
  for (int64_t begin = 0; begin < result.count; begin += kBlock) {
    const int64_t n = std::min(kBlock, result.count - begin);
    decoder.decode(reference, begin, n, left);
    decoder.decode(candidate, begin, n, right);
    for (int64_t i = 0; i < n; ++i) compare_values(left[i], right[i], begin + i, &result);
  }
  return result;
}

Tolerance output_tolerance(PrimitiveType type, const OutputComparison& sensitivity) {
  constexpr double kMargin = 4;
  const NumberFormat& format = number_format(type);
  Tolerance tolerance;
  if (format.is_float() || format.is_complex()) {
    const double floor = tolerance_floor(type);
    double moved = kMargin * sensitivity.relative_error();
    if (std::isnan(moved)) moved = 0;
    tolerance.relative_error = std::max(floor, std::min(moved, kLargestTolerance));
  } else {
    tolerance.mismatch_share = std::min(kMargin * sensitivity.mismatch_share(), 0.5);
  }
  return tolerance;
}

std::string judge_output(const OutputComparison& comparison, const Tolerance& tolerance) {
  if (comparison.nan_mismatches > 0) {
    return "NaN on one side only in " + std::to_string(comparison.nan_mismatches) + " of " +
           std::to_string(comparison.count) + " values";
  }
  if (comparison.infinity_mismatches > 0) {
    return "infinity on one side only in " + std::to_string(comparison.infinity_mismatches) +
           " of " + std::to_string(comparison.count) + " values";
  }
  const NumberFormat& format = number_format(comparison.element_type);
  if (format.is_float() || format.is_complex()) {
    if (comparison.relative_error() <= tolerance.relative_error) return "";
    return "differs by " + number(comparison.max_abs_difference) + " (relative " +
           number(comparison.relative_error()) + ", allowed " + number(tolerance.relative_error) +
           ") at element " + std::to_string(comparison.worst_index);
  }
  if (comparison.mismatch_share() <= tolerance.mismatch_share) return "";
  return std::to_string(comparison.mismatches) + " of " + std::to_string(comparison.count) +
         " whole numbers differ, by up to " + number(comparison.max_abs_difference) +
         " at element " + std::to_string(comparison.worst_index);
}

OutputStatistics output_statistics(PrimitiveType type, std::string_view values) {
  const Decoder decoder(type);
  OutputStatistics result;
  result.count = decoder.count(values);
  result.hash = hash64(values);
  const double normal = smallest_normal(type);
  double sum = 0;
  int64_t finite = 0;
  double block[kBlock];
  for (int64_t begin = 0; begin < result.count; begin += kBlock) {
    const int64_t n = std::min(kBlock, result.count - begin);
    decoder.decode(values, begin, n, block);
    for (int64_t i = 0; i < n; ++i) {
      const double value = block[i];
      if (std::isnan(value)) {
        ++result.num_nan;
      } else if (std::isinf(value)) {
        ++result.num_infinite;
      } else {
        result.min = finite == 0 ? value : std::min(result.min, value);
        result.max = finite == 0 ? value : std::max(result.max, value);
        sum += value;
        ++finite;
        if (value == 0) ++result.num_zero;
        if (value != 0 && std::abs(value) < normal) ++result.num_denormal;
      }
    }
  }
  result.max_abs = std::max(std::abs(result.min), std::abs(result.max));
  result.mean = finite == 0 ? 0 : sum / static_cast<double>(finite);
  return result;
}

}  // namespace lagom::measure

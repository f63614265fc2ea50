#include "lagom/formats/array.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace lagom::formats {
namespace {

static_assert(std::endian::native == std::endian::little);

/// Calls `visit` with a null pointer to the C++ type that stores the element type. Half and complex
/// types go by doubles instead.
template <typename Visitor>
bool visit_native(PrimitiveType type, Visitor&& visit) {
  switch (type) {
    case PrimitiveType::kPred:
    case PrimitiveType::kU8:
      visit(static_cast<uint8_t*>(nullptr));
      return true;
    case PrimitiveType::kS8:
      visit(static_cast<int8_t*>(nullptr));
      return true;
    case PrimitiveType::kS16:
      visit(static_cast<int16_t*>(nullptr));
      return true;
    case PrimitiveType::kS32:
      visit(static_cast<int32_t*>(nullptr));
      return true;
    case PrimitiveType::kS64:
      visit(static_cast<int64_t*>(nullptr));
      return true;
    case PrimitiveType::kU16:
      visit(static_cast<uint16_t*>(nullptr));
      return true;
    case PrimitiveType::kU32:
      visit(static_cast<uint32_t*>(nullptr));
      return true;
    case PrimitiveType::kU64:
      visit(static_cast<uint64_t*>(nullptr));
      return true;
    case PrimitiveType::kF32:
      visit(static_cast<float*>(nullptr));
      return true;
    case PrimitiveType::kF64:
      visit(static_cast<double*>(nullptr));
      return true;
    default:
      return false;
  }
}

template <typename T>
T load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

/// Calls `visit(index, value)` for each element, in the stored type or as a double.
template <typename Visitor>
void for_each_value(const Array& array, Visitor&& visit) {
  const int64_t count = array.num_elements();
  const char* const bytes = array.data.data();
  const bool native = visit_native(array.element_type, [&]<typename T>(T*) {
    for (int64_t i = 0; i < count; ++i) {
      visit(i, load<T>(bytes + static_cast<size_t>(i) * sizeof(T)));
    }
  });
  if (native) return;
  const auto width = static_cast<size_t>(number_format(array.element_type).bytes);
  for (int64_t i = 0; i < count; ++i) {
    visit(i, decode_number(array.element_type, bytes + static_cast<size_t>(i) * width));
  }
}

template <typename T>
[[noreturn]] void refuse(int64_t index, T value, PrimitiveType type) {
  throw std::invalid_argument("value " + std::to_string(value) + " at index " +
                              std::to_string(index) + " does not fit in " +
                              std::string(number_format(type).name));
}

template <typename To, typename From>
To converted(int64_t index, From value) {
  if constexpr (std::is_same_v<To, From> || std::is_floating_point_v<To>) {
    return static_cast<To>(value);
  } else if constexpr (std::is_integral_v<From>) {
    if (!std::in_range<To>(value)) refuse(index, value, primitive_type_of<To>());
    return static_cast<To>(value);
  } else {
    // Powers of two, so exact in a double; NaN fails every comparison.
    const double low = std::is_signed_v<To> ? -std::ldexp(1.0, sizeof(To) * 8 - 1) : 0;
    const double high = std::ldexp(1.0, sizeof(To) * 8 - (std::is_signed_v<To> ? 1 : 0));
    const bool fits = value >= low && value < high && value == std::trunc(value);
    if (!fits) refuse(index, value, primitive_type_of<To>());
    return static_cast<To>(value);
  }
}

}  // namespace

int64_t Array::num_elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

template <typename T>
std::vector<T> values_as(const Array& array) {
  std::vector<T> values(static_cast<size_t>(array.num_elements()));
  if (array.element_type == primitive_type_of<T>()) {
    if (!values.empty()) std::memcpy(values.data(), array.data.data(), values.size() * sizeof(T));
    return values;
  }
  for_each_value(array, [&](int64_t i, auto value) {
    values[static_cast<size_t>(i)] = converted<T>(i, value);
  });
  return values;
}

template std::vector<int8_t> values_as(const Array&);
template std::vector<uint8_t> values_as(const Array&);
template std::vector<int16_t> values_as(const Array&);
template std::vector<uint16_t> values_as(const Array&);
template std::vector<int32_t> values_as(const Array&);
template std::vector<uint32_t> values_as(const Array&);
template std::vector<int64_t> values_as(const Array&);
template std::vector<uint64_t> values_as(const Array&);
template std::vector<float> values_as(const Array&);
template std::vector<double> values_as(const Array&);

ArrayStatistics statistics_of(const Array& array) {
  if (array.num_elements() == 0) return {};
  ArrayStatistics s{.min = std::numeric_limits<double>::infinity(),
                    .max = -std::numeric_limits<double>::infinity(),
                    .sum = 0};
  bool has_nan = false;
  for_each_value(array, [&](int64_t, auto stored) {
    const auto value = static_cast<double>(stored);
    has_nan |= std::isnan(value);
    s.min = std::min(s.min, value);
    s.max = std::max(s.max, value);
    s.sum += value;
  });
  if (has_nan) s.min = s.max = std::numeric_limits<double>::quiet_NaN();
  return s;
}

}  // namespace lagom::formats

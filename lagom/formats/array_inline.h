#pragma once

// Templates of array.h.

#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace lagom::formats {

template <typename T>
constexpr PrimitiveType primitive_type_of() {
  if constexpr (std::is_same_v<T, float>) return PrimitiveType::kF32;
  if constexpr (std::is_same_v<T, double>) return PrimitiveType::kF64;
  constexpr bool is_signed = std::is_signed_v<T>;
  switch (sizeof(T)) {
    case 1:
      return is_signed ? PrimitiveType::kS8 : PrimitiveType::kU8;
    case 2:
      return is_signed ? PrimitiveType::kS16 : PrimitiveType::kU16;
    case 4:
      return is_signed ? PrimitiveType::kS32 : PrimitiveType::kU32;
    default:
      return is_signed ? PrimitiveType::kS64 : PrimitiveType::kU64;
  }
}

template <typename T>
Array Array::of(std::vector<int64_t> shape, const std::vector<T>& values) {
  Array array{.element_type = primitive_type_of<T>(), .shape = std::move(shape), .data = {}};
  if (array.num_elements() != static_cast<int64_t>(values.size())) {
    throw std::invalid_argument("Array: " + std::to_string(values.size()) +
                                " values for a shape of " + std::to_string(array.num_elements()));
  }
  array.data.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(array.data.data(), values.data(), array.data.size());
  return array;
}

}  // namespace lagom::formats

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lagom/util/buffer.h"
#include "lagom/util/primitive_type.h"

namespace lagom::formats {

/// A dense array: row-major, little endian, each value in its type's own bytes.
struct Array {
  PrimitiveType element_type = PrimitiveType::kInvalid;
  std::vector<int64_t> shape;
  Buffer data;

  int64_t num_elements() const;

  /// An array of these values, which must be as many as the shape holds.
  template <typename T>
  static Array of(std::vector<int64_t> shape, const std::vector<T>& values);
};

/// The values as another type, by value: integers must fit, and floats that become integers must be
/// whole. float rounds. Throws std::invalid_argument naming the first value that does not fit.
/// T: bool-free arithmetic types of 8 to 64 bits, float, double.
template <typename T>
std::vector<T> values_as(const Array& array);

/// What is in an array. Complex values count by their real parts; of an empty array, zeros.
struct ArrayStatistics {
  double min = 0, max = 0;  ///< NaN where any value is NaN.
  double sum = 0;
};
ArrayStatistics statistics_of(const Array& array);

/// The type that stores a T: kF32 for float, kS8 for int8_t...
template <typename T>
constexpr PrimitiveType primitive_type_of();

}  // namespace lagom::formats

#include "lagom/formats/array_inline.h"

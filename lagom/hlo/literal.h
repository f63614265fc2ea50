#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include "lagom/hlo/shape.h"

namespace lagom::hlo {

/// The value of a constant. Arrays hold `data`: little-endian values, one after another in the
/// order of the shape's layout, sub-byte types and pred one byte each. Tuples hold `elements`.
struct Literal {
  Shape shape;
  std::string data;
  std::vector<Literal> elements;
  /// The text said `{...}`: the printer left the values out and `data` is empty.
  bool elided = false;

  /// Row-major values of any numeric type, converted to the element type.
  static Literal from_values(Shape shape, const std::vector<double>& row_major_values);
  static Literal scalar(ElementType type, double value);

  /// Value at a linear index of the buffer (layout order): real part for complex numbers, 0 or 1
  /// for pred. 64-bit integers lose bits past 2^53.
  double value_at(int64_t linear_index) const;
  /// All elements in row-major order of the logical dimensions.
  std::vector<double> row_major_values() const;
  /// Every element is this value (true for an empty array).
  bool all_equal(double value) const;

  friend bool operator==(const Literal&, const Literal&) = default;
};

}  // namespace lagom::hlo

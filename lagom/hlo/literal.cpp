#include "lagom/hlo/literal.h"

#include <stdexcept>

namespace lagom::hlo {
Literal Literal::from_values(Shape shape, const std::vector<double>& values) {
  Literal literal;
  const int64_t n = shape.num_elements();
  if (static_cast<int64_t>(values.size()) != n) {
    throw std::invalid_argument("Literal: expected " + std::to_string(n) + " values for " +
                                shape.to_string() + ", got " + std::to_string(values.size()));
  }
  const int width = element_bytes(shape.element_type);
  literal.data.resize(static_cast<size_t>(n * width));
  const Dims stride = shape.strides();
  Dims index(shape.dimensions.size(), 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < n; ++i) {
    encode_number(shape.element_type, values[static_cast<size_t>(i)],
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
  return decode_number(shape.element_type,
                       data.data() + linear_index * element_bytes(shape.element_type));
}

std::vector<double> Literal::row_major_values() const {
  const int64_t n = shape.num_elements();
  const Dims stride = shape.strides();
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

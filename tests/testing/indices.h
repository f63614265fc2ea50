#pragma once

#include <cstdint>

#include "lagom/hlo/shape.h"

namespace lagom::testing {

/// Row-major position of an index.
inline size_t linear_index(const hlo::Dims& dims, const hlo::Dims& index) {
  int64_t linear = 0;
  for (size_t d = 0; d < dims.size(); ++d) linear = linear * dims[d] + index[d];
  return static_cast<size_t>(linear);
}

/// Visits every index of an array in row-major order; once, with an empty index, for a scalar.
template <typename Visitor>
void for_each_index(const hlo::Dims& dims, Visitor&& visit) {
  for (int64_t d : dims) {
    if (d == 0) return;
  }
  hlo::Dims index(dims.size(), 0);
  while (true) {
    visit(index);
    size_t d = dims.size();
    while (d > 0 && ++index[d - 1] == dims[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace lagom::testing

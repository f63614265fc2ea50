#pragma once

#include "lagom/hlo/module.h"

namespace lagom::hlo {

/// A dot or convolution as `batch` products of [rows, depth] and [depth, columns] matrices; zeros
/// for what is neither.
struct Contraction {
  double batch = 0, rows = 0, columns = 0, depth = 0;
  double window_elements = 0, strides = 0, holes = 0, dilation = 0;
  bool left_is_depth_last = false, right_is_depth_last = false;
};

/// Of a dot or convolution of arrays.
Contraction contraction_of(const Instruction& instruction);

/// Size of the dimension whose elements lie side by side; 1 of a scalar and of what is no array.
double minor_size(const Shape& shape);

}  // namespace lagom::hlo

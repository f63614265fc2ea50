#pragma once

#include <vector>

#include "lagom/hlo/module.h"

namespace lagom::tune {

/// Numbers that tell how alike two nodes are for a compiler: sizes as logarithms to base 2, so that
/// a distance of 1 is a factor of two in one size. Comparable between nodes of one opcode.
///
/// - any opcode: FLOPs, bytes of result and of the first two operands, their minor-most sizes, bits
///   of an element;
/// - convolution: batch, features in and out, groups, output positions, window elements, strides,
///   holes; where features stand in the kernel (4 apart: another form of loop);
/// - dot: batch, rows, columns, depth, and which sides lie contracted dimension last (4 apart).
///
/// Throws std::invalid_argument when the module has no such node.
std::vector<float> describe_node(const hlo::Module& module, const std::string& node);

/// Root of the sum of squares; infinite for descriptions of other lengths.
double distance(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace lagom::tune

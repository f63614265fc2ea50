#include "lagom/hlo/contraction.h"

#include <algorithm>

namespace lagom::hlo {
namespace {

double size_of(const Shape& shape, int64_t dimension) {
  return static_cast<double>(shape.dimensions[static_cast<size_t>(dimension)]);
}

Contraction contraction_of_dot(const Instruction& dot) {
  const DotDims& dims = *dot.attributes.dot;
  const Shape& left = dot.operand(0).shape;
  const Shape& right = dot.operand(1).shape;
  Contraction c{.batch = 1, .depth = 1};
  for (const int64_t d : dims.lhs_batch) c.batch *= size_of(left, d);
  for (const int64_t d : dims.lhs_contracting) c.depth *= size_of(left, d);
  const double shared = std::max(c.batch * c.depth, 1.0);
  c.rows = static_cast<double>(left.num_elements()) / shared;
  c.columns = static_cast<double>(right.num_elements()) / shared;
  const auto is_last = [](const Shape& shape, const Dims& which) {
    return !which.empty() && which.back() == shape.minor_to_major()[0];
  };
  c.left_is_depth_last = is_last(left, dims.lhs_contracting);
  c.right_is_depth_last = is_last(right, dims.rhs_contracting);
  return c;
}

Contraction contraction_of_convolution(const Instruction& convolution) {
  const ConvolutionDims& dims = *convolution.attributes.convolution;
  const Shape& input = convolution.operand(0).shape;
  const Shape& kernel = convolution.operand(1).shape;
  Contraction c{.window_elements = 1, .strides = 1, .holes = 1, .dilation = 1};
  for (const WindowDim& d : convolution.attributes.window) {
    c.window_elements *= static_cast<double>(d.size);
    c.strides *= static_cast<double>(d.stride);
    c.holes *= static_cast<double>(d.base_dilation);
    c.dilation *= static_cast<double>(d.window_dilation);
  }
  const auto groups = static_cast<double>(std::max(convolution.attributes.feature_group_count,
                                                   convolution.attributes.batch_group_count));
  c.batch = std::max(groups, 1.0);
  c.columns = size_of(kernel, dims.kernel_output_feature) / c.batch;
  c.depth = size_of(kernel, dims.kernel_input_feature) * c.window_elements;
  c.rows =
      static_cast<double>(convolution.shape.num_elements()) / std::max(c.batch * c.columns, 1.0);
  c.left_is_depth_last = dims.input_feature == input.minor_to_major()[0];
  c.right_is_depth_last = dims.kernel_input_feature == kernel.minor_to_major()[0];
  return c;
}

}  // namespace

Contraction contraction_of(const Instruction& i) {
  if (i.operands.size() < 2) return {};
  if (!i.operand(0).shape.is_array() || !i.operand(1).shape.is_array()) return {};
  if (i.opcode == Opcode::kDot && i.attributes.dot) return contraction_of_dot(i);
  if (i.opcode == Opcode::kConvolution && i.attributes.convolution) {
    return contraction_of_convolution(i);
  }
  return {};
}

double minor_size(const Shape& shape) {
  if (!shape.is_array() || shape.rank() == 0) return 1;
  return static_cast<double>(shape.dimensions[static_cast<size_t>(shape.minor_to_major()[0])]);
}

}  // namespace lagom::hlo

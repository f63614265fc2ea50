#include <limits>

#include "lagom/hlo/shape_inference.h"
#include "lagom/hlo/shape_inference_detail.h"

namespace lagom::hlo {

namespace {

// 128 bits hold any sum of a few products of two 64-bit values, so that hostile files cannot
// overflow.
using Wide = __int128;

// No real program comes near; sums and products of these with positions stay in 64 bits, on which
// the analyses of windows rely.
constexpr int64_t kMaxWindowAttribute = int64_t{1} << 40;

int64_t narrow(Wide value, const char* what) {
  constexpr Wide kLimit = Wide{1} << 61;
  if (value > kLimit || value < -kLimit) inference::fail("{} does not fit in 61 bits", what);
  return static_cast<int64_t>(value);
}

Wide dilated(int64_t size, int64_t dilation) {
  return size <= 0 ? 0 : (Wide{size} - 1) * dilation + 1;
}

}  // namespace

int64_t dilated_size(int64_t size, int64_t dilation) {
  return narrow(dilated(size, dilation), "dilated size");
}

int64_t window_output_size(int64_t base, const WindowDim& dim) {
  if (dim.size < 1 || dim.stride < 1 || dim.window_dilation < 1 || dim.base_dilation < 1) {
    inference::fail(
        "window: expected size, stride and dilations of at least 1, found size {}, stride {}, "
        "lhs_dilate {}, rhs_dilate {}",
        dim.size, dim.stride, dim.base_dilation, dim.window_dilation);
  }
  for (int64_t value :
       {dim.stride, dim.pad_low, dim.pad_high, dim.window_dilation, dim.base_dilation}) {
    if (value > kMaxWindowAttribute || value < -kMaxWindowAttribute) {
      inference::fail("window: {} is too large", value);
    }
  }
  const Wide padded = Wide{dilated_size(base, dim.base_dilation)} + dim.pad_low + dim.pad_high;
  const Wide window = dilated_size(dim.size, dim.window_dilation);
  if (padded < window) return 0;
  return narrow((padded - window) / dim.stride + 1, "window: number of positions");
}

int64_t padded_size(int64_t size, const PadDim& pad) {
  if (pad.interior < 0) inference::fail("pad: negative interior padding {}", pad.interior);
  if (pad.interior == std::numeric_limits<int64_t>::max()) {
    inference::fail("pad: interior padding {} is too large", pad.interior);
  }
  const Wide padded = dilated(size, pad.interior + 1) + pad.low + pad.high;
  return narrow(padded < 0 ? 0 : padded, "pad: size");
}

namespace inference {
namespace {

void check_convolution_labels(const ConvolutionDims& dims, const Shape& input, const Shape& kernel,
                              size_t window_rank) {
  const size_t spatial = dims.input_spatial.size();
  if (dims.kernel_spatial.size() != spatial || dims.output_spatial.size() != spatial ||
      window_rank != spatial) {
    fail(
        "convolution: expected as many spatial dimensions everywhere, found input {}, kernel {}, "
        "output {}, window {}",
        spatial, dims.kernel_spatial.size(), dims.output_spatial.size(), window_rank);
  }
  const int64_t rank = static_cast<int64_t>(spatial) + 2;
  if (input.rank() != rank || kernel.rank() != rank) {
    fail("convolution: dim_labels are for rank {}, found operands {} and {}", rank, text(input),
         text(kernel));
  }
  const auto check = [rank](Dims all, int64_t a, int64_t b, const char* what) {
    all.push_back(a);
    all.push_back(b);
    check_dims(all, rank, what);
  };
  check(dims.input_spatial, dims.input_batch, dims.input_feature, "convolution input labels");
  check(dims.kernel_spatial, dims.kernel_input_feature, dims.kernel_output_feature,
        "convolution kernel labels");
  check(dims.output_spatial, dims.output_batch, dims.output_feature, "convolution output labels");
}

// [rank] window over the whole of `base`.
Dims windowed_dims(const Shape& base, const Window& window, const char* what) {
  if (static_cast<int64_t>(window.size()) != base.rank()) {
    fail("{}: window has {} dimensions, the operand {} has {}", what, window.size(), text(base),
         base.rank());
  }
  Dims out(window.size());
  for (size_t d = 0; d < out.size(); ++d) {
    out[d] = window_output_size(base.dimensions[d], window[d]);
  }
  return out;
}

}  // namespace

Shape infer_convolution(const Instruction& instruction) {
  const Shape& input = array_operand(instruction, 0);
  const Shape& kernel = array_operand(instruction, 1);
  if (!instruction.attributes.convolution) fail("convolution: dim_labels are missing");
  const ConvolutionDims& dims = *instruction.attributes.convolution;
  const Window& window = instruction.attributes.window;
  check_convolution_labels(dims, input, kernel, window.size());

  const int64_t feature_groups = instruction.attributes.feature_group_count;
  const int64_t batch_groups = instruction.attributes.batch_group_count;
  if (feature_groups < 1 || batch_groups < 1 || (feature_groups > 1 && batch_groups > 1)) {
    fail(
        "convolution: expected group counts >= 1, one of them 1, found feature_group_count {} and "
        "batch_group_count {}",
        feature_groups, batch_groups);
  }
  const int64_t in_batch = input.dimensions[dims.input_batch];
  const int64_t in_features = input.dimensions[dims.input_feature];
  const int64_t kernel_in = kernel.dimensions[dims.kernel_input_feature];
  const int64_t kernel_out = kernel.dimensions[dims.kernel_output_feature];
  if (in_features % feature_groups != 0 || in_features / feature_groups != kernel_in) {
    fail("convolution: {} input features in {} groups do not fit the kernel's {} input features",
         in_features, feature_groups, kernel_in);
  }
  if (kernel_out % feature_groups != 0 || kernel_out % batch_groups != 0) {
    fail("convolution: {} output features do not divide into {} groups", kernel_out,
         std::max(feature_groups, batch_groups));
  }
  if (in_batch % batch_groups != 0) {
    fail("convolution: input batch {} does not divide into batch_group_count {}", in_batch,
         batch_groups);
  }

  Dims out(input.dimensions.size());
  out[dims.output_batch] = in_batch / batch_groups;
  out[dims.output_feature] = kernel_out;
  for (size_t d = 0; d < window.size(); ++d) {
    if (kernel.dimensions[dims.kernel_spatial[d]] != window[d].size) {
      fail("convolution: window size {} in spatial dimension {}, the kernel {} has {}",
           window[d].size, d, text(kernel), kernel.dimensions[dims.kernel_spatial[d]]);
    }
    out[dims.output_spatial[d]] =
        window_output_size(input.dimensions[dims.input_spatial[d]], window[d]);
  }
  const ElementType type = is_floating(input.element_type) || is_complex(input.element_type)
                               ? common_type(input.element_type, kernel.element_type, "convolution")
                               : input.element_type;
  return Shape::array(preferred_type(instruction, type), std::move(out));
}

Shape infer_reduce_window(const Instruction& instruction) {
  const size_t num_operands = instruction.operands.size();
  if (num_operands == 0 || num_operands % 2 != 0) {
    fail("reduce-window: expected as many initial values as arrays, found {} operands",
         num_operands);
  }
  const size_t n = num_operands / 2;
  called_computation(instruction, 0, num_operands);
  std::vector<Shape> results;
  for (size_t i = 0; i < n; ++i) {
    const Shape& base = array_operand(instruction, i);
    if (!array_operand(instruction, n + i).is_scalar()) {
      fail("reduce-window: expected a scalar initial value, found {}",
           text(instruction.operand(n + i).shape));
    }
    if (i > 0 && base.dimensions != instruction.operand(0).shape.dimensions) {
      fail("reduce-window: arrays differ in size: {} and {}", text(instruction.operand(0).shape),
           text(base));
    }
    results.push_back(Shape::array(
        base.element_type, windowed_dims(base, instruction.attributes.window, "reduce-window")));
  }
  return n == 1 ? results[0] : Shape::tuple(std::move(results));
}

Shape infer_select_and_scatter(const Instruction& instruction) {
  const Shape& base = array_operand(instruction, 0);
  const Shape& source = array_operand(instruction, 1);
  if (!array_operand(instruction, 2).is_scalar()) {
    fail("select-and-scatter: expected a scalar initial value, found {}",
         text(instruction.operand(2).shape));
  }
  called_computation(instruction, 0, /*num_parameters=*/2);
  called_computation(instruction, 1, /*num_parameters=*/2);
  const Dims positions = windowed_dims(base, instruction.attributes.window, "select-and-scatter");
  if (source.dimensions != positions) {
    fail("select-and-scatter: expected a source of dimensions {}, found {}", text(positions),
         text(source));
  }
  return Shape::array(base.element_type, base.dimensions);
}

}  // namespace inference
}  // namespace lagom::hlo

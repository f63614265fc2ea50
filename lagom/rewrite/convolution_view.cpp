#include "lagom/rewrite/convolution_view.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string>

#include "lagom/hlo/shape_inference.h"
#include "lagom/rewrite/patterns.h"

namespace lagom::rewrite {
namespace {

using hlo::Dims;
using hlo::Instruction;
using hlo::SliceDim;
using hlo::WindowDim;

// Whether the tap meets an input element for some output position.
bool is_live(const WindowDim& dim, int64_t tap, int64_t input_size, int64_t output_size) {
  const int64_t extent = hlo::dilated_size(input_size, dim.base_dilation);
  const int64_t offset = tap * dim.window_dilation - dim.pad_low;
  // Positions repeat modulo the base dilation after that many steps; past the extent none is met.
  int64_t first = offset >= 0 ? 0 : (-offset + dim.stride - 1) / dim.stride;
  for (int64_t step = 0; step < dim.base_dilation && first < output_size; ++step, ++first) {
    const int64_t position = first * dim.stride + offset;
    if (position >= extent) return false;
    if (position % dim.base_dilation == 0) return true;
  }
  return false;
}

// Place of a role among the dimensions of an array.
int64_t place_of(int64_t role, int64_t batch, int64_t feature, const Dims& spatial) {
  if (role == ConvolutionView::kBatch) return batch;
  if (role == ConvolutionView::kFeature) return feature;
  return spatial.at(static_cast<size_t>(role));
}

}  // namespace

std::optional<ConvolutionView> ConvolutionView::of(const Instruction& instruction) {
  if (instruction.opcode != hlo::Opcode::kConvolution || instruction.operands.size() != 2 ||
      !instruction.attributes.convolution || instruction.attributes.window.empty() ||
      is_sharded(instruction) || !is_static_array(instruction.shape, hlo::is_floating) ||
      !is_static_array(instruction.operand(0).shape, hlo::is_floating) ||
      !is_static_array(instruction.operand(1).shape, hlo::is_floating)) {
    return std::nullopt;
  }
  ConvolutionView view;
  view.instruction_ = &instruction;
  view.input_ = instruction.operands[0];
  view.kernel_ = instruction.operands[1];
  return view;
}

int64_t ConvolutionView::output_size_of(int64_t role) const {
  return shape().dimensions[place_of(role, dims().output_batch, dims().output_feature,
                                     dims().output_spatial)];
}

int64_t ConvolutionView::output_positions() const {
  int64_t product = 1;
  for (size_t s = 0; s < spatial_rank(); ++s) product *= output_size(s);
  return product;
}

int64_t ConvolutionView::window_elements() const {
  int64_t product = 1;
  for (const WindowDim& dim : window()) product *= dim.size;
  return product;
}

bool ConvolutionView::has_kernel_larger_than_input() const {
  for (size_t s = 0; s < spatial_rank(); ++s) {
    if (window()[s].size > input_size(s)) return true;
  }
  return false;
}

hlo::ElementType ConvolutionView::compute_type() const {
  hlo::ElementType widest = hlo::ElementType::kF32;
  const std::array<const Instruction*, 3> values = {input_, kernel_, instruction_};
  for (const Instruction* value : values) {
    const hlo::ElementType type = value->shape.element_type;
    if (hlo::element_bits(type) > hlo::element_bits(widest)) widest = type;
  }
  return widest;
}

std::vector<int64_t> ConvolutionView::live_taps(size_t s) const {
  std::vector<int64_t> taps;
  for (int64_t tap = 0; tap < window()[s].size; ++tap) {
    if (is_live(window()[s], tap, input_size(s), output_size(s))) taps.push_back(tap);
  }
  return taps;
}

Dims ConvolutionView::input_permutation(const std::vector<int64_t>& order) const {
  Dims permutation;
  for (int64_t role : order) {
    permutation.push_back(
        place_of(role, dims().input_batch, dims().input_feature, dims().input_spatial));
  }
  return permutation;
}

Dims ConvolutionView::kernel_permutation(const std::vector<int64_t>& order) const {
  Dims permutation;
  for (int64_t role : order) {
    permutation.push_back(place_of(role, dims().kernel_output_feature, dims().kernel_input_feature,
                                   dims().kernel_spatial));
  }
  return permutation;
}

std::vector<int64_t> ConvolutionView::output_order() const {
  std::vector<int64_t> order(spatial_rank() + 2);
  order[dims().output_batch] = kBatch;
  order[dims().output_feature] = kFeature;
  for (size_t s = 0; s < spatial_rank(); ++s) {
    order[dims().output_spatial[s]] = static_cast<int64_t>(s);
  }
  return order;
}

Dims ConvolutionView::output_permutation(const std::vector<int64_t>& order) const {
  Dims permutation;
  for (int64_t role : output_order()) {
    permutation.push_back(std::find(order.begin(), order.end(), role) - order.begin());
  }
  return permutation;
}

std::optional<std::vector<TapRange>> live_ranges(const ConvolutionView& view) {
  std::vector<TapRange> ranges;
  for (size_t s = 0; s < view.spatial_rank(); ++s) {
    const std::vector<int64_t> taps = view.live_taps(s);
    if (taps.empty()) return std::nullopt;
    ranges.push_back({.first = taps.front(), .last = taps.back()});
  }
  return ranges;
}

// Tap w meets position position * stride + w * window_dilation - pad_low of the dilated
// input, which holds an element where it is a multiple of the base dilation.
std::optional<Overlap> overlap(const hlo::WindowDim& dim, int64_t input_size, int64_t position) {
  const int64_t offset = position * dim.stride - dim.pad_low;
  const int64_t extent = hlo::dilated_size(input_size, dim.base_dilation);
  const int64_t step = dim.base_dilation / std::gcd(dim.base_dilation, dim.window_dilation);
  int64_t first = offset >= 0 ? 0 : (-offset + dim.window_dilation - 1) / dim.window_dilation;
  const int64_t last_start = std::min(dim.size, first + step);
  while (first < last_start && (offset + first * dim.window_dilation) % dim.base_dilation != 0) {
    ++first;
  }
  const int64_t start = offset + first * dim.window_dilation;
  if (first >= last_start || start >= extent) return std::nullopt;

  const int64_t by_window = (dim.size - 1 - first) / step + 1;
  const int64_t by_input = (extent - 1 - start) / (step * dim.window_dilation) + 1;
  const int64_t count = std::min(by_window, by_input);
  const int64_t input_start = start / dim.base_dilation;
  const int64_t input_step = step * dim.window_dilation / dim.base_dilation;
  return Overlap{
      .input = {.start = input_start,
                .limit = input_start + (count - 1) * input_step + 1,
                .stride = input_step},
      .window = {.start = first, .limit = first + (count - 1) * step + 1, .stride = step}};
}

std::vector<std::vector<int64_t>> output_position_lists(const ConvolutionView& view) {
  std::vector<std::vector<int64_t>> lists;
  for (size_t s = 0; s < view.spatial_rank(); ++s) {
    lists.emplace_back(static_cast<size_t>(view.output_size(s)));
    std::iota(lists.back().begin(), lists.back().end(), 0);
  }
  return lists;
}

std::vector<std::vector<int64_t>> tap_lists(const std::vector<TapRange>& ranges) {
  std::vector<std::vector<int64_t>> lists;
  for (const TapRange& range : ranges) {
    lists.emplace_back(static_cast<size_t>(range.size()));
    std::iota(lists.back().begin(), lists.back().end(), range.first);
  }
  return lists;
}

int64_t num_taps(const std::vector<TapRange>& ranges) {
  int64_t product = 1;
  for (const TapRange& range : ranges) {
    if (__builtin_mul_overflow(product, range.size(), &product)) {
      return std::numeric_limits<int64_t>::max();
    }
  }
  return product;
}

Dims reversed_kernel_dims(const ConvolutionView& view) {
  Dims dims;
  for (size_t s = 0; s < view.spatial_rank(); ++s) {
    if (view.window()[s].reversal && view.window()[s].size > 1) {
      dims.push_back(view.dims().kernel_spatial[s]);
    }
  }
  return dims;
}

Instruction* kernel_for_taps(hlo::Builder& builder, const ConvolutionView& view,
                             const std::vector<int64_t>& order,
                             const std::vector<TapRange>& ranges) {
  Instruction* const kernel = view.kernel();
  std::vector<hlo::SliceDim> slice(kernel->shape.dimensions.size());
  for (size_t d = 0; d < slice.size(); ++d) slice[d].limit = kernel->shape.dimensions[d];
  for (size_t s = 0; s < ranges.size(); ++s) {
    const int64_t a = view.kernel_index(s, ranges[s].first);
    const int64_t b = view.kernel_index(s, ranges[s].last);
    slice[view.dims().kernel_spatial[s]] = {.start = std::min(a, b), .limit = std::max(a, b) + 1};
  }
  Instruction* const cut =
      builder.reverse(builder.slice(kernel, std::move(slice)), reversed_kernel_dims(view));
  return builder.transpose(cut, view.kernel_permutation(order));
}

std::vector<int64_t> roles(std::initializer_list<int64_t> before, const ConvolutionView& view,
                           std::initializer_list<int64_t> after) {
  std::vector<int64_t> order(before);
  for (size_t s = 0; s < view.spatial_rank(); ++s) order.push_back(static_cast<int64_t>(s));
  order.insert(order.end(), after);
  return order;
}

Dims output_sizes(const ConvolutionView& view, const std::vector<int64_t>& order) {
  Dims dims;
  for (int64_t role : order) dims.push_back(view.output_size_of(role));
  return dims;
}

hlo::DotDims matrix_product() {
  hlo::DotDims dims;
  dims.lhs_contracting = {1};
  dims.rhs_contracting = {0};
  return dims;
}

void copy_precision(const ConvolutionView& view, Instruction& dot, bool swapped) {
  copy_precision(view.instruction(), dot, swapped);
}

PaddedInput pad_for_taps(hlo::Builder& builder, const ConvolutionView& view, Instruction* x,
                         const std::vector<int64_t>& order, const std::vector<TapRange>& taps) {
  std::vector<hlo::PadDim> padding(order.size());
  for (size_t place = 0; place < order.size(); ++place) {
    if (order[place] < 0) continue;
    const auto s = static_cast<size_t>(order[place]);
    const WindowDim& dim = view.window()[s];
    hlo::PadDim& pad = padding[place];
    pad.interior = dim.base_dilation - 1;
    pad.low = dim.pad_low - taps[s].first * dim.window_dilation;
    const int64_t wanted =
        (view.output_size(s) - 1) * dim.stride + (taps[s].size() - 1) * dim.window_dilation + 1;
    pad.high = wanted - pad.low - hlo::dilated_size(view.input_size(s), dim.base_dilation);
  }
  return {.value = builder.pad_zero(x, std::move(padding)), .taps = taps};
}

Instruction* slice_tap(hlo::Builder& builder, const ConvolutionView& view,
                       const PaddedInput& padded, const std::vector<int64_t>& order,
                       const std::vector<int64_t>& tap) {
  std::vector<hlo::SliceDim> slice(order.size());
  for (size_t place = 0; place < order.size(); ++place) {
    slice[place].limit = padded.value->shape.dimensions[place];
    if (order[place] < 0) continue;
    const auto s = static_cast<size_t>(order[place]);
    const WindowDim& dim = view.window()[s];
    const int64_t start = (tap[s] - padded.taps[s].first) * dim.window_dilation;
    slice[place] = {.start = start,
                    .limit = start + (view.output_size(s) - 1) * dim.stride + 1,
                    .stride = dim.stride};
  }
  return builder.slice(padded.value, std::move(slice));
}

}  // namespace lagom::rewrite

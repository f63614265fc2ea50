#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "lagom/hlo/builder.h"
#include "lagom/hlo/module.h"

// What the convolution rules share. Vocabulary: a *tap* is a position of the window in one spatial
// dimension, counted in the order in which it meets the input (so with reversal tap t reads kernel
// element size - 1 - t). A tap is *live* when for some output position it meets an input element
// rather than padding or a hole.
namespace lagom::rewrite {

/// A convolution's attributes and sizes by role.
class ConvolutionView {
 public:
  /// nullopt unless the instruction is a static convolution of floating-point arrays with at least
  /// one spatial dimension, no empty dimension and no sharding.
  static std::optional<ConvolutionView> of(const hlo::Instruction& instruction);

  size_t spatial_rank() const { return window().size(); }
  const hlo::Window& window() const { return instruction_->attributes.window; }
  const hlo::ConvolutionDims& dims() const { return *instruction_->attributes.convolution; }
  int64_t feature_groups() const { return instruction_->attributes.feature_group_count; }
  int64_t batch_groups() const { return instruction_->attributes.batch_group_count; }

  int64_t input_batch() const { return input_->shape.dimensions[dims().input_batch]; }
  int64_t input_features() const { return input_->shape.dimensions[dims().input_feature]; }
  int64_t input_size(size_t s) const { return input_->shape.dimensions[dims().input_spatial[s]]; }
  int64_t output_batch() const { return shape().dimensions[dims().output_batch]; }
  int64_t output_features() const { return shape().dimensions[dims().output_feature]; }
  int64_t output_size(size_t s) const { return shape().dimensions[dims().output_spatial[s]]; }
  /// Output size of a role: kBatch, kFeature or a spatial dimension.
  int64_t output_size_of(int64_t role) const;
  int64_t window_elements() const;  ///< Product of the window's sizes.
  /// Some spatial dimension has a kernel longer than its input, padding not counted: XLA's CPU
  /// backend leaves its fast path there.
  bool has_kernel_larger_than_input() const;
  int64_t output_positions() const;  ///< Product of the output's spatial sizes.

  hlo::Instruction* input() const { return input_; }
  hlo::Instruction* kernel() const { return kernel_; }
  const hlo::Shape& shape() const { return instruction_->shape; }
  const hlo::Instruction& instruction() const { return *instruction_; }
  /// The widest of f32 and the types of operands and result.
  hlo::ElementType compute_type() const;

  /// Live taps of one spatial dimension, ascending.
  std::vector<int64_t> live_taps(size_t s) const;
  /// Kernel element that a tap reads.
  int64_t kernel_index(size_t s, int64_t tap) const {
    return window()[s].reversal ? window()[s].size - 1 - tap : tap;
  }

  /// Permutation for `Builder::transpose` that brings the input's dimensions into the order given
  /// by the role each place has in `order`: kBatch, kFeature, or a spatial dimension s >= 0.
  hlo::Dims input_permutation(const std::vector<int64_t>& order) const;
  /// The same for the kernel: kBatch stands for its output features, kFeature for its input's.
  hlo::Dims kernel_permutation(const std::vector<int64_t>& order) const;
  /// From an array whose places have these roles to the output's own order.
  hlo::Dims output_permutation(const std::vector<int64_t>& order) const;
  /// Roles in the output's own order.
  std::vector<int64_t> output_order() const;

  static constexpr int64_t kBatch = -1, kFeature = -2;

 private:
  const hlo::Instruction* instruction_ = nullptr;
  hlo::Instruction* input_ = nullptr;
  hlo::Instruction* kernel_ = nullptr;
};

/// The range of taps [first, last] of each spatial dimension that live ones span.
struct TapRange {
  int64_t first = 0, last = 0;
  int64_t size() const { return last - first + 1; }
};

/// An input padded just as far as the taps of a range reach, to be sliced once per tap.
struct PaddedInput {
  hlo::Instruction* value = nullptr;
  std::vector<TapRange> taps;  ///< By spatial dimension.
};

/// Pads `x`, whose places have the roles `order`, with zeros (low, high, and interior for a base
/// dilation; negative where the window leaves parts of the input alone).
PaddedInput pad_for_taps(hlo::Builder& builder, const ConvolutionView& view, hlo::Instruction* x,
                         const std::vector<int64_t>& order, const std::vector<TapRange>& taps);

/// The elements of a padded input that meet this tap, one per output position.
hlo::Instruction* slice_tap(hlo::Builder& builder, const ConvolutionView& view,
                            const PaddedInput& padded, const std::vector<int64_t>& order,
                            const std::vector<int64_t>& tap);

/// Ranges spanned by live taps, or nullopt when some dimension has none.
std::optional<std::vector<TapRange>> live_ranges(const ConvolutionView& view);

/// Where window and input meet for one output position of one spatial dimension: this slice of the
/// input, element by element, with this slice of the window (of taps; see `kernel_index`).
struct Overlap {
  hlo::SliceDim input, window;
};
/// nullopt when the position meets padding and holes only.
std::optional<Overlap> overlap(const hlo::WindowDim& dim, int64_t input_size, int64_t position);

/// Every output position, row-major over the spatial dimensions, as lists for
/// `for_each_combination`.
std::vector<std::vector<int64_t>> output_position_lists(const ConvolutionView& view);
/// Every tap of the ranges in the same way: the order of the kernel's elements.
std::vector<std::vector<int64_t>> tap_lists(const std::vector<TapRange>& ranges);
int64_t num_taps(const std::vector<TapRange>& ranges);

/// The kernel's spatial dimensions that are reversed.
hlo::Dims reversed_kernel_dims(const ConvolutionView& view);
/// The kernel cut to the taps, turned so that its elements come in the order of taps, and brought
/// into the order of roles (see `ConvolutionView::kernel_permutation`).
hlo::Instruction* kernel_for_taps(hlo::Builder& builder, const ConvolutionView& view,
                                  const std::vector<int64_t>& order,
                                  const std::vector<TapRange>& ranges);
/// Roles batch, space, features; features, batch, space; and so on.
std::vector<int64_t> roles(std::initializer_list<int64_t> before, const ConvolutionView& view,
                           std::initializer_list<int64_t> after);
/// Output sizes of the roles.
hlo::Dims output_sizes(const ConvolutionView& view, const std::vector<int64_t>& order);
/// [m, k] x [k, n].
hlo::DotDims matrix_product();
/// A dot computed for a convolution takes over its operand precision and algorithm; `swapped` when
/// the kernel is the dot's left side.
void copy_precision(const ConvolutionView& view, hlo::Instruction& dot, bool swapped = false);

/// Calls `visit` with every combination of one entry from each list, the last list fastest.
template <typename Visitor>
void for_each_combination(const std::vector<std::vector<int64_t>>& lists, Visitor&& visit) {
  std::vector<size_t> at(lists.size(), 0);
  std::vector<int64_t> entry(lists.size());
  for (const auto& list : lists) {
    if (list.empty()) return;
  }
  while (true) {
    for (size_t i = 0; i < lists.size(); ++i) entry[i] = lists[i][at[i]];
    visit(entry);
    size_t i = lists.size();
    while (i > 0 && ++at[i - 1] == lists[i - 1].size()) at[--i] = 0;
    if (i == 0) return;
  }
}

}  // namespace lagom::rewrite

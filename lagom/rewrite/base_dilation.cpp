#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include "lagom/hlo/shape_inference.h"
#include "lagom/rewrite/im2col.h"
#include "lagom/rewrite/rules.h"

// Convolutions whose input has holes (lhs_dilate): transposed convolutions, gradients of strided
// ones. Most products of the plain form meet a hole.
namespace lagom::rewrite {
namespace {

using hlo::Builder;
using hlo::Dims;
using hlo::Instruction;
using hlo::WindowDim;

constexpr int64_t kMaxTaps = 64;
constexpr int64_t kMaxPhases = 16;
constexpr int64_t kMaxColumnsBytes = int64_t{1} << 28;
constexpr int64_t kBatch = ConvolutionView::kBatch;
constexpr int64_t kFeature = ConvolutionView::kFeature;

int64_t positive_modulo(int64_t a, int64_t b) {
  return ((a % b) + b) % b;
}

// ---- Phases

// Output positions of one residue modulo the dilation all meet the input with the same subset of
// taps, so they are a plain convolution of the input with that part of the kernel.
class PhaseEmitter {
 public:
  PhaseEmitter(Builder& builder, const ConvolutionView& view, bool as_columns)
      : builder_(builder), view_(view), as_columns_(as_columns) {
    for (size_t s = 0; s < view.spatial_rank(); ++s) {
      const int64_t dilation = view.window()[s].base_dilation;
      positions_.push_back((view.output_size(s) + dilation - 1) / dilation);
    }
  }

  Instruction* emit() {
    std::vector<std::vector<int64_t>> phases;
    for (const WindowDim& dim : view_.window()) {
      phases.emplace_back();
      for (int64_t p = 0; p < dim.base_dilation; ++p) phases.back().push_back(p);
    }
    std::vector<Instruction*> parts;
    for_each_combination(phases, [&](const std::vector<int64_t>& phase) {
      Instruction* const part = value_of(phase);
      Dims dims = part->shape.dimensions;
      dims.insert(dims.begin(), 1);
      parts.push_back(builder_.reshape(part, std::move(dims)));
    });
    return interleave(builder_.concatenate(std::move(parts), /*dimension=*/0));
  }

 private:
  // One phase with all its positions, in the output's own order.
  Instruction* value_of(const std::vector<int64_t>& phase) {
    hlo::ConvolutionSpec spec{.window = view_.window(),
                              .dims = view_.dims(),
                              .feature_group_count = view_.feature_groups(),
                              .batch_group_count = view_.batch_groups()};
    std::vector<hlo::SliceDim> slice(view_.kernel()->shape.dimensions.size());
    for (size_t d = 0; d < slice.size(); ++d) {
      slice[d].limit = view_.kernel()->shape.dimensions[d];
    }
    for (size_t s = 0; s < phase.size(); ++s) {
      if (!set_phase(s, phase[s], spec.window[s], slice[view_.dims().kernel_spatial[s]])) {
        return builder_.full(view_.shape().element_type, phase_dims(), 0);
      }
    }
    Instruction* const kernel = builder_.slice(view_.kernel(), std::move(slice));
    if (as_columns_) {
      if (Instruction* const product = as_columns(kernel, spec)) return product;
    }
    Instruction* const part =
        builder_.convolution(view_.input(), kernel, std::move(spec), view_.shape().element_type);
    copy_precision(view_, *part);
    return part;
  }

  // Restricts one dimension to a phase; false when it has no taps.
  bool set_phase(size_t s, int64_t phase, WindowDim& dim, hlo::SliceDim& slice) const {
    const int64_t dilation = dim.base_dilation;
    if (dilation == 1) return true;
    const int64_t first = positive_modulo(dim.pad_low - phase, dilation);
    if (first >= dim.size) return false;
    const int64_t taps = (dim.size - 1 - first) / dilation + 1;
    const int64_t last = first + (taps - 1) * dilation;
    const int64_t start = dim.reversal ? dim.size - 1 - last : first;
    slice = {.start = start, .limit = start + (taps - 1) * dilation + 1, .stride = dilation};
    dim.size = taps;
    dim.base_dilation = 1;
    dim.pad_low = (dim.pad_low - phase - first) / dilation;
    dim.pad_high = positions_[s] + taps - 1 - view_.input_size(s) - dim.pad_low;
    return true;
  }

  // nullptr when the phase is not fit for columns.
  Instruction* as_columns(Instruction* kernel, const hlo::ConvolutionSpec& spec) {
    Instruction phase;
    phase.opcode = hlo::Opcode::kConvolution;
    phase.operands = {view_.input(), kernel};
    phase.attributes.window = spec.window;
    phase.attributes.convolution = spec.dims;
    phase.attributes.feature_group_count = spec.feature_group_count;
    phase.attributes.batch_group_count = spec.batch_group_count;
    phase.shape.element_type = view_.shape().element_type;
    phase.shape = hlo::infer_shape(phase);
    copy_precision(view_, phase);
    const auto view = ConvolutionView::of(phase);
    if (!view) return nullptr;
    if (!live_ranges(*view)) return builder_.full(phase.shape.element_type, phase_dims(), 0);
    return can_be_columns(*view) ? emit_im2col_dot(builder_, *view) : nullptr;
  }

  Dims phase_dims() const {
    Dims dims = view_.shape().dimensions;
    for (size_t s = 0; s < positions_.size(); ++s) {
      dims[view_.dims().output_spatial[s]] = positions_[s];
    }
    return dims;
  }

  // [phases, output dims] -> the output: position q of phase p becomes q * dilation + p.
  Instruction* interleave(Instruction* stacked) {
    const auto spatial = static_cast<int64_t>(positions_.size());
    Dims split;
    for (const WindowDim& dim : view_.window()) split.push_back(dim.base_dilation);
    const Dims dims = phase_dims();
    split.insert(split.end(), dims.begin(), dims.end());

    Dims permutation, merged;
    std::vector<hlo::SliceDim> slice;
    const std::vector<int64_t> order = view_.output_order();
    for (size_t place = 0; place < order.size(); ++place) {
      permutation.push_back(spatial + static_cast<int64_t>(place));
      merged.push_back(dims[place]);
      if (order[place] >= 0) {
        permutation.push_back(order[place]);
        merged.back() *= view_.window()[static_cast<size_t>(order[place])].base_dilation;
      }
      slice.push_back({.start = 0, .limit = view_.shape().dimensions[place]});
    }
    Instruction* const turned =
        builder_.transpose(builder_.reshape(stacked, std::move(split)), std::move(permutation));
    return builder_.slice(builder_.reshape(turned, std::move(merged)), std::move(slice));
  }

  Builder& builder_;
  const ConvolutionView& view_;
  bool as_columns_;
  std::vector<int64_t> positions_;  // Output positions of a phase, by spatial dimension.
};

class Phases : public Rule {
 public:
  Phases(std::string_view name, bool as_columns) : name_(name), as_columns_(as_columns) {}
  std::string_view name() const override { return name_; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    const auto view = ConvolutionView::of(instruction);
    if (!view || (as_columns_ && (view->feature_groups() != 1 || view->batch_groups() != 1))) {
      return false;
    }
    int64_t phases = 1;
    for (const WindowDim& dim : view->window()) {
      if (dim.base_dilation == 1) continue;
      if (dim.stride != 1 || dim.window_dilation != 1 || dim.base_dilation > kMaxPhases) {
        return false;
      }
      phases *= dim.base_dilation;
      if (phases > kMaxPhases) return false;
    }
    return phases > 1;
  }

  bool is_promising(const Instruction& instruction) const override {
    const auto view = *ConvolutionView::of(instruction);
    return view.spatial_rank() >= 3 || view.window_elements() >= 64;
  }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    if (!matches(instruction)) throw std::invalid_argument(std::string(name_) + ": does not match");
    const auto view = *ConvolutionView::of(instruction);
    return PhaseEmitter(builder, view, as_columns_).emit();
  }

 private:
  std::string_view name_;
  bool as_columns_;
};

// ---- col2im

class Col2im : public Rule {
 public:
  std::string_view name() const override { return "col2im"; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    const auto view = ConvolutionView::of(instruction);
    if (!view || view->feature_groups() != 1 || view->batch_groups() != 1) return false;
    bool has_holes = false;
    int64_t bytes = hlo::element_bytes(view->compute_type());
    for (size_t s = 0; s < view->spatial_rank(); ++s) {
      if (view->window()[s].stride != 1) return false;
      has_holes |= view->window()[s].base_dilation > 1;
      if (__builtin_mul_overflow(bytes, view->input_size(s), &bytes)) return false;
    }
    const auto ranges = live_ranges(*view);
    if (!has_holes || !ranges || num_taps(*ranges) > kMaxTaps) return false;
    for (int64_t factor : {num_taps(*ranges), view->input_batch(), view->output_features()}) {
      if (__builtin_mul_overflow(bytes, factor, &bytes)) return false;
    }
    return bytes <= kMaxColumnsBytes;
  }

  bool is_promising(const Instruction& instruction) const override {
    const auto view = *ConvolutionView::of(instruction);
    return view.spatial_rank() >= 3 || view.window_elements() == 1 ||
           view.output_batch() * view.output_positions() <= 64;
  }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    if (!matches(instruction)) throw std::invalid_argument("col2im: does not match");
    const auto view = *ConvolutionView::of(instruction);
    const std::vector<TapRange> ranges = live_ranges(view).value();
    const std::vector<int64_t> order = roles({kBatch}, view, {kFeature});
    const int64_t features = view.output_features();

    Dims slab_dims = {view.input_batch()};  // [N, input space, O]
    int64_t rows = view.input_batch();
    for (size_t s = 0; s < view.spatial_rank(); ++s) {
      slab_dims.push_back(view.input_size(s));
      rows *= view.input_size(s);
    }
    slab_dims.push_back(features);
    Instruction* const x =
        builder.reshape(builder.transpose(view.input(), view.input_permutation(order)),
                        {rows, view.input_features()});
    Instruction* const kernel =  // [I, taps * O]
        builder.reshape(kernel_for_taps(builder, view, roles({kFeature}, view, {kBatch}), ranges),
                        {view.input_features(), num_taps(ranges) * features});
    Instruction* const columns =
        builder.dot(x, kernel, matrix_product(), view.compute_type());  // [N * P, taps * O]
    copy_precision(view, *columns);

    Instruction* sum = nullptr;
    int64_t number = 0;
    for_each_combination(tap_lists(ranges), [&](const std::vector<int64_t>& tap) {
      Instruction* const slab = builder.reshape(
          builder.slice(columns, {{.start = 0, .limit = rows},
                                  {.start = number * features, .limit = (number + 1) * features}}),
          slab_dims);
      ++number;
      Instruction* const placed = builder.pad_zero(slab, placement(view, order, tap));
      sum = sum == nullptr ? placed : builder.add(sum, placed);
    });
    return builder.transpose(builder.convert(sum, view.shape().element_type),
                             view.output_permutation(order));
  }

 private:
  // Input element i meets tap w at output position i * base_dilation + pad_low - w * dilation.
  static std::vector<hlo::PadDim> placement(const ConvolutionView& view,
                                            const std::vector<int64_t>& order,
                                            const std::vector<int64_t>& tap) {
    std::vector<hlo::PadDim> padding(order.size());
    for (size_t place = 0; place < order.size(); ++place) {
      if (order[place] < 0) continue;
      const auto s = static_cast<size_t>(order[place]);
      const WindowDim& dim = view.window()[s];
      padding[place].interior = dim.base_dilation - 1;
      padding[place].low = dim.pad_low - tap[s] * dim.window_dilation;
      padding[place].high = view.output_size(s) - padding[place].low -
                            hlo::dilated_size(view.input_size(s), dim.base_dilation);
    }
    return padding;
  }
};

}  // namespace

const Rule& phases_rule() {
  static const Phases kRule("phases", /*as_columns=*/false);
  return kRule;
}

const Rule& phases_im2col_rule() {
  static const Phases kRule("phases_im2col", /*as_columns=*/true);
  return kRule;
}

const Rule& col2im_rule() {
  static const Col2im kRule;
  return kRule;
}

}  // namespace lagom::rewrite

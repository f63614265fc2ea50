#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "lagom/hlo/shape_inference.h"
#include "lagom/rewrite/convolution_view.h"
#include "lagom/rewrite/patterns.h"
#include "lagom/rewrite/rules.h"

// Convolutions that stay convolutions, with another window or in another type.
namespace lagom::rewrite {
namespace {

using hlo::Builder;
using hlo::ElementType;
using hlo::Instruction;
using hlo::WindowDim;

constexpr int64_t kMaxPaddedBytes = int64_t{1} << 28;

ConvolutionView view_of(const Rule& rule, const Instruction& instruction) {
  if (!rule.matches(instruction)) {
    throw std::invalid_argument(std::string(rule.name()) + ": does not match");
  }
  return *ConvolutionView::of(instruction);
}

hlo::ConvolutionSpec spec_of(const ConvolutionView& view) {
  return {.window = view.window(),
          .dims = view.dims(),
          .feature_group_count = view.feature_groups(),
          .batch_group_count = view.batch_groups()};
}

bool has_dead_taps(const ConvolutionView& view, const std::vector<TapRange>& ranges) {
  for (size_t s = 0; s < ranges.size(); ++s) {
    if (ranges[s].size() < view.window()[s].size) return true;
  }
  return false;
}

// The kernel cut to the taps, otherwise as it is.
Instruction* cut_kernel(Builder& builder, const ConvolutionView& view,
                        const std::vector<TapRange>& ranges) {
  std::vector<hlo::SliceDim> slice = whole(view.kernel());
  for (size_t s = 0; s < ranges.size(); ++s) {
    const int64_t a = view.kernel_index(s, ranges[s].first);
    const int64_t b = view.kernel_index(s, ranges[s].last);
    slice[static_cast<size_t>(view.dims().kernel_spatial[s])] = {.start = std::min(a, b),
                                                                 .limit = std::max(a, b) + 1};
  }
  return builder.slice(view.kernel(), std::move(slice));
}

class TrimmedConvolution : public Rule {
 public:
  std::string_view name() const override { return "trimmed_convolution"; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    const auto view = ConvolutionView::of(instruction);
    if (!view) return false;
    const auto ranges = live_ranges(*view);
    return ranges && has_dead_taps(*view, *ranges);
  }

  bool is_promising(const Instruction&) const override { return true; }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    const ConvolutionView view = view_of(*this, instruction);
    const std::vector<TapRange> ranges = live_ranges(view).value();
    hlo::ConvolutionSpec spec = spec_of(view);
    for (size_t s = 0; s < ranges.size(); ++s) {
      WindowDim& dim = spec.window[s];
      dim.size = ranges[s].size();
      dim.pad_low -= ranges[s].first * dim.window_dilation;
      const int64_t wanted =
          (view.output_size(s) - 1) * dim.stride + (dim.size - 1) * dim.window_dilation + 1;
      dim.pad_high =
          wanted - dim.pad_low - hlo::dilated_size(view.input_size(s), dim.base_dilation);
    }
    Instruction* const result = builder.convolution(view.input(), cut_kernel(builder, view, ranges),
                                                    std::move(spec), view.shape().element_type);
    copy_precision(instruction, *result);
    return result;
  }
};

class PaddedConvolution : public Rule {
 public:
  std::string_view name() const override { return "padded_convolution"; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    const auto view = ConvolutionView::of(instruction);
    if (!view) return false;
    const auto ranges = live_ranges(*view);
    if (!ranges) return false;
    int64_t bytes = hlo::element_bytes(view->input()->shape.element_type);
    bool is_padded = false;
    for (size_t s = 0; s < ranges->size(); ++s) {
      const WindowDim& dim = view->window()[s];
      is_padded |= dim.pad_low != 0 || dim.pad_high != 0 || dim.base_dilation != 1;
      const int64_t size =
          (view->output_size(s) - 1) * dim.stride + ((*ranges)[s].size() - 1) * dim.window_dilation;
      if (__builtin_mul_overflow(bytes, size + 1, &bytes)) return false;
    }
    for (int64_t factor : {view->input_batch(), view->input_features()}) {
      if (__builtin_mul_overflow(bytes, factor, &bytes)) return false;
    }
    return is_padded && bytes <= kMaxPaddedBytes;
  }

  bool is_promising(const Instruction& instruction) const override {
    return ConvolutionView::of(instruction)->has_kernel_larger_than_input();
  }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    const ConvolutionView view = view_of(*this, instruction);
    const std::vector<TapRange> ranges = live_ranges(view).value();
    std::vector<int64_t> order(view.spatial_rank() + 2);  // The input's own.
    order[static_cast<size_t>(view.dims().input_batch)] = ConvolutionView::kBatch;
    order[static_cast<size_t>(view.dims().input_feature)] = ConvolutionView::kFeature;
    hlo::ConvolutionSpec spec = spec_of(view);
    for (size_t s = 0; s < ranges.size(); ++s) {
      order[static_cast<size_t>(view.dims().input_spatial[s])] = static_cast<int64_t>(s);
      WindowDim& dim = spec.window[s];
      dim.size = ranges[s].size();
      dim.pad_low = dim.pad_high = 0;
      dim.base_dilation = 1;
    }
    // Without the barrier the compiler folds the padding back into the convolution.
    Instruction* const padded = builder.optimization_barrier(
        pad_for_taps(builder, view, view.input(), order, ranges).value);
    Instruction* const result = builder.convolution(padded, cut_kernel(builder, view, ranges),
                                                    std::move(spec), view.shape().element_type);
    copy_precision(instruction, *result);
    return result;
  }
};

class Float32Convolution : public Rule {
 public:
  std::string_view name() const override { return "float32_convolution"; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    const auto view = ConvolutionView::of(instruction);
    return view && (is_narrow(view->input()->shape) || is_narrow(view->kernel()->shape));
  }

  // XLA's CPU backend does the same by itself.
  bool is_promising(const Instruction&) const override { return false; }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    const ConvolutionView view = view_of(*this, instruction);
    const ElementType type = view.compute_type();
    Instruction* const result =
        builder.convolution(builder.convert(view.input(), type),
                            builder.convert(view.kernel(), type), spec_of(view), type);
    copy_precision(instruction, *result);
    return builder.convert(result, view.shape().element_type);
  }

 private:
  static bool is_narrow(const hlo::Shape& shape) {
    return at_least_f32(shape.element_type) != shape.element_type;
  }
};

}  // namespace

const Rule& trimmed_convolution_rule() {
  static const TrimmedConvolution kRule;
  return kRule;
}

const Rule& padded_convolution_rule() {
  static const PaddedConvolution kRule;
  return kRule;
}

const Rule& float32_convolution_rule() {
  static const Float32Convolution kRule;
  return kRule;
}

}  // namespace lagom::rewrite

#include <algorithm>
#include <stdexcept>

#include "lagom/rewrite/convolution_view.h"
#include "lagom/rewrite/patterns.h"
#include "lagom/rewrite/rules.h"

namespace lagom::rewrite {
namespace {

using hlo::Builder;
using hlo::Dims;
using hlo::Instruction;
using hlo::SliceDim;

constexpr int64_t kMaxDots = 64;
constexpr int64_t kBatch = ConvolutionView::kBatch;
constexpr int64_t kFeature = ConvolutionView::kFeature;

bool has_no_groups(const ConvolutionView& view) {
  return view.feature_groups() == 1 && view.batch_groups() == 1;
}

class PositionDots : public Rule {
 public:
  std::string_view name() const override { return "position_dots"; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    const auto view = ConvolutionView::of(instruction);
    return view && has_no_groups(*view) && view->output_positions() <= kMaxDots;
  }

  // One position; gradients of strided or 3-D layers; large maps with few features on one side.
  bool is_promising(const Instruction& instruction) const override {
    const auto view = *ConvolutionView::of(instruction);
    const bool strided = std::any_of(view.window().begin(), view.window().end(),
                                     [](const auto& dim) { return dim.window_dilation > 1; });
    const int64_t window = view.window_elements();
    return view.output_positions() == 1 || (strided && window >= 256) ||
           (view.spatial_rank() >= 3 && window >= 256) ||
           (window >= 4096 && std::min(view.output_batch(), view.output_features()) <= 4);
  }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    if (!matches(instruction)) throw std::invalid_argument("position_dots: does not match");
    const auto view = *ConvolutionView::of(instruction);
    Instruction* const kernel = builder.reverse(view.kernel(), reversed_kernel_dims(view));
    std::vector<Instruction*> rows;  // One per position, [1, N, O].
    for_each_combination(output_position_lists(view), [&](const std::vector<int64_t>& position) {
      rows.push_back(builder.reshape(value_at(builder, view, kernel, position),
                                     {1, view.output_batch(), view.output_features()}));
    });
    const std::vector<int64_t> order = roles({}, view, {kBatch, kFeature});
    Instruction* const stacked = builder.concatenate(std::move(rows), /*dimension=*/0);
    return builder.transpose(builder.reshape(stacked, output_sizes(view, order)),
                             view.output_permutation(order));
  }

 private:
  // [N, O] at one output position: the parts that meet, contracted over features and space.
  static Instruction* value_at(Builder& builder, const ConvolutionView& view, Instruction* kernel,
                               const std::vector<int64_t>& position) {
    std::vector<SliceDim> input_slice = whole(view.input());
    std::vector<SliceDim> kernel_slice = whole(kernel);
    hlo::DotDims dims;
    dims.lhs_contracting = {view.dims().input_feature};
    dims.rhs_contracting = {view.dims().kernel_input_feature};
    for (size_t s = 0; s < view.spatial_rank(); ++s) {
      const auto meeting = overlap(view.window()[s], view.input_size(s), position[s]);
      if (!meeting) {
        return builder.full(view.shape().element_type,
                            {view.output_batch(), view.output_features()}, 0);
      }
      const int64_t input_place = view.dims().input_spatial[s];
      const int64_t kernel_place = view.dims().kernel_spatial[s];
      input_slice[input_place] = meeting->input;
      kernel_slice[kernel_place] = meeting->window;
      dims.lhs_contracting.push_back(input_place);
      dims.rhs_contracting.push_back(kernel_place);
    }
    Instruction* const product = builder.dot(builder.slice(view.input(), std::move(input_slice)),
                                             builder.slice(kernel, std::move(kernel_slice)),
                                             std::move(dims), view.shape().element_type);
    copy_precision(view, *product);
    return product;
  }
};

class TapDots : public Rule {
 public:
  std::string_view name() const override { return "tap_dots"; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    const auto view = ConvolutionView::of(instruction);
    if (!view || !has_no_groups(*view)) return false;
    const auto ranges = live_ranges(*view);
    // One tap is im2col_dot.
    return ranges && num_taps(*ranges) > 1 && num_taps(*ranges) <= kMaxDots;
  }

  bool is_promising(const Instruction& instruction) const override {
    const auto view = *ConvolutionView::of(instruction);
    return view.spatial_rank() != 2 || view.has_kernel_larger_than_input();
  }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    if (!matches(instruction)) throw std::invalid_argument("tap_dots: does not match");
    const auto view = *ConvolutionView::of(instruction);
    const std::vector<TapRange> ranges = live_ranges(view).value();
    const std::vector<int64_t> order = roles({kBatch}, view, {kFeature});
    const int64_t rows = view.output_batch() * view.output_positions();
    const int64_t features = view.input_features();
    Instruction* const x = builder.transpose(view.input(), view.input_permutation(order));
    const PaddedInput padded = pad_for_taps(builder, view, x, order, ranges);
    Instruction* const kernel =  // [taps, I, O]
        builder.reshape(kernel_for_taps(builder, view, roles({}, view, {kFeature, kBatch}), ranges),
                        {num_taps(ranges), features, view.output_features()});

    Instruction* sum = nullptr;  // [N * P, O], in f32 at least: partial sums must not be rounded
    int64_t number = 0;          // to a narrower type.
    for_each_combination(tap_lists(ranges), [&](const std::vector<int64_t>& tap) {
      Instruction* const columns =
          builder.reshape(slice_tap(builder, view, padded, order, tap), {rows, features});
      std::vector<SliceDim> at = whole(kernel);
      at[0] = {.start = number, .limit = number + 1};
      ++number;
      Instruction* const weights =
          builder.reshape(builder.slice(kernel, std::move(at)), {features, view.output_features()});
      Instruction* const product =
          builder.dot(columns, weights, matrix_product(), view.compute_type());
      copy_precision(view, *product);
      sum = sum == nullptr ? product : builder.add(sum, product);
    });
    Instruction* const result = builder.convert(sum, view.shape().element_type);
    return builder.transpose(builder.reshape(result, output_sizes(view, order)),
                             view.output_permutation(order));
  }
};

}  // namespace

const Rule& position_dots_rule() {
  static const PositionDots kRule;
  return kRule;
}

const Rule& tap_dots_rule() {
  static const TapDots kRule;
  return kRule;
}

}  // namespace lagom::rewrite

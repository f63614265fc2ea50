#include "lagom/rewrite/im2col.h"

#include <stdexcept>
#include <string>

#include "lagom/rewrite/rules.h"

namespace lagom::rewrite {
namespace {

using hlo::Builder;
using hlo::Dims;
using hlo::Instruction;

constexpr int64_t kMaxTaps = 64;
constexpr int64_t kMaxColumnsBytes = int64_t{1} << 28;
constexpr int64_t kBatch = ConvolutionView::kBatch;
constexpr int64_t kFeature = ConvolutionView::kFeature;

class Im2colRule : public Rule {
 public:
  using Emit = Instruction* (*)(Builder&, const ConvolutionView&);
  using Hint = bool (*)(const ConvolutionView&);
  Im2colRule(std::string_view name, Emit emit, Hint hint) : name_(name), emit_(emit), hint_(hint) {}

  std::string_view name() const override { return name_; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    const auto view = ConvolutionView::of(instruction);
    return view && can_be_columns(*view);
  }

  bool is_promising(const Instruction& instruction) const override {
    const auto view = ConvolutionView::of(instruction);
    return view && hint_(*view);
  }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    if (!matches(instruction)) throw std::invalid_argument(std::string(name_) + ": does not match");
    return emit_(builder, *ConvolutionView::of(instruction));
  }

 private:
  std::string_view name_;
  Emit emit_;
  Hint hint_;
};

bool has_output_first_kernel(const ConvolutionView& view) {
  return view.dims().kernel_output_feature == 0 && view.dims().kernel_input_feature == 1;
}

// Small maps with many features, and what falls off XLA's fast path.
bool columns_promise(const ConvolutionView& view) {
  if (has_output_first_kernel(view)) return false;
  const int64_t rows = view.output_batch() * view.output_positions();
  return view.has_kernel_larger_than_input() || (rows <= 64 && view.input_features() >= 128);
}

bool weights_first_promise(const ConvolutionView& view) {
  if (!has_output_first_kernel(view)) return false;
  const int64_t columns = view.output_batch() * view.output_positions();
  return columns <= 64 || (view.window_elements() == 1 && view.output_batch() <= 2);
}

}  // namespace

bool can_be_columns(const ConvolutionView& view) {
  if (view.feature_groups() != 1 || view.batch_groups() != 1) return false;
  const auto ranges = live_ranges(view);
  if (!ranges || num_taps(*ranges) > kMaxTaps) return false;
  int64_t bytes = hlo::element_bytes(view.input()->shape.element_type);
  for (int64_t factor :
       {num_taps(*ranges), view.input_features(), view.output_batch(), view.output_positions()}) {
    if (__builtin_mul_overflow(bytes, factor, &bytes)) return false;
  }
  return bytes <= kMaxColumnsBytes;
}

Instruction* emit_im2col_dot(Builder& builder, const ConvolutionView& view) {
  const std::vector<TapRange> ranges = live_ranges(view).value();
  const std::vector<int64_t> order = roles({kBatch}, view, {kFeature});
  Instruction* const x = builder.transpose(view.input(), view.input_permutation(order));
  const PaddedInput padded = pad_for_taps(builder, view, x, order, ranges);
  std::vector<Instruction*> slices;  // One per tap, [N, space, I].
  for_each_combination(tap_lists(ranges), [&](const std::vector<int64_t>& tap) {
    slices.push_back(slice_tap(builder, view, padded, order, tap));
  });
  const int64_t rows = view.output_batch() * view.output_positions();
  const int64_t depth = num_taps(ranges) * view.input_features();
  Instruction* const columns = builder.reshape(
      builder.concatenate(std::move(slices), static_cast<int64_t>(order.size()) - 1),
      {rows, depth});

  Instruction* const kernel =
      builder.reshape(kernel_for_taps(builder, view, roles({}, view, {kFeature, kBatch}), ranges),
                      {depth, view.output_features()});
  Instruction* const product =
      builder.dot(columns, kernel, matrix_product(), view.shape().element_type);  // [N * P, O]
  copy_precision(view, *product);
  return builder.transpose(builder.reshape(product, output_sizes(view, order)),
                           view.output_permutation(order));
}

Instruction* emit_im2col_dot_weights_first(Builder& builder, const ConvolutionView& view) {
  const std::vector<TapRange> ranges = live_ranges(view).value();
  const std::vector<int64_t> order = roles({kFeature, kBatch}, view, {});
  Instruction* const x = builder.transpose(view.input(), view.input_permutation(order));
  const PaddedInput padded = pad_for_taps(builder, view, x, order, ranges);
  std::vector<Instruction*> slices;  // One per tap, [I, 1, N, space].
  for_each_combination(tap_lists(ranges), [&](const std::vector<int64_t>& tap) {
    Instruction* const slice = slice_tap(builder, view, padded, order, tap);
    Dims dims = slice->shape.dimensions;
    dims.insert(dims.begin() + 1, 1);
    slices.push_back(builder.reshape(slice, std::move(dims)));
  });
  const int64_t columns = view.output_batch() * view.output_positions();
  const int64_t depth = num_taps(ranges) * view.input_features();
  Instruction* const stacked =
      builder.reshape(builder.concatenate(std::move(slices), /*dimension=*/1), {depth, columns});

  Instruction* const kernel =
      builder.reshape(kernel_for_taps(builder, view, roles({kBatch, kFeature}, view, {}), ranges),
                      {view.output_features(), depth});
  Instruction* const product =
      builder.dot(kernel, stacked, matrix_product(), view.shape().element_type);  // [O, N * P]
  copy_precision(view, *product, /*swapped=*/true);
  return builder.transpose(builder.reshape(product, output_sizes(view, order)),
                           view.output_permutation(order));
}

const Rule& im2col_dot_rule() {
  static const Im2colRule kRule("im2col_dot", emit_im2col_dot, columns_promise);
  return kRule;
}

const Rule& im2col_dot_weights_first_rule() {
  static const Im2colRule kRule("im2col_dot_weights_first", emit_im2col_dot_weights_first,
                                weights_first_promise);
  return kRule;
}

}  // namespace lagom::rewrite

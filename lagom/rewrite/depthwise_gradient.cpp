#include <stdexcept>

#include "lagom/rewrite/convolution_view.h"
#include "lagom/rewrite/rules.h"

// In the convolution that gives a depthwise kernel's gradient, the roles are turned: its input is
// the layer's input with channels as "batch" and the layer's batch as "feature"; its "kernel" is
// the gradient of the layer's output; an output position is one element of the layer's kernel.
namespace lagom::rewrite {
namespace {

using hlo::Builder;
using hlo::Dims;
using hlo::Instruction;
using hlo::SliceDim;

constexpr int64_t kMaxPositions = 64;

class GradientEmitter {
 public:
  GradientEmitter(Builder& builder, const ConvolutionView& view)
      : builder_(builder),
        view_(view),
        type_(view.compute_type()),
        channels_(view.input_batch()),
        multiplier_(view.output_features() / channels_) {}

  Instruction* emit() {
    order_input();
    std::vector<Instruction*> rows;  // One per position, [1, C * m].
    for_each_combination(output_position_lists(view_), [&](const std::vector<int64_t>& position) {
      rows.push_back(builder_.reshape(row(position), {1, view_.output_features()}));
    });
    Instruction* const stacked = builder_.concatenate(std::move(rows), /*dimension=*/0);
    return to_output(stacked);
  }

 private:
  // Keeps the input as it lies and brings the kernel into the same order; channels that several
  // output features share get a dimension for these behind them.
  void order_input() {
    const size_t rank = view_.spatial_rank() + 2;
    order_.resize(rank);
    order_[view_.dims().input_batch] = ConvolutionView::kBatch;
    order_[view_.dims().input_feature] = ConvolutionView::kFeature;
    for (size_t s = 0; s < view_.spatial_rank(); ++s) {
      order_[view_.dims().input_spatial[s]] = static_cast<int64_t>(s);
    }
    channel_place_ = view_.dims().input_batch;
    input_ = builder_.convert(view_.input(), type_);
    kernel_ = builder_.transpose(
        builder_.reverse(builder_.convert(view_.kernel(), type_), reversed_kernel_dims(view_)),
        view_.kernel_permutation(order_));
  }

  // The gradient of one kernel element, [C] or [C, m].
  Instruction* row(const std::vector<int64_t>& position) {
    std::vector<SliceDim> input_slice(order_.size()), kernel_slice(order_.size());
    for (size_t place = 0; place < order_.size(); ++place) {
      input_slice[place].limit = input_->shape.dimensions[place];
      kernel_slice[place].limit = kernel_->shape.dimensions[place];
      if (order_[place] < 0) continue;
      const auto s = static_cast<size_t>(order_[place]);
      const auto meeting = overlap(view_.window()[s], view_.input_size(s), position[s]);
      if (!meeting) return builder_.full(type_, result_dims(), 0);
      input_slice[place] = meeting->input;
      kernel_slice[place] = meeting->window;
    }
    Instruction* const x = split(builder_.slice(input_, std::move(input_slice)), /*spread=*/true);
    Instruction* const dy =
        split(builder_.slice(kernel_, std::move(kernel_slice)), /*spread=*/false);
    Dims reduced;
    for (int64_t d = 0; d < x->shape.rank(); ++d) {
      if (d != channel_place_ && !(multiplier_ > 1 && d == channel_place_ + 1)) {
        reduced.push_back(d);
      }
    }
    return builder_.reduce_sum(builder_.multiply(x, dy), std::move(reduced));
  }

  // Gives the array the dimension of features per channel: by repeating it (the input) or by
  // dividing the features (the kernel).
  Instruction* split(Instruction* x, bool spread) {
    if (multiplier_ == 1) return x;
    Dims dims = x->shape.dimensions;
    dims[channel_place_] = channels_;
    dims.insert(dims.begin() + channel_place_ + 1, multiplier_);
    if (!spread) return builder_.reshape(x, std::move(dims));
    Dims places;
    for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
      if (d != channel_place_ + 1) places.push_back(d);
    }
    return builder_.broadcast(x, std::move(dims), std::move(places));
  }

  Dims result_dims() const {
    return multiplier_ == 1 ? Dims{channels_} : Dims{channels_, multiplier_};
  }

  // [positions, C * m] -> the output's own order; its batch is 1.
  Instruction* to_output(Instruction* stacked) {
    const std::vector<int64_t> order =
        roles({}, view_, {ConvolutionView::kBatch, ConvolutionView::kFeature});
    Instruction* const ordered = builder_.transpose(
        builder_.reshape(stacked, output_sizes(view_, order)), view_.output_permutation(order));
    return builder_.convert(ordered, view_.shape().element_type);
  }

  Builder& builder_;
  const ConvolutionView& view_;
  hlo::ElementType type_;
  int64_t channels_, multiplier_;
  std::vector<int64_t> order_;  // Roles in the input's own order.
  int64_t channel_place_ = 0;
  Instruction* input_ = nullptr;
  Instruction* kernel_ = nullptr;
};

class DepthwiseWeightGradient : public Rule {
 public:
  std::string_view name() const override { return "depthwise_weight_gradient"; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    const auto view = ConvolutionView::of(instruction);
    return view && view->feature_groups() == 1 && view->batch_groups() > 1 &&
           view->batch_groups() == view->input_batch() && view->output_positions() <= kMaxPositions;
  }

  bool is_promising(const Instruction&) const override { return true; }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    if (!matches(instruction)) {
      throw std::invalid_argument("depthwise_weight_gradient: does not match");
    }
    return GradientEmitter(builder, *ConvolutionView::of(instruction)).emit();
  }
};

}  // namespace

const Rule& depthwise_weight_gradient_rule() {
  static const DepthwiseWeightGradient kRule;
  return kRule;
}

}  // namespace lagom::rewrite

#include <algorithm>
#include <stdexcept>

#include "lagom/rewrite/convolution_view.h"
#include "lagom/rewrite/rules.h"

namespace lagom::rewrite {
namespace {

using hlo::Builder;
using hlo::Dims;
using hlo::Instruction;

constexpr int64_t kMaxTaps = 64;

// Output features are split into [groups, features per group] while the sum is formed: a kernel
// with a channel multiplier m then needs one broadcast of the input instead of a gather.
class DepthwiseEmitter {
 public:
  DepthwiseEmitter(Builder& builder, const ConvolutionView& view)
      : builder_(builder),
        view_(view),
        order_(view.output_order()),
        multiplier_(view.output_features() / view.input_features()) {
    for (int64_t role : order_) {
      if (role == ConvolutionView::kFeature) {
        feature_places_.push_back(static_cast<int64_t>(split_dims_.size()));
        split_dims_.push_back(view.input_features());
        if (multiplier_ > 1) {
          feature_places_.push_back(static_cast<int64_t>(split_dims_.size()));
          split_dims_.push_back(multiplier_);
        }
      } else {
        split_dims_.push_back(view.output_size_of(role));
      }
    }
  }

  Instruction* emit() {
    const hlo::ElementType type = view_.compute_type();
    Instruction* const x =
        builder_.transpose(builder_.convert(view_.input(), type), view_.input_permutation(order_));
    Instruction* const kernel = builder_.convert(view_.kernel(), type);
    const PaddedInput padded = pad_for_taps(builder_, view_, x, order_, live_ranges(view_).value());
    std::vector<std::vector<int64_t>> taps;
    for (size_t s = 0; s < view_.spatial_rank(); ++s) taps.push_back(view_.live_taps(s));
    Instruction* sum = nullptr;
    for_each_combination(taps, [&](const std::vector<int64_t>& tap) {
      Instruction* const product =
          builder_.multiply(spread_input(slice_tap(builder_, view_, padded, order_, tap)),
                            spread_weight(kernel, tap));
      sum = sum == nullptr ? product : builder_.add(sum, product);
    });
    return builder_.convert(builder_.reshape(sum, view_.shape().dimensions),
                            view_.shape().element_type);
  }

 private:
  // [output dims with the input's features] -> split_dims_
  Instruction* spread_input(Instruction* slice) {
    Dims places;
    for (size_t d = 0; d < split_dims_.size(); ++d) {
      if (multiplier_ == 1 || static_cast<int64_t>(d) != feature_places_.back()) {
        places.push_back(static_cast<int64_t>(d));
      }
    }
    return builder_.broadcast(slice, split_dims_, std::move(places));
  }

  // One kernel element per output feature, [features] or [groups, per group], -> split_dims_
  Instruction* spread_weight(Instruction* kernel, const std::vector<int64_t>& tap) {
    std::vector<hlo::SliceDim> slice(kernel->shape.dimensions.size());
    for (size_t d = 0; d < slice.size(); ++d) slice[d].limit = kernel->shape.dimensions[d];
    for (size_t s = 0; s < tap.size(); ++s) {
      const int64_t index = view_.kernel_index(s, tap[s]);
      slice[view_.dims().kernel_spatial[s]] = {.start = index, .limit = index + 1};
    }
    Dims features = {view_.input_features()};
    if (multiplier_ > 1) features.push_back(multiplier_);
    Instruction* const weight =
        builder_.reshape(builder_.slice(kernel, std::move(slice)), std::move(features));
    return builder_.broadcast(weight, split_dims_, feature_places_);
  }

  Builder& builder_;
  const ConvolutionView& view_;
  std::vector<int64_t> order_;
  int64_t multiplier_;
  Dims split_dims_;      // The output's dimensions with the features split.
  Dims feature_places_;  // Where the split features stand in it.
};

class DepthwiseTaps : public Rule {
 public:
  std::string_view name() const override { return "depthwise_taps"; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    const auto view = ConvolutionView::of(instruction);
    if (!view || view->batch_groups() != 1 || view->feature_groups() != view->input_features()) {
      return false;
    }
    int64_t taps = 1;
    for (size_t s = 0; s < view->spatial_rank(); ++s) {
      if (view->window()[s].size > kMaxWindow) return false;
      taps *= static_cast<int64_t>(view->live_taps(s).size());
      if (taps < 1 || taps > kMaxTaps) return false;
    }
    return true;
  }

  bool is_promising(const Instruction&) const override { return true; }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    if (!matches(instruction)) throw std::invalid_argument("depthwise_taps: does not match");
    return DepthwiseEmitter(builder, *ConvolutionView::of(instruction)).emit();
  }

 private:
  static constexpr int64_t kMaxWindow = 4096;
};

}  // namespace

const Rule& depthwise_taps_rule() {
  static const DepthwiseTaps kRule;
  return kRule;
}

}  // namespace lagom::rewrite

#include <algorithm>
#include <stdexcept>
#include <string>

#include "lagom/rewrite/convolution_view.h"
#include "lagom/rewrite/patterns.h"
#include "lagom/rewrite/rules.h"

namespace lagom::rewrite {
namespace {

using hlo::Builder;
using hlo::Dims;
using hlo::Instruction;

constexpr int64_t kMaxTaps = 64;

// The sum over taps, and over the input features of a group, of a shifted slice of the input times
// one weight per output feature. Output features are split into [groups, features per group] while
// it is formed: several that read one input feature then need a broadcast instead of a gather.
class GroupedTapsEmitter {
 public:
  GroupedTapsEmitter(Builder& builder, const ConvolutionView& view)
      : builder_(builder),
        view_(view),
        order_(view.output_order()),
        groups_(view.feature_groups()),
        multiplier_(view.output_features() / view.feature_groups()) {
    for (int64_t role : order_) {
      if (role == ConvolutionView::kFeature) {
        feature_places_.push_back(static_cast<int64_t>(split_dims_.size()));
        split_dims_.push_back(groups_);
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
      Instruction* const slice = slice_tap(builder_, view_, padded, order_, tap);
      for (int64_t i = 0; i < view_.input_features() / groups_; ++i) {
        Instruction* const product = builder_.multiply(spread_input(feature_of_groups(slice, i)),
                                                       spread_weight(kernel, tap, i));
        sum = sum == nullptr ? product : builder_.add(sum, product);
      }
    });
    return builder_.convert(builder_.reshape(sum, view_.shape().dimensions),
                            view_.shape().element_type);
  }

 private:
  // [output dims with the input's features] -> feature i of every group
  Instruction* feature_of_groups(Instruction* slice, int64_t i) {
    const auto place = static_cast<size_t>(
        std::find(order_.begin(), order_.end(), ConvolutionView::kFeature) - order_.begin());
    std::vector<hlo::SliceDim> features = whole(slice);
    features[place].start = i;
    features[place].stride = view_.input_features() / groups_;
    return builder_.slice(slice, std::move(features));
  }

  // [output dims with groups as features] -> split_dims_
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
  Instruction* spread_weight(Instruction* kernel, const std::vector<int64_t>& tap, int64_t i) {
    std::vector<hlo::SliceDim> slice = whole(kernel);
    slice[view_.dims().kernel_input_feature] = {.start = i, .limit = i + 1};
    for (size_t s = 0; s < tap.size(); ++s) {
      const int64_t index = view_.kernel_index(s, tap[s]);
      slice[view_.dims().kernel_spatial[s]] = {.start = index, .limit = index + 1};
    }
    Dims features = {groups_};
    if (multiplier_ > 1) features.push_back(multiplier_);
    Instruction* const weight =
        builder_.reshape(builder_.slice(kernel, std::move(slice)), std::move(features));
    return builder_.broadcast(weight, split_dims_, feature_places_);
  }

  Builder& builder_;
  const ConvolutionView& view_;
  std::vector<int64_t> order_;
  int64_t groups_;
  int64_t multiplier_;
  Dims split_dims_;      // The output's dimensions with the features split.
  Dims feature_places_;  // Where the split features stand in it.
};

class GroupedTaps : public Rule {
 public:
  // Takes convolutions with this many input features per group; 0: with more than one.
  GroupedTaps(std::string_view name, int64_t per_group) : name_(name), per_group_(per_group) {}
  std::string_view name() const override { return name_; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    const auto view = ConvolutionView::of(instruction);
    if (!view || view->batch_groups() != 1) return false;
    const int64_t per_group = view->input_features() / view->feature_groups();
    if (per_group_ == 0 ? per_group == 1 || view->feature_groups() == 1 : per_group != per_group_) {
      return false;
    }
    int64_t products = per_group;
    if (products > kMaxTaps) return false;
    for (size_t s = 0; s < view->spatial_rank(); ++s) {
      if (view->window()[s].size > kMaxWindow) return false;
      products *= static_cast<int64_t>(view->live_taps(s).size());
      if (products < 1 || products > kMaxTaps) return false;
    }
    return true;
  }

  bool is_promising(const Instruction& instruction) const override {
    const auto view = *ConvolutionView::of(instruction);
    return view.input_features() / view.feature_groups() <= 4;
  }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    if (!matches(instruction)) throw std::invalid_argument(std::string(name_) + ": does not match");
    return GroupedTapsEmitter(builder, *ConvolutionView::of(instruction)).emit();
  }

 private:
  static constexpr int64_t kMaxWindow = 4096;
  std::string_view name_;
  int64_t per_group_;
};

}  // namespace

const Rule& depthwise_taps_rule() {
  static const GroupedTaps kRule("depthwise_taps", /*per_group=*/1);
  return kRule;
}

const Rule& grouped_taps_rule() {
  static const GroupedTaps kRule("grouped_taps", /*per_group=*/0);
  return kRule;
}

}  // namespace lagom::rewrite

#include "lagom/tune/conditions.h"

#include <algorithm>
#include <string_view>

#include "lagom/rewrite/convolution_view.h"

namespace lagom::tune {
namespace {

using rewrite::ConvolutionView;

/// The rule of this name where it fits; nullptr elsewhere.
const rewrite::Rule* if_matches(std::string_view name, const hlo::Instruction& instruction) {
  const rewrite::Rule* rule = rewrite::find_rule(name);
  return rule != nullptr && rule->matches(instruction) ? rule : nullptr;
}

template <typename Predicate>
bool any_dim(const ConvolutionView& view, Predicate&& predicate) {
  return std::any_of(view.window().begin(), view.window().end(), predicate);
}

const rewrite::Rule* with_holes(const ConvolutionView& view, int64_t columns) {
  const hlo::Instruction& conv = view.instruction();
  if (view.spatial_rank() >= 3) return if_matches("phases_im2col", conv);
  if (any_dim(view, [](const hlo::WindowDim& d) { return d.size >= 8; })) {
    return if_matches("phases", conv);
  }
  if (columns <= 16 || view.window_elements() == 1) return if_matches("col2im", conv);
  return nullptr;
}

}  // namespace

const rewrite::Rule* form_by_conditions(const hlo::Instruction& instruction) {
  for (const char* depthwise : {"depthwise_taps", "depthwise_weight_gradient"}) {
    if (const rewrite::Rule* rule = if_matches(depthwise, instruction)) return rule;
  }
  const auto view = ConvolutionView::of(instruction);
  if (!view) return nullptr;
  const int64_t columns = view->output_batch() * view->output_positions();
  if (any_dim(*view, [](const hlo::WindowDim& d) { return d.base_dilation > 1; })) {
    return with_holes(*view, columns);
  }
  const bool is_strided_gradient =
      any_dim(*view, [](const hlo::WindowDim& d) { return d.window_dilation > 1 && d.size >= 16; });
  if (is_strided_gradient || (view->output_positions() == 1 && view->window_elements() > 1)) {
    if (const rewrite::Rule* rule = if_matches("position_dots", instruction)) return rule;
  }
  if (view->dims().kernel_output_feature == 0 && view->dims().kernel_input_feature == 1) {
    const bool is_small =
        columns <= 64 || (view->window_elements() == 1 && view->output_batch() <= 2);
    return is_small ? if_matches("im2col_dot_weights_first", instruction) : nullptr;
  }
  const bool is_slow =
      view->has_kernel_larger_than_input() || (columns <= 16 && view->input_features() >= 128);
  return is_slow ? if_matches("im2col_dot", instruction) : nullptr;
}

rewrite::Configuration configuration_by_conditions(const SearchSpace& space) {
  rewrite::Configuration configuration;
  for (const Kernel& kernel : space.kernels()) {
    const hlo::Instruction* node = kernel.cut_out.module.entry()->find(kernel.cut_out.node);
    if (node == nullptr) continue;
    if (const rewrite::Rule* rule = form_by_conditions(*node)) {
      space.set_form(configuration, kernel, rule);
    }
  }
  return configuration;
}

}  // namespace lagom::tune

#include "lagom/tune/form_beliefs.h"

#include <algorithm>
#include <cmath>

#include "lagom/tune/kernel_features.h"
#include "lagom/tune/kernel_search.h"

namespace lagom::tune {
namespace {

// How promising forms (736) and others (2,327) fared in the study of 186 programs: mean and
// deviation of log(ratio).
constexpr Belief kPromising{.mean = -0.9, .deviation = 1.1};
constexpr Belief kOther{.mean = 0.26, .deviation = 0.52};

std::string_view platform_of(std::string_view device) {
  return device.substr(0, device.find(' '));
}

}  // namespace

FormBeliefs::FormBeliefs(Neighbours neighbours, CostModel model, std::string_view device,
                         double model_deviation)
    : neighbours_(std::move(neighbours)),
      costs_(std::move(model.costs)),
      model_deviation_(model_deviation) {
  if (!costs_ || model.devices.empty()) return;
  const auto doubt = [&](const std::string& trained) { return doubt_of_device(trained, device); };
  const std::string& nearest = *std::ranges::min_element(model.devices, {}, doubt);
  const double more = doubt(nearest);
  const std::string both = "it was trained on " + nearest + ", this is " + std::string(device);
  if (std::ranges::none_of(model.devices, [&](const std::string& trained) {
        return platform_of(trained) == platform_of(device);
      })) {
    model_error_ = both;
    costs_ = {};
  } else {
    if (more > model_deviation_) model_doubt_ = both;  // not of other CPUs alone
    model_deviation_ = std::hypot(model_deviation_, more);
  }
}

std::vector<Belief> FormBeliefs::of(const Kernel& kernel) {
  std::vector<Belief> beliefs;
  if (kernel.rules.empty()) return beliefs;
  const std::vector<float> node = describe_node(kernel.cut_out.module, kernel.cut_out.node);
  const std::string opcode(hlo::opcode_name(kernel.opcode));
  std::vector<rewrite::Configuration> configurations(1);
  for (const rewrite::Rule* rule : kernel.rules) {
    const std::string text = form_configuration(*rule);
    configurations.push_back(rewrite::Configuration::from_string(text));
    const bool is_promising =
        std::find(kernel.promising.begin(), kernel.promising.end(), rule) != kernel.promising.end();
    beliefs.push_back(
        combine(is_promising ? kPromising : kOther, neighbours_.log_ratio(opcode, node, text)));
  }
  if (!costs_) return beliefs;
  try {
    const std::vector<double> costs = costs_(kernel.cut_out.module, configurations);
    for (size_t i = 0; i < beliefs.size(); ++i) {
      beliefs[i] =
          combine(beliefs[i], {.mean = costs.at(i + 1) - costs[0], .deviation = model_deviation_});
    }
  } catch (const std::exception& error) {
    model_error_ = error.what();
    costs_ = {};
  }
  return beliefs;
}

}  // namespace lagom::tune

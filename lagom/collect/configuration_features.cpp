#include "lagom/collect/configuration_features.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <unordered_map>

#include "lagom/graph/op_graph.h"

namespace lagom::collect {
namespace {

using rewrite::Configuration;
using rewrite::Decision;
using rewrite::DecisionKind;

// Append only: the place is the number in data files.
constexpr std::string_view kForms[] = {
    "depthwise_taps",
    "depthwise_weight_gradient",
    "im2col_dot",
    "im2col_dot_weights_first",
    "position_dots",
    "tap_dots",
    "phases",
    "phases_im2col",
    "col2im",
    "pool_slices",
    "max_pool_gradient_slices",
    "trimmed_convolution",
    "padded_convolution",
    "float32_convolution",
    "grouped_taps",
    "pool_separable",
    "row_dots",
    "swapped_dot",
    "ordered_dot",
    "swapped_ordered_dot",
    "outer_product",
    "float32_dot",
    "merged_dots",
    "ones_dot",
    "arg_select",
    "unmasked_gather",
    "bf16_dot",
    "bf16_convolution",
    "normalization_affine",
    "folded_scale",
};

float flag_number(const std::string& name, const FlagValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<float>(*number);
  if (const auto* number = std::get_if<double>(&value)) return static_cast<float>(*number);
  throw std::invalid_argument("flag " + name + " has a text as its value");
}

/// Every instruction's number, as in graph::OpGraph.
std::unordered_map<std::string, int64_t> node_numbers(const hlo::Module& module) {
  std::unordered_map<std::string, int64_t> numbers;
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) {
      numbers.emplace(i->name, static_cast<int64_t>(numbers.size()));
    }
  }
  return numbers;
}

class Filler {
 public:
  Filler(const hlo::Module& module, const std::vector<Configuration>& configurations) {
    const auto numbers = node_numbers(module);
    for (const Configuration& configuration : configurations) {
      for (const Decision& d : configuration.decisions) {
        const auto it = numbers.find(d.instruction);
        if (it == numbers.end()) {
          throw std::invalid_argument("decision '" + d.to_string() +
                                      "': the module has no instruction of that name");
        }
        places_[it->second] = 0;
        by_name_[d.instruction] = it->second;
      }
    }
    for (auto& [node, place] : places_) {
      place = features_.node_config_ids.size();
      features_.node_config_ids.push_back(node);
    }
    const size_t cells = configurations.size() * places_.size();
    features_.node_config_feat.assign(cells * graph::kLayoutConfigFeatures, -1);
    features_.node_config_form.assign(cells, 0);
    features_.node_config_barrier.assign(cells, 0);
    features_.config_flags.assign(configurations.size() * flag_columns().size(), -1);
    for (size_t c = 0; c < configurations.size(); ++c) fill(c, configurations[c]);
  }

  ConfigurationFeatures take() { return std::move(features_); }

 private:
  void fill(size_t row, const Configuration& configuration) {
    for (const Decision& d : configuration.decisions) {
      const size_t cell = row * places_.size() + places_.at(by_name_.at(d.instruction));
      switch (d.kind) {
        case DecisionKind::kForm: {
          const int number = form_number(d.form);
          if (number == 0) throw std::invalid_argument("form '" + d.form + "' has no number");
          features_.node_config_form[cell] = static_cast<int16_t>(number);
          break;
        }
        case DecisionKind::kOutputLayout:
          set_layout(cell, 0, d.layout);
          break;
        case DecisionKind::kOperandLayout:
          set_layout(cell, static_cast<size_t>(d.operand) + 1, d.layout);
          break;
        case DecisionKind::kBarrier:
          if (d.operand < 8) {
            features_.node_config_barrier[cell] |= static_cast<uint8_t>(1 << d.operand);
          }
          break;
      }
    }
    const auto& columns = flag_columns();
    for (const auto& [name, value] : configuration.flags) {
      const auto it = std::find(columns.begin(), columns.end(), name);
      if (it == columns.end()) throw std::invalid_argument("flag '" + name + "' has no column");
      features_.config_flags[row * columns.size() + static_cast<size_t>(it - columns.begin())] =
          flag_number(name, value);
    }
  }

  // Tensors as TpuGraphs has them: output, input, kernel. Other operands have no place there.
  void set_layout(size_t cell, size_t tensor, const hlo::Dims& layout) {
    if (tensor * graph::kFeatureRank >= graph::kLayoutConfigFeatures) return;
    for (size_t d = 0; d < std::min(layout.size(), graph::kFeatureRank); ++d) {
      features_.node_config_feat[cell * graph::kLayoutConfigFeatures +
                                 tensor * graph::kFeatureRank + d] = static_cast<float>(layout[d]);
    }
  }

  std::map<int64_t, size_t> places_;  // node number -> place among the configurable ones
  std::unordered_map<std::string, int64_t> by_name_;
  ConfigurationFeatures features_;
};

}  // namespace

int form_number(std::string_view rule) {
  const auto* it = std::find(std::begin(kForms), std::end(kForms), rule);
  return it == std::end(kForms) ? 0 : static_cast<int>(it - std::begin(kForms)) + 1;
}

const std::vector<std::string>& flag_columns() {
  // Append only.
  static const std::vector<std::string> kColumns = {
      "xla_cpu_prefer_vector_width",
      "xla_cpu_enable_concurrency_optimized_scheduler",
      "xla_llvm_disable_expensive_passes",
      "xla_cpu_use_xnnpack",
      "xla_cpu_use_onednn",
      "xla_cpu_enable_fast_math",
      "xla_cpu_enable_fast_min_max",
  };
  return kColumns;
}

ConfigurationFeatures configuration_features(const hlo::Module& module,
                                             const std::vector<Configuration>& configurations) {
  return Filler(module, configurations).take();
}

}  // namespace lagom::collect

#include "lagom/collect/form_trees.h"

#include <charconv>
#include <limits>
#include <memory>

#include "lagom/collect/configuration_features.h"
#include "lagom/graph/op_graph.h"
#include "lagom/rank/boosted_trees.h"
#include "lagom/rewrite/rule.h"
#include "lagom/tune/kernel_features.h"
#include "lagom/util/error.h"

namespace lagom::collect {
namespace {

class FormTrees {
 public:
  explicit FormTrees(const std::filesystem::path& path)
      : path_(path.string()), trees_(rank::BoostedTrees::load(path)) {
    for (const std::string& name : trees_.feature_names()) columns_.push_back(column_of(name));
  }

  double cost(const hlo::Module& module, const rewrite::Configuration& configuration) const {
    if (configuration.is_default()) return 0;
    const auto& decisions = configuration.decisions;
    if (decisions.size() != 1 || decisions[0].kind != rewrite::DecisionKind::kForm ||
        !configuration.flags.empty()) {
      throw FormatError(path_, "", "knows single forms only, not " + configuration.to_string());
    }
    const hlo::Instruction* node = module.entry()->find(decisions[0].instruction);
    const rewrite::Rule* rule = rewrite::find_rule(decisions[0].form);
    if (node == nullptr || rule == nullptr) {
      throw FormatError(path_, "", "there is nothing for " + configuration.to_string());
    }
    const std::vector<float> description = tune::describe_node(module, node->name);
    std::vector<double> features;
    for (const int column : columns_) {
      if (column == kOpcode) {
        features.push_back(graph::opcode_number(node->opcode, 2));
      } else if (column == kForm) {
        features.push_back(form_number(rule->name()));
      } else if (column == kPromising) {
        features.push_back(rule->is_promising(*node) ? 1 : 0);
      } else if (static_cast<size_t>(column) < description.size()) {
        features.push_back(static_cast<double>(description[static_cast<size_t>(column)]));
      } else {
        features.push_back(std::numeric_limits<double>::quiet_NaN());
      }
    }
    return trees_.predict(features);
  }

 private:
  static constexpr int kOpcode = -1, kForm = -2, kPromising = -3;  ///< Else a place of the node's.

  int column_of(const std::string& name) const {
    if (name == "opcode") return kOpcode;
    if (name == "form") return kForm;
    if (name == "is_promising") return kPromising;
    constexpr std::string_view kNode = "node_";
    int place = 0;
    const char* end = name.data() + name.size();
    if (!name.starts_with(kNode) ||
        std::from_chars(name.data() + kNode.size(), end, place).ptr != end || place < 0) {
      throw FormatError(path_, "feature_names",
                        "expected opcode, form, is_promising or node_K, found " + name);
    }
    return place;
  }

  std::string path_;
  rank::BoostedTrees trees_;
  std::vector<int> columns_;
};

}  // namespace

tune::CostModel load_form_trees(const std::filesystem::path& path) {
  const auto trees = std::make_shared<const FormTrees>(path);
  return {.costs =
              [trees](const hlo::Module& module,
                      const std::vector<rewrite::Configuration>& configurations) {
                std::vector<double> costs;
                for (const auto& each : configurations) costs.push_back(trees->cost(module, each));
                return costs;
              },
          .devices = {}};
}

}  // namespace lagom::collect

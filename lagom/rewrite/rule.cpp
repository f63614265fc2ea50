#include "lagom/rewrite/rule.h"

#include <stdexcept>
#include <string>

#include "lagom/hlo/edit.h"
#include "lagom/rewrite/rules.h"

namespace lagom::rewrite {

std::string_view rule_class_name(RuleClass rule_class) {
  switch (rule_class) {
    case RuleClass::kExact:
      return "exact";
    case RuleClass::kReassociates:
      return "reassociates";
    case RuleClass::kRelaxes:
      return "relaxes";
  }
  return "";
}

const std::vector<const Rule*>& all_rules() {
  static const std::vector<const Rule*> kRules = {
      &depthwise_taps_rule(),
      &depthwise_weight_gradient_rule(),
      &im2col_dot_rule(),
      &im2col_dot_weights_first_rule(),
      &position_dots_rule(),
      &tap_dots_rule(),
      &phases_rule(),
      &phases_im2col_rule(),
      &col2im_rule(),
      &trimmed_convolution_rule(),
      &padded_convolution_rule(),
      &float32_convolution_rule(),
      &grouped_taps_rule(),
      &pool_slices_rule(),
      &pool_separable_rule(),
      &max_pool_gradient_slices_rule(),
      &row_dots_rule(),
      &swapped_dot_rule(),
      &ordered_dot_rule(),
      &swapped_ordered_dot_rule(),
      &outer_product_rule(),
      &float32_dot_rule(),
      &merged_dots_rule(),
      &ones_dot_rule(),
      &arg_select_rule(),
      &unmasked_gather_rule(),
      &bf16_dot_rule(),
      &bf16_convolution_rule(),
      &normalization_affine_rule(),
      &folded_scale_rule(),
  };
  return kRules;
}

const Rule* find_rule(std::string_view name) {
  for (const Rule* rule : all_rules()) {
    if (rule->name() == name) return rule;
  }
  return nullptr;
}

std::vector<hlo::Instruction*> Rule::group(const hlo::Computation&,
                                           hlo::Instruction& instruction) const {
  return {&instruction};
}

std::vector<hlo::Instruction*> Rule::emit_group(hlo::Builder& builder,
                                                const std::vector<hlo::Instruction*>& group) const {
  return {emit(builder, *group.at(0))};
}

bool fits(const Rule& rule, const hlo::Computation& computation, hlo::Instruction& instruction) {
  return rule.matches(instruction) &&
         (!rule.is_group_rule() || rule.group(computation, instruction).size() > 1);
}

hlo::Instruction* apply_rule(const Rule& rule, hlo::Module& module, hlo::Computation& computation,
                             hlo::NameTable& names, hlo::Instruction* instruction) {
  if (!rule.matches(*instruction)) {
    throw std::invalid_argument(std::string(rule.name()) + ": does not match '" +
                                instruction->name + "'");
  }
  return replace_group(rule, module, computation, names, rule.group(computation, *instruction))
      .at(0);
}

std::vector<hlo::Instruction*> replace_group(const Rule& rule, hlo::Module& module,
                                             hlo::Computation& computation, hlo::NameTable& names,
                                             const std::vector<hlo::Instruction*>& group) {
  hlo::Builder builder(module, computation, names, group.at(0));
  builder.set_origin(group[0]);
  std::vector<hlo::Instruction*> replacements = rule.emit_group(builder, group);
  builder.commit();
  for (size_t i = 0; i < group.size(); ++i) {
    hlo::replace_instruction(computation, group[i], replacements.at(i));
  }
  return replacements;
}

}  // namespace lagom::rewrite

#include "lagom/rewrite/rule.h"

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
      &pool_slices_rule(),
      &max_pool_gradient_slices_rule(),
  };
  return kRules;
}

const Rule* find_rule(std::string_view name) {
  for (const Rule* rule : all_rules()) {
    if (rule->name() == name) return rule;
  }
  return nullptr;
}

hlo::Instruction* apply_rule(const Rule& rule, hlo::Module& module, hlo::Computation& computation,
                             hlo::NameTable& names, hlo::Instruction* instruction) {
  hlo::Builder builder(module, computation, names, instruction);
  builder.set_origin(instruction);
  hlo::Instruction* const replacement = rule.emit(builder, *instruction);
  builder.commit();
  hlo::replace_instruction(computation, instruction, replacement);
  return replacement;
}

}  // namespace lagom::rewrite

#include <algorithm>
#include <stdexcept>

#include "lagom/rewrite/patterns.h"
#include "lagom/rewrite/rules.h"
#include "lagom/rewrite/value_range.h"

namespace lagom::rewrite {
namespace {

using hlo::Instruction;
using hlo::Opcode;

class UnmaskedGather : public Rule {
 public:
  std::string_view name() const override { return "unmasked_gather"; }
  RuleClass rule_class() const override { return RuleClass::kExact; }

  bool matches(const Instruction& instruction) const override {
    if (instruction.opcode != Opcode::kSelect || is_sharded(instruction) ||
        instruction.shape.is_dynamic() || instruction.operand(1).opcode != Opcode::kGather) {
      return false;
    }
    return RangeAnalysis().of(instruction.operand(0)) == ValueRange{1, 1};
  }

  bool is_promising(const Instruction&) const override { return true; }

  // The gather and what proves that its indices are valid.
  std::vector<const Instruction*> inner_nodes(const Instruction& instruction) const override {
    RangeAnalysis analysis;
    analysis.of(instruction.operand(0));
    std::vector<const Instruction*> nodes = analysis.used();
    nodes.push_back(instruction.operands[1]);
    return nodes;
  }

  hlo::Instruction* emit(hlo::Builder&, const Instruction& instruction) const override {
    if (!matches(instruction)) throw std::invalid_argument("unmasked_gather: does not match");
    return instruction.operands[1];
  }
};

}  // namespace

const Rule& unmasked_gather_rule() {
  static const UnmaskedGather kRule;
  return kRule;
}

}  // namespace lagom::rewrite

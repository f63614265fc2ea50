#include "lagom/rewrite/cut_out.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_set>

#include "lagom/hlo/builder.h"
#include "lagom/hlo/edit.h"
#include "lagom/hlo/text_writer.h"
#include "lagom/util/hash.h"

namespace lagom::rewrite {
namespace {

using hlo::Instruction;
using hlo::Opcode;

/// Larger constants stay outside, as parameters: their values would only bloat the module.
constexpr int64_t kMaxConstantElements = 4096;

bool comes_along(const Instruction& operand) {
  switch (operand.opcode) {
    case Opcode::kConstant:
      return operand.literal && !operand.literal->elided &&
             operand.shape.num_elements() <= kMaxConstantElements;
    case Opcode::kIota:
      return true;
    case Opcode::kBroadcast:
      return operand.operand(0).shape.is_scalar() && comes_along(operand.operand(0));
    default:
      return false;
  }
}

class Cutter {
 public:
  Cutter() : names_(module_) {
    module_.set_entry(module_.add_computation(std::make_unique<hlo::Computation>("main")));
  }

  CutOut cut(const RewriteSite& site) {
    inner_.insert(site.inner.begin(), site.inner.end());
    std::vector<Instruction*> nodes;
    for (const Instruction* instruction : site.replaced) {
      for (const Instruction* operand : instruction->operands) bring(*operand);
    }
    for (const Instruction* instruction : site.replaced) {
      const std::string number = nodes.empty() ? "" : std::to_string(nodes.size());
      nodes.push_back(copy_with_callees(*instruction, "node" + number));
    }
    module_.entry()->set_root(nodes.size() == 1 ? nodes[0] : tuple_of(nodes));
    for (const auto& computation : module_.computations()) {
      for (const auto& i : computation->instructions()) {
        i->metadata.reset();
        if (i->attributes.rare) {
          i->attributes.rare->frontend_attributes.clear();
          i->attributes.rare->sharding.reset();
        }
      }
    }
    canonical_names();
    CutOut result{.module = std::move(module_), .node = "node", .signature = ""};
    result.module.name = "kernel";
    result.signature = hex64(hash64(hlo::write_hlo_text(result.module)));
    return result;
  }

 private:
  Instruction* copy(const Instruction& instruction, const std::string& name) {
    auto owned = hlo::copy_instruction(instruction, instructions_, computations_);
    owned->name = name;
    owned->control_predecessors.clear();
    return instructions_[&instruction] = module_.entry()->append(std::move(owned));
  }

  Instruction* copy_with_callees(const Instruction& instruction, const std::string& name) {
    for (const hlo::Computation* called : instruction.called) {
      hlo::copy_computation(*called, module_, names_, computations_, module_.entry());
    }
    return copy(instruction, name);
  }

  Instruction* tuple_of(const std::vector<Instruction*>& nodes) {
    return hlo::Builder(module_, *module_.entry(), names_).tuple(nodes);
  }

  void bring(const Instruction& operand) {
    if (instructions_.contains(&operand)) return;
    if (inner_.contains(&operand) || comes_along(operand)) {
      for (const Instruction* inner : operand.operands) bring(*inner);
      copy_with_callees(operand, "v" + std::to_string(instructions_.size()));
      return;
    }
    auto parameter = std::make_unique<Instruction>();
    parameter->name = "p" + std::to_string(num_parameters_);
    parameter->opcode = Opcode::kParameter;
    parameter->attributes.parameter_number = num_parameters_++;
    parameter->shape = operand.shape;
    instructions_[&operand] = module_.entry()->append(std::move(parameter));
  }

  /// Called computations keep the names of the program they come from: number them instead.
  void canonical_names() {
    int count = 0;
    for (const auto& computation : module_.computations()) {
      if (computation.get() == module_.entry()) continue;
      computation->set_name("c" + std::to_string(count));
      int inner = 0;
      for (const auto& i : computation->instructions()) {
        i->name = "c" + std::to_string(count) + "_" + std::to_string(inner++);
      }
      ++count;
    }
  }

  hlo::Module module_{"kernel"};
  hlo::NameTable names_;
  std::unordered_set<const Instruction*> inner_;
  hlo::InstructionMap instructions_;
  hlo::ComputationMap computations_;
  int64_t num_parameters_ = 0;
};

}  // namespace

RewriteSite RewriteSite::of(const Rule& rule, const hlo::Computation& computation,
                            hlo::Instruction& instruction) {
  const std::vector<Instruction*> group = rule.group(computation, instruction);
  return {.replaced = {group.begin(), group.end()}, .inner = rule.inner_nodes(instruction)};
}

bool can_cut_out(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kParameter:
    case Opcode::kConstant:
    case Opcode::kIota:
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kAfterAll:
    case Opcode::kAddDependency:
    case Opcode::kReplicaId:
    case Opcode::kPartitionId:
    case Opcode::kAsyncStart:
    case Opcode::kAsyncUpdate:
    case Opcode::kAsyncDone:
    case Opcode::kCopyStart:
    case Opcode::kCopyDone:
      return false;
    default:
      break;
  }
  if (instruction.shape.is_dynamic() || hlo::must_keep(instruction)) return false;
  for (const Instruction* operand : instruction.operands) {
    if (!operand->shape.is_array() || operand->shape.is_dynamic()) return false;
  }
  return true;
}

bool can_cut_out(const RewriteSite& site) {
  const auto can = [](const Instruction* i) { return can_cut_out(*i); };
  return std::all_of(site.replaced.begin(), site.replaced.end(), can) &&
         std::none_of(site.inner.begin(), site.inner.end(),
                      [](const Instruction* i) { return hlo::must_keep(*i); });
}

CutOut cut_out(const Instruction& instruction) {
  if (!can_cut_out(instruction)) {
    throw std::invalid_argument("cut_out: '" + instruction.name + "' (" +
                                std::string(hlo::opcode_name(instruction.opcode)) +
                                ") cannot stand alone");
  }
  return Cutter().cut({.replaced = {&instruction}, .inner = {}});
}

CutOut cut_out(const RewriteSite& site) {
  if (!can_cut_out(site)) {
    throw std::invalid_argument("cut_out: the pattern at '" + site.replaced.at(0)->name +
                                "' cannot stand alone");
  }
  return Cutter().cut(site);
}

}  // namespace lagom::rewrite

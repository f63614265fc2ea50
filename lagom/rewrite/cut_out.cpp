#include "lagom/rewrite/cut_out.h"

#include <stdexcept>
#include <unordered_map>

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

  CutOut cut(const Instruction& instruction) {
    for (const Instruction* operand : instruction.operands) bring(*operand);
    for (const hlo::Computation* called : instruction.called) {
      hlo::copy_computation(*called, module_, names_, computations_, module_.entry());
    }
    Instruction* node = copy(instruction, "node");
    module_.entry()->set_root(node);
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

  void bring(const Instruction& operand) {
    if (instructions_.contains(&operand)) return;
    if (comes_along(operand)) {
      for (const Instruction* inner : operand.operands) bring(*inner);
      copy(operand, "v" + std::to_string(instructions_.size()));
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
  hlo::InstructionMap instructions_;
  hlo::ComputationMap computations_;
  int64_t num_parameters_ = 0;
};

}  // namespace

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

CutOut cut_out(const Instruction& instruction) {
  if (!can_cut_out(instruction)) {
    throw std::invalid_argument("cut_out: '" + instruction.name + "' (" +
                                std::string(hlo::opcode_name(instruction.opcode)) +
                                ") cannot stand alone");
  }
  return Cutter().cut(instruction);
}

}  // namespace lagom::rewrite

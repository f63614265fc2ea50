#include "lagom/hlo/edit.h"

#include <algorithm>
#include <stdexcept>

namespace lagom::hlo {
namespace {

// "add.12" -> "add"; names without a number stay.
std::string_view without_number(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 1 == name.size()) return name;
  const std::string_view tail = name.substr(dot + 1);
  const bool number =
      std::all_of(tail.begin(), tail.end(), [](char c) { return c >= '0' && c <= '9'; });
  return number ? name.substr(0, dot) : name;
}

void replace_in(std::vector<Instruction*>& list, Instruction* from, Instruction* to) {
  std::replace(list.begin(), list.end(), from, to);
}

bool calls_for_keeping(const Computation& computation,
                       std::unordered_set<const Computation*>& seen);

bool must_keep_impl(const Instruction& instruction, std::unordered_set<const Computation*>& seen) {
  if (instruction.opcode == Opcode::kParameter || has_side_effect(instruction.opcode) ||
      instruction.rare().custom_call_has_side_effect) {
    return true;
  }
  return std::any_of(instruction.called.begin(), instruction.called.end(),
                     [&](const Computation* c) { return c && calls_for_keeping(*c, seen); });
}

// Each computation is looked at once; one seen before without success cannot answer yes later.
bool calls_for_keeping(const Computation& computation,
                       std::unordered_set<const Computation*>& seen) {
  if (!seen.insert(&computation).second) return false;
  return std::any_of(computation.instructions().begin(), computation.instructions().end(),
                     [&](const std::unique_ptr<Instruction>& inner) {
                       return inner->opcode != Opcode::kParameter && must_keep_impl(*inner, seen);
                     });
}

}  // namespace

NameTable::NameTable(const Module& module) {
  taken_.reserve(module.num_instructions());
  for (const auto& computation : module.computations()) {
    taken_.insert(computation->name());
    for (const auto& instruction : computation->instructions()) taken_.insert(instruction->name);
  }
}

std::string NameTable::fresh(std::string_view base) {
  if (taken_.insert(std::string(base)).second) return std::string(base);
  const std::string stem(without_number(base));
  int64_t& number = next_[stem];
  std::string name;
  do {
    name = stem + "." + std::to_string(++number);
  } while (!taken_.insert(name).second);
  return name;
}

void replace_all_uses(Computation& computation, Instruction* from, Instruction* to) {
  for (const auto& instruction : computation.instructions()) {
    if (instruction.get() == to) continue;
    replace_in(instruction->operands, from, to);
    replace_in(instruction->control_predecessors, from, to);
  }
  if (computation.root() == from) computation.set_root(to);
}

void replace_instruction(Computation& computation, Instruction* from, Instruction* to) {
  if (from->opcode == Opcode::kParameter) {
    throw std::invalid_argument("replace_instruction: '" + from->name + "' is a parameter");
  }
  if (std::find(to->operands.begin(), to->operands.end(), from) != to->operands.end()) {
    throw std::invalid_argument("replace_instruction: '" + to->name + "' reads '" + from->name +
                                "'");
  }
  if (!same_shape(from->shape, to->shape)) {
    throw std::invalid_argument("replace_instruction: '" + from->name + "' is " +
                                from->shape.to_string() + ", its replacement '" + to->name +
                                "' is " + to->shape.to_string());
  }
  replace_all_uses(computation, from, to);
  std::vector<std::unique_ptr<Instruction>> all = computation.release_instructions();
  std::erase_if(all, [from](const auto& instruction) { return instruction.get() == from; });
  Instruction* const root = computation.root();
  computation.set_instructions(std::move(all));
  computation.set_root(root);
}

bool must_keep(const Instruction& instruction) {
  std::unordered_set<const Computation*> seen;
  return must_keep_impl(instruction, seen);
}

size_t remove_dead_code(Computation& computation) {
  std::unordered_set<const Instruction*> live;
  const auto mark = [&live](const std::vector<Instruction*>& list) {
    live.insert(list.begin(), list.end());
  };
  Instruction* const root = computation.root();
  if (root != nullptr) live.insert(root);
  // Operands precede users, so one backward pass sees every reader before what it reads.
  const auto& instructions = computation.instructions();
  for (auto it = instructions.rbegin(); it != instructions.rend(); ++it) {
    const Instruction& instruction = **it;
    if (!live.contains(&instruction) && !must_keep(instruction)) continue;
    live.insert(&instruction);
    mark(instruction.operands);
    mark(instruction.control_predecessors);
  }
  const size_t before = computation.size();
  if (live.size() == before) return 0;
  std::vector<std::unique_ptr<Instruction>> all = computation.release_instructions();
  std::erase_if(all,
                [&live](const auto& instruction) { return !live.contains(instruction.get()); });
  computation.set_instructions(std::move(all));
  computation.set_root(root);
  return before - computation.size();
}

size_t remove_dead_code(Module& module) {
  size_t removed = 0;
  for (const auto& computation : module.computations()) removed += remove_dead_code(*computation);
  const size_t before = module.num_instructions();
  module.remove_unreached_computations();
  return removed + before - module.num_instructions();
}

std::unique_ptr<Instruction> copy_instruction(const Instruction& instruction,
                                              const InstructionMap& instructions,
                                              const ComputationMap& computations) {
  auto copy = std::make_unique<Instruction>(instruction);
  for (auto* list : {&copy->operands, &copy->control_predecessors}) {
    for (Instruction*& entry : *list) {
      if (const auto it = instructions.find(entry); it != instructions.end()) entry = it->second;
    }
  }
  for (Computation*& entry : copy->called) {
    if (const auto it = computations.find(entry); it != computations.end()) entry = it->second;
  }
  copy->id = 0;
  return copy;
}

Computation* copy_computation(const Computation& source, Module& target, NameTable& names,
                              ComputationMap& copied, const Computation* before) {
  if (const auto it = copied.find(&source); it != copied.end()) return it->second;
  for (const auto& instruction : source.instructions()) {
    for (const Computation* callee : instruction->called) {
      copy_computation(*callee, target, names, copied, before);
    }
  }
  auto copy = std::make_unique<Computation>(names.fresh(source.name()));
  copy->execution_thread = source.execution_thread;
  copy->is_fusion = source.is_fusion;
  copy->unknown_fields = source.unknown_fields;
  InstructionMap instructions;
  for (const auto& instruction : source.instructions()) {
    auto clone = copy_instruction(*instruction, instructions, copied);
    clone->name = names.fresh(instruction->name);
    instructions[instruction.get()] = copy->append(std::move(clone));
  }
  const auto root = instructions.find(source.root());
  copy->set_root(root == instructions.end() ? nullptr : root->second);
  Computation* const result = before == nullptr
                                  ? target.add_computation(std::move(copy))
                                  : target.add_computation_before(before, std::move(copy));
  copied[&source] = result;
  return result;
}

void make_rerunnable(Module& module) {
  // XLA aborts on a schedule that its own passes would have to change.
  module.is_scheduled = false;
  // A run that must not spend its inputs cannot keep such a promise; "may" lets XLA copy.
  for (InputOutputAlias& alias : module.input_output_aliases) alias.must_alias = false;
}

}  // namespace lagom::hlo

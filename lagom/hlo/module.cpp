#include "lagom/hlo/module.h"

#include <algorithm>
#include <unordered_set>

namespace lagom::hlo {

const RareAttributes& Instruction::rare() const {
  static const RareAttributes kNone;
  return attributes.rare ? *attributes.rare : kNone;
}

Instruction* Computation::append(std::unique_ptr<Instruction> instruction) {
  instructions_.push_back(std::move(instruction));
  return instructions_.back().get();
}

void Computation::insert_before(const Instruction* position,
                                std::vector<std::unique_ptr<Instruction>> instructions) {
  const auto it = std::find_if(instructions_.begin(), instructions_.end(),
                               [&](const auto& i) { return i.get() == position; });
  instructions_.insert(it, std::make_move_iterator(instructions.begin()),
                       std::make_move_iterator(instructions.end()));
}

std::vector<std::unique_ptr<Instruction>> Computation::release_instructions() {
  return std::exchange(instructions_, {});
}

void Computation::set_instructions(std::vector<std::unique_ptr<Instruction>> instructions) {
  instructions_ = std::move(instructions);
}

std::vector<Instruction*> Computation::parameters() const {
  std::vector<Instruction*> parameters;
  for (const auto& instruction : instructions_) {
    if (instruction->opcode != Opcode::kParameter) continue;
    const auto number = static_cast<size_t>(instruction->attributes.parameter_number);
    // Numbers past the instruction count are a broken module: the verifier says so.
    if (number >= instructions_.size()) continue;
    if (number >= parameters.size()) parameters.resize(number + 1, nullptr);
    parameters[number] = instruction.get();
  }
  return parameters;
}

Instruction* Computation::find(std::string_view name) const {
  for (const auto& instruction : instructions_) {
    if (instruction->name == name) return instruction.get();
  }
  return nullptr;
}

ProgramShape Computation::program_shape() const {
  ProgramShape shape;
  for (const Instruction* parameter : parameters()) {
    shape.parameters.push_back(parameter ? parameter->shape : Shape{});
    shape.parameter_names.push_back(parameter ? parameter->name : "");
  }
  if (root_ != nullptr) shape.result = root_->shape;
  return shape;
}

Module Module::clone() const {
  Module copy(name);
  copy.entry_layout = entry_layout;
  copy.is_scheduled = is_scheduled;
  copy.input_output_aliases = input_output_aliases;
  copy.buffer_donors = buffer_donors;
  copy.frontend_attributes = frontend_attributes;
  copy.stack_frames = stack_frames;
  copy.raw = raw;
  copy.is_dynamic = is_dynamic;
  copy.id = id;
  copy.unknown_fields = unknown_fields;

  std::unordered_map<const Computation*, Computation*> computation_map;
  std::unordered_map<const Instruction*, Instruction*> instruction_map;
  for (const auto& from : computations_) {
    Computation* to = copy.add_computation(std::make_unique<Computation>(from->name()));
    to->execution_thread = from->execution_thread;
    to->is_fusion = from->is_fusion;
    to->id = from->id;
    to->unknown_fields = from->unknown_fields;
    computation_map[from.get()] = to;
    for (const auto& instruction : from->instructions()) {
      instruction_map[instruction.get()] = to->append(std::make_unique<Instruction>(*instruction));
    }
    if (from->root() != nullptr) to->set_root(instruction_map.at(from->root()));
  }
  for (const auto& computation : copy.computations_) {
    for (const auto& instruction : computation->instructions()) {
      for (Instruction*& operand : instruction->operands) operand = instruction_map.at(operand);
      for (Instruction*& p : instruction->control_predecessors) p = instruction_map.at(p);
      for (Computation*& called : instruction->called) called = computation_map.at(called);
    }
  }
  if (entry_ != nullptr) copy.set_entry(computation_map.at(entry_));
  return copy;
}

Computation* Module::add_computation(std::unique_ptr<Computation> computation) {
  computations_.push_back(std::move(computation));
  return computations_.back().get();
}

Computation* Module::add_computation_before(const Computation* position,
                                            std::unique_ptr<Computation> computation) {
  const auto it = std::find_if(computations_.begin(), computations_.end(),
                               [&](const auto& c) { return c.get() == position; });
  return computations_.insert(it, std::move(computation))->get();
}

Computation* Module::find_computation(std::string_view wanted) const {
  for (const auto& computation : computations_) {
    if (computation->name() == wanted) return computation.get();
  }
  return nullptr;
}

size_t Module::num_instructions() const {
  size_t n = 0;
  for (const auto& computation : computations_) n += computation->size();
  return n;
}

size_t Module::remove_unreached_computations() {
  std::unordered_set<const Computation*> reached;
  std::vector<const Computation*> stack;
  if (entry_ != nullptr) stack.push_back(entry_);
  while (!stack.empty()) {
    const Computation* computation = stack.back();
    stack.pop_back();
    if (!reached.insert(computation).second) continue;
    for (const auto& instruction : computation->instructions()) {
      stack.insert(stack.end(), instruction->called.begin(), instruction->called.end());
    }
  }
  const size_t before = computations_.size();
  std::erase_if(computations_, [&](const auto& c) { return !reached.contains(c.get()); });
  return before - computations_.size();
}

UserIndex::UserIndex(const Computation& computation) {
  for (const auto& instruction : computation.instructions()) {
    for (const Instruction* operand : instruction->operands) {
      auto& users = users_[operand];
      if (users.empty() || users.back() != instruction.get()) users.push_back(instruction.get());
    }
  }
}

const std::vector<Instruction*>& UserIndex::of(const Instruction* instruction) const {
  static const std::vector<Instruction*> kNone;
  const auto it = users_.find(instruction);
  return it == users_.end() ? kNone : it->second;
}

std::string source_location(const Module& module, const Instruction& instruction) {
  if (!instruction.metadata) return "";
  const Metadata& m = *instruction.metadata;
  if (!m.source_file.empty()) return m.source_file + ":" + std::to_string(m.source_line);
  const StackFrameIndex& frames = module.stack_frames;
  const auto entry = [](const auto& table, int64_t id) -> decltype(&table[0]) {
    return id >= 1 && id <= static_cast<int64_t>(table.size()) ? &table[static_cast<size_t>(id - 1)]
                                                               : nullptr;
  };
  const auto* frame = entry(frames.frames, m.stack_frame_id);
  if (frame == nullptr) return "";
  const auto* location = entry(frames.file_locations, frame->file_location_id);
  if (location == nullptr) return "";
  const auto* file = entry(frames.file_names, location->file_name_id);
  return file == nullptr ? "" : *file + ":" + std::to_string(location->line);
}

namespace {

/// Two pointers name the same thing when the names behind them agree.
template <typename T>
bool same_names(const std::vector<T*>& a, const std::vector<T*>& b) {
  const auto name_of = [](const T* t) -> const std::string& {
    if constexpr (std::is_same_v<T, Computation>) {
      return t->name();
    } else {
      return t->name;
    }
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const T* x, const T* y) { return name_of(x) == name_of(y); });
}

/// The rare attributes without what only one of the two file forms can hold.
RareAttributes comparable(const Instruction& instruction) {
  RareAttributes rare = instruction.rare();
  rare.raw.clear();
  rare.unknown_fields.clear();
  if (rare.sharding) {
    rare.sharding->metadata_text.clear();
    rare.sharding->unknown_fields.clear();
  }
  return rare;
}

Metadata comparable_metadata(const Instruction& instruction) {
  Metadata metadata = instruction.metadata ? *instruction.metadata : Metadata{};
  metadata.other_text.clear();
  metadata.unknown_fields.clear();
  return metadata;
}

std::string difference(const Instruction& a, const Instruction& b) {
  if (a.name != b.name) return "names '" + a.name + "' and '" + b.name + "'";
  if (a.opcode != b.opcode) return "opcodes";
  if (!(a.shape == b.shape)) return "shapes " + a.shape.to_string() + " and " + b.shape.to_string();
  if (!same_names(a.operands, b.operands)) return "operands";
  if (!same_names(a.control_predecessors, b.control_predecessors)) return "control predecessors";
  if (!same_names(a.called, b.called)) return "called computations";
  Attributes left = a.attributes, right = b.attributes;
  left.rare.reset();
  right.rare.reset();
  if (!(left == right)) return "attributes";
  if (!(comparable(a) == comparable(b))) return "rare attributes";
  if (!a.literal != !b.literal || (a.literal && !(*a.literal == *b.literal))) return "literals";
  if (!(comparable_metadata(a) == comparable_metadata(b))) return "metadata";
  return "";
}

}  // namespace

std::string describe_difference(const Module& a, const Module& b) {
  if (a.name != b.name) return "module names '" + a.name + "' and '" + b.name + "'";
  const auto& left = a.computations();
  const auto& right = b.computations();
  if (left.size() != right.size()) {
    return std::to_string(left.size()) + " and " + std::to_string(right.size()) + " computations";
  }
  // Any order with callees first is as good as another: match computations by name.
  std::unordered_map<std::string_view, const Computation*> by_name;
  for (const auto& computation : right) by_name[computation->name()] = computation.get();
  for (const auto& computation : left) {
    const Computation& x = *computation;
    const auto found = by_name.find(x.name());
    if (found == by_name.end()) return "computation '" + x.name() + "' is in one of them only";
    const Computation& y = *found->second;
    const std::string where = "computation '" + x.name() + "': ";
    if (x.size() != y.size()) {
      return where + std::to_string(x.size()) + " and " + std::to_string(y.size()) +
             " instructions";
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const Instruction &p = *x.instructions()[i], &q = *y.instructions()[i];
      const std::string what = difference(p, q);
      if (!what.empty()) return where + "instruction '" + p.name + "': " + what + " differ";
    }
    if (!x.root() != !y.root() || (x.root() && x.root()->name != y.root()->name)) {
      return where + "roots differ";
    }
    if (x.execution_thread != y.execution_thread) return where + "execution threads differ";
  }
  if (!a.entry() != !b.entry() || (a.entry() && a.entry()->name() != b.entry()->name())) {
    return "entry computations differ";
  }
  const auto layout = [](const Module& m) {
    ProgramShape shape = m.entry_layout ? *m.entry_layout : m.entry()->program_shape();
    shape.parameter_names.clear();
    return shape;
  };
  if (a.entry() != nullptr && !(layout(a) == layout(b))) return "entry layouts differ";
  if (a.is_scheduled != b.is_scheduled) return "is_scheduled differs";
  if (a.input_output_aliases != b.input_output_aliases) return "input_output_alias differs";
  if (a.buffer_donors != b.buffer_donors) return "buffer donors differ";
  if (a.frontend_attributes != b.frontend_attributes) return "frontend attributes differ";
  if (!(a.stack_frames == b.stack_frames)) return "stack frame tables differ";
  return "";
}

}  // namespace lagom::hlo

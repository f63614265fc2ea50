#include "lagom/hlo/proto_reader.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "lagom/hlo/attribute_fields.h"
#include "lagom/hlo/proto_parts.h"
#include "lagom/hlo/unique_names.h"
#include "lagom/util/error.h"

namespace lagom::hlo {
namespace {

using detail::keep_unknown;
using detail::open_message;
using detail::read_bytes;
using detail::read_integer;
using detail::read_integers;
using detail::read_view;
using protozero::pbf_reader;

/// Every shape of it has a type, so that text can hold it.
bool is_complete(const ProgramShape& program) {
  const auto is_valid = [](const Shape& s) { return s.element_type != ElementType::kInvalid; };
  return is_valid(program.result) &&
         std::all_of(program.parameters.begin(), program.parameters.end(), is_valid);
}

/// Numbers of instructions by id. Ids mostly ascend one by one, so a guess and a binary search beat
/// a hash table.
class IdTable {
 public:
  void add(int64_t id, size_t number) { entries_.emplace_back(id, number); }

  /// Must be called once before `find`; returns an id that appears twice, if any.
  std::optional<int64_t> sort() {
    const auto less = [](const auto& a, const auto& b) { return a.first < b.first; };
    if (!std::is_sorted(entries_.begin(), entries_.end(), less)) {
      std::sort(entries_.begin(), entries_.end(), less);
    }
    for (size_t i = 1; i < entries_.size(); ++i) {
      if (entries_[i].first == entries_[i - 1].first) return entries_[i].first;
    }
    return std::nullopt;
  }

  std::optional<size_t> find(int64_t id) const {
    if (entries_.empty() || id < entries_.front().first || id > entries_.back().first) {
      return std::nullopt;
    }
    const auto guess = static_cast<uint64_t>(id) - static_cast<uint64_t>(entries_.front().first);
    if (guess < entries_.size() && entries_[guess].first == id) return entries_[guess].second;
    const auto it =
        std::lower_bound(entries_.begin(), entries_.end(), id,
                         [](const auto& e, int64_t wanted) { return e.first < wanted; });
    if (it->first != id) return std::nullopt;
    return it->second;
  }

 private:
  std::vector<std::pair<int64_t, size_t>> entries_;
};

class ProtoReader {
 public:
  ProtoReader(std::string_view bytes, std::string_view path) : path_(path) {
    try {
      read_module(pbf_reader(bytes.data(), bytes.size()));
      link();
    } catch (const protozero::exception& e) {
      throw FormatError(path_, where(),
                        std::string("damaged or truncated protobuf message: ") + e.what());
    } catch (const FormatError& e) {
      if (!path_.empty() && std::string_view(e.what()).starts_with(path_)) throw;
      throw FormatError(path_, where(), e.what());
    }
  }

  Module take() { return std::move(module_); }

 private:
  /// What an instruction refers to by id, until all instructions are read: ranges of `ids`.
  struct Links {
    Instruction* instruction;
    size_t begin, operands_end, controls_end, called_end;
  };
  struct Scope {
    Computation* computation;
    int64_t root_id = 0;
    std::vector<Links> links;
    Dims ids;
    IdTable by_id;
  };

  /// Where the reader stands, for errors.
  std::string where() const {
    if (computation_ == nullptr) return "module";
    std::string text = "computation '" + computation_->name() + "'";
    if (instruction_ != nullptr) text += ", instruction '" + instruction_->name + "'";
    return text;
  }

  [[noreturn]] void fail(const std::string& what) const { throw FormatError(path_, where(), what); }

  void read_module(pbf_reader reader) {
    module_.name.clear();
    while (reader.next()) {
      computation_ = nullptr;
      switch (reader.tag()) {
        case 1:
          module_.name = read_bytes(reader);
          break;
        case 2:
          entry_name_ = read_bytes(reader);
          break;
        case 3:
          read_computation(open_message(reader));
          break;
        case 4:
          module_.entry_layout = detail::read_program_shape(open_message(reader));
          break;
        case 5:
          module_.id = read_integer(reader);
          break;
        case 6:
          entry_id_ = read_integer(reader);
          break;
        case 7:
          schedule_ = detail::read_schedule(open_message(reader));
          module_.is_scheduled = true;
          break;
        case 8:
          module_.input_output_aliases = detail::read_aliases(open_message(reader));
          break;
        case 11:
          module_.is_dynamic = read_integer(reader) != 0;
          break;
        case 17:
          module_.stack_frames = detail::read_stack_frames(open_message(reader));
          break;
        case 18:
          module_.buffer_donors = detail::read_donors(open_message(reader));
          break;
        case 19:
          module_.frontend_attributes = detail::read_string_map(open_message(reader));
          break;
        default:
          keep_unknown(reader, module_.unknown_fields);
      }
    }
    computation_ = nullptr;
    if (module_.entry_layout && !is_complete(*module_.entry_layout)) module_.entry_layout.reset();
    // Parameter names in the layout repeat the parameters' own.
    if (module_.entry_layout) module_.entry_layout->parameter_names.clear();
  }

  void read_computation(pbf_reader reader) {
    pending_computation_ = std::make_unique<Computation>("");
    Computation* owned = pending_computation_.get();
    Scope scope{.computation = owned};
    computation_ = owned;
    while (reader.next()) {
      instruction_ = nullptr;
      switch (reader.tag()) {
        case 1:
          owned->set_name(read_bytes(reader));
          break;
        case 2:
          read_instruction(open_message(reader), scope);
          break;
        case 4:
          reader.skip();
          break;  // follows from the parameters and the root
        case 5:
          owned->id = read_integer(reader);
          break;
        case 6:
          scope.root_id = read_integer(reader);
          break;
        case 7:
          owned->is_fusion = read_integer(reader) != 0;
          break;
        case 8:
          owned->execution_thread = read_bytes(reader);
          break;
        default:
          keep_unknown(reader, owned->unknown_fields);
      }
    }
    if (owned->execution_thread == "main") owned->execution_thread.clear();
    instruction_ = nullptr;
    if (!computations_.emplace(owned->id, owned).second) {
      fail("a second computation with id " + std::to_string(owned->id));
    }
    scopes_.push_back(std::move(scope));
    module_.add_computation(std::move(pending_computation_));
  }

  void read_instruction(pbf_reader reader, Scope& scope) {
    pending_instruction_ = std::make_unique<Instruction>();
    Instruction* owned = pending_instruction_.get();
    instruction_ = owned;
    operand_ids_.clear();
    control_ids_.clear();
    called_ids_.clear();
    pbf_reader attributes = reader;
    read_name_and_opcode(reader, *owned);
    while (attributes.next()) {
      switch (attributes.tag()) {
        case 1:  // mostly known already
          if (owned->name.empty())
            owned->name = read_bytes(attributes);
          else
            attributes.skip();
          break;
        case 2:
          attributes.skip();
          break;
        case 3:
          owned->shape = detail::read_shape(open_message(attributes));
          break;
        case 7: {
          const pbf_reader metadata = open_message(attributes);
          if (metadata.length() == 0) break;
          owned->metadata = detail::read_metadata(metadata);
          if (*owned->metadata == Metadata{}) owned->metadata.reset();
          break;
        }
        case 8:
          owned->literal =
              std::make_shared<const Literal>(detail::read_literal(open_message(attributes)));
          break;
        case 9:
          owned->attributes.parameter_number = read_integer(attributes);
          break;
        case 35:
          owned->id = read_integer(attributes);
          break;
        case 36:
          read_integers(attributes, operand_ids_);
          break;
        case 37:
          read_integers(attributes, control_ids_);
          break;
        case 38:
          read_integers(attributes, called_ids_);
          break;
        case 45:  // all_reduce_id: superseded
        case 82:  // statistics for a graph viewer
        case 91:  // result_accuracy: empty unless asked for
          if (attributes.tag() == 91) {
            const std::string accuracy = read_bytes(attributes);
            if (accuracy != std::string("\x08\x00", 2) && !accuracy.empty()) {
              RareAttributes& rare = owned->mutable_rare();
              protozero::pbf_writer(rare.unknown_fields).add_message(91, accuracy);
            }
          } else {
            attributes.skip();
          }
          break;
        default:
          detail::read_attribute(attributes, *owned);
      }
    }
    if (owned->shape.element_type == ElementType::kInvalid) fail("the instruction has no shape");
    check_literal(*owned);
    canonicalise(*owned);
    scope.by_id.add(owned->id, scope.links.size());
    Links links{.instruction = owned,
                .begin = scope.ids.size(),
                .operands_end = 0,
                .controls_end = 0,
                .called_end = 0};
    scope.ids.insert(scope.ids.end(), operand_ids_.begin(), operand_ids_.end());
    links.operands_end = scope.ids.size();
    scope.ids.insert(scope.ids.end(), control_ids_.begin(), control_ids_.end());
    links.controls_end = scope.ids.size();
    scope.ids.insert(scope.ids.end(), called_ids_.begin(), called_ids_.end());
    links.called_end = scope.ids.size();
    scope.links.push_back(links);
    scope.computation->append(std::move(pending_instruction_));
  }

  /// Looks ahead: the opcode decides what some attributes mean, and errors tell the name.
  void read_name_and_opcode(pbf_reader reader, Instruction& instruction) const {
    while (reader.next()) {
      if (reader.tag() == 1) {
        instruction.name = read_bytes(reader);
      } else if (reader.tag() == 2) {
        const std::string_view name = read_view(reader);
        const auto opcode = opcode_from_name(name);
        if (!opcode) fail("unknown opcode '" + std::string(name) + "'");
        instruction.opcode = *opcode;
        return;
      } else {
        reader.skip();
      }
    }
    fail("the instruction has no opcode");
  }

  /// Literals are read by their own shapes, and used by their instructions'. A constant without one
  /// had its values stripped.
  void check_literal(Instruction& instruction) const {
    if (instruction.opcode == Opcode::kConstant && instruction.literal == nullptr &&
        instruction.shape.element_type != ElementType::kToken) {
      Literal literal{.shape = instruction.shape};
      if (literal.shape.is_array()) {
        literal.shape.layout = Layout{.minor_to_major = literal.shape.minor_to_major()};
      }
      literal.elided = true;
      instruction.literal = std::make_shared<const Literal>(std::move(literal));
    }
    if (instruction.literal != nullptr &&
        !same_shape(instruction.literal->shape, instruction.shape)) {
      fail("its literal has shape " + instruction.literal->shape.to_string(false) + ", it has " +
           instruction.shape.to_string(false));
    }
  }

  /// Brings what writers leave implicit or spell out to the one form that the text reader gives.
  void canonicalise(Instruction& instruction) {
    detail::fill_defaults(instruction.opcode, instruction.attributes, detail::kApiVersions[0]);
    Attributes& a = instruction.attributes;
    if (instruction.opcode == Opcode::kCompare && !instruction.attributes.comparison_type.empty()) {
      implied_comparisons_.push_back(&instruction);
    }
    if (instruction.opcode != Opcode::kConvolution) a.convolution.reset();
    if (instruction.opcode == Opcode::kIota && a.dimensions.empty()) a.dimensions = {0};
    if (a.rare && a.rare->async_execution_thread == "main") a.rare->async_execution_thread.clear();
    if (a.rare && *a.rare == RareAttributes{}) a.rare.reset();
  }

  /// Turns ids into pointers, puts instructions into their scheduled order, finds the roots.
  void link() {
    std::unordered_map<int64_t, Computation*> linked;
    for (Scope& scope : scopes_) {
      computation_ = scope.computation;
      instruction_ = nullptr;
      if (const auto twice = scope.by_id.sort()) {
        fail("a second instruction with id " + std::to_string(*twice));
      }
      const std::vector<size_t> order = scheduled_order(scope);
      for (size_t number = 0; number < scope.links.size(); ++number) {
        link_instruction(scope, number, order, linked);
      }
      instruction_ = nullptr;
      if (scope.computation->size() == 0) fail("the computation has no instructions");
      scope.computation->set_root(
          scope.links[number_with_id(scope, scope.root_id, "root")].instruction);
      if (!order.empty()) reorder(scope, order);
      linked.emplace(scope.computation->id, scope.computation);
    }
    computation_ = nullptr;
    for (Instruction* compare : implied_comparisons_) {
      if (compare->operands.empty()) continue;
      const ElementType type = compare->operands[0]->shape.element_type;
      const char* implied = is_signed_integer(type)                                   ? "SIGNED"
                            : is_unsigned_integer(type) || type == ElementType::kPred ? "UNSIGNED"
                                                                                      : "FLOAT";
      if (compare->attributes.comparison_type == implied) compare->attributes.comparison_type = "";
    }
    if (module_.computations().empty()) fail("the module has no computations");
    const auto it = computations_.find(entry_id_);
    Computation* entry = it != computations_.end() ? it->second : nullptr;
    if (entry == nullptr) entry = module_.find_computation(entry_name_);
    if (entry == nullptr) {
      fail("the entry computation (id " + std::to_string(entry_id_) + ", name '" + entry_name_ +
           "') is missing");
    }
    module_.set_entry(entry);
    fix_names();
  }

  /// `order` gives each instruction's place, or is empty when they stand in order already.
  void link_instruction(Scope& scope, size_t number, const std::vector<size_t>& order,
                        const std::unordered_map<int64_t, Computation*>& linked) {
    const Links& links = scope.links[number];
    Instruction& instruction = *links.instruction;
    instruction_ = &instruction;
    const auto place = [&](size_t n) { return order.empty() ? n : order[n]; };
    const auto earlier = [&](int64_t id, const char* role) {
      const size_t found = number_with_id(scope, id, role);
      Instruction* other = scope.links[found].instruction;
      if (place(found) >= place(number)) {
        fail(std::string(role) + " '" + other->name + "' does not stand in front of it");
      }
      return other;
    };
    instruction.operands.reserve(links.operands_end - links.begin);
    for (size_t i = links.begin; i < links.operands_end; ++i) {
      instruction.operands.push_back(earlier(scope.ids[i], "operand"));
    }
    for (size_t i = links.operands_end; i < links.controls_end; ++i) {
      instruction.control_predecessors.push_back(earlier(scope.ids[i], "control predecessor"));
    }
    for (size_t i = links.controls_end; i < links.called_end; ++i) {
      const auto it = linked.find(scope.ids[i]);
      if (it == linked.end()) {
        fail("no computation with id " + std::to_string(scope.ids[i]) +
             " stands in front of this one");
      }
      instruction.called.push_back(it->second);
    }
  }

  /// Text holds fewer names than a proto, and names must be alone in the module.
  void fix_names() {
    if (!module_.name.empty()) sanitize_name(module_.name, "module");
    std::unordered_set<std::string_view> seen, seen_computations;
    seen.reserve(module_.num_instructions());
    bool unique = true, unique_computations = true;
    for (const auto& computation : module_.computations()) {
      std::string name = computation->name();
      if (sanitize_name(name, "computation")) computation->set_name(std::move(name));
      unique_computations &= seen_computations.insert(computation->name()).second;
      for (const auto& i : computation->instructions()) {
        sanitize_name(i->name, opcode_name(i->opcode));
        unique &= seen.insert(i->name).second;
      }
    }
    if (!unique) make_names_unique(module_);
    if (!unique_computations) make_computation_names_unique(module_);
  }

  size_t number_with_id(const Scope& scope, int64_t id, const char* role) const {
    auto found = scope.by_id.find(id);
    // Newer writers pack the computation's id into the high half and may refer by the low half.
    if (!found) found = scope.by_id.find(id & 0xffffffff);
    if (!found) fail(std::string("unknown ") + role + " with id " + std::to_string(id));
    return *found;
  }

  /// The place of each instruction in the schedule; empty when there is none.
  std::vector<size_t> scheduled_order(const Scope& scope) const {
    const auto it = schedule_.find(scope.computation->id);
    if (it == schedule_.end() || it->second.size() != scope.computation->size()) return {};
    constexpr size_t kNone = SIZE_MAX;
    std::vector<size_t> order(scope.links.size(), kNone);
    for (size_t place = 0; place < it->second.size(); ++place) {
      size_t& own = order[number_with_id(scope, it->second[place], "scheduled instruction")];
      if (own != kNone) fail("the schedule lists an instruction twice");
      own = place;
    }
    return order;
  }

  void reorder(Scope& scope, const std::vector<size_t>& order) {
    auto instructions = scope.computation->release_instructions();
    std::vector<std::unique_ptr<Instruction>> sorted(instructions.size());
    for (size_t i = 0; i < instructions.size(); ++i) sorted[order[i]] = std::move(instructions[i]);
    scope.computation->set_instructions(std::move(sorted));
  }

  std::string_view path_;
  const Computation* computation_ = nullptr;  // what is being read, for errors
  const Instruction* instruction_ = nullptr;
  // Not yet part of the module; members, so that an error can still say where it is.
  std::unique_ptr<Computation> pending_computation_;
  std::unique_ptr<Instruction> pending_instruction_;
  Dims operand_ids_, control_ids_, called_ids_;  // of the instruction being read
  Module module_;
  std::string entry_name_;
  int64_t entry_id_ = -1;
  std::vector<Scope> scopes_;
  std::unordered_map<int64_t, Computation*> computations_;
  std::unordered_map<int64_t, Dims> schedule_;
  std::vector<Instruction*> implied_comparisons_;
};

}  // namespace

Module read_hlo_proto(std::string_view bytes, std::string_view path) {
  const std::string_view module = detail::find_module_proto(bytes);
  if (!module.empty()) return ProtoReader(module, path).take();
  try {
    pbf_reader reader(bytes.data(), bytes.size());
    while (reader.next()) reader.skip();
  } catch (const protozero::exception& e) {
    throw FormatError(path, "", std::string("not an HLO proto, or a truncated one: ") + e.what());
  }
  throw FormatError(path, "", "a protobuf message, but no HLO module is in it");
}

}  // namespace lagom::hlo

#include "lagom/hlo/proto_writer.h"

#include <unordered_map>

#include "lagom/hlo/proto_parts.h"

namespace lagom::hlo {
namespace {

using protozero::pbf_writer;

class ProtoWriter {
 public:
  ProtoWriter(const Module& module, std::vector<std::string>* dropped)
      : module_(module), dropped_(dropped) {
    int64_t next_id = 1;
    for (const auto& computation : module.computations()) {
      computation_ids_[computation.get()] = next_id++;
      for (const auto& instruction : computation->instructions()) {
        instruction_ids_[instruction.get()] = next_id++;
      }
    }
  }

  std::string write() {
    std::string bytes;
    pbf_writer out(bytes);
    out.add_string(1, module_.name);
    out.add_string(2, module_.entry()->name());
    for (const auto& computation : module_.computations()) {
      out.add_message(3, write_computation(*computation));
    }
    ProgramShape layout =
        module_.entry_layout ? *module_.entry_layout : module_.entry()->program_shape();
    layout.parameter_names = module_.entry()->program_shape().parameter_names;
    detail::write_program_shape(out, 4, layout);
    if (module_.id != 0) out.add_int64(5, module_.id);
    out.add_int64(6, computation_ids_.at(module_.entry()));
    if (module_.is_scheduled) out.add_message(7, write_schedule());
    if (!module_.input_output_aliases.empty()) out.add_message(8, write_aliases());
    if (module_.is_dynamic) out.add_bool(11, true);
    if (!module_.stack_frames.empty()) detail::write_stack_frames(out, 17, module_.stack_frames);
    if (!module_.buffer_donors.empty()) out.add_message(18, write_donors());
    if (!module_.frontend_attributes.empty()) {
      detail::write_string_map(out, 19, module_.frontend_attributes);
    }
    bytes += module_.unknown_fields;
    for (const RawAttribute& raw : module_.raw) drop("module: " + raw.name);
    return bytes;
  }

 private:
  void drop(std::string what) {
    if (dropped_ != nullptr) dropped_->push_back(std::move(what));
  }

  std::string write_computation(const Computation& computation) {
    std::string bytes;
    pbf_writer out(bytes);
    out.add_string(1, computation.name());
    for (const auto& instruction : computation.instructions()) {
      out.add_message(2, write_instruction(*instruction));
    }
    detail::write_program_shape(out, 4, computation.program_shape());
    out.add_int64(5, computation_ids_.at(&computation));
    out.add_int64(6, instruction_ids_.at(computation.root()));
    if (computation.is_fusion) out.add_bool(7, true);
    out.add_string(8, computation.execution_thread.empty() ? "main" : computation.execution_thread);
    return bytes + computation.unknown_fields;
  }

  std::string write_instruction(const Instruction& instruction) {
    std::string bytes;
    pbf_writer out(bytes);
    out.add_string(1, instruction.name);
    out.add_string(2, std::string(opcode_name(instruction.opcode)));
    detail::write_shape(out, 3, instruction.shape);
    if (instruction.metadata) detail::write_metadata(out, 7, *instruction.metadata);
    if (instruction.literal) detail::write_literal(out, 8, *instruction.literal);
    detail::write_attributes(out, instruction, bytes);
    out.add_int64(35, instruction_ids_.at(&instruction));
    write_ids(out, 36, instruction.operands, instruction_ids_);
    write_ids(out, 37, instruction.control_predecessors, instruction_ids_);
    write_ids(out, 38, instruction.called, computation_ids_);
    for (const RawAttribute& raw : instruction.rare().raw) {
      drop(instruction.name + ": " + raw.name);
    }
    return bytes;
  }

  template <typename T, typename Map>
  void write_ids(pbf_writer& out, int field, const std::vector<T*>& things, const Map& ids) {
    Dims values;
    values.reserve(things.size());
    for (const T* thing : things) values.push_back(ids.at(thing));
    detail::write_integers(out, field, values);
  }

  std::string write_schedule() {
    std::string bytes;
    pbf_writer out(bytes);
    for (const auto& computation : module_.computations()) {
      if (computation->is_fusion) continue;
      Dims order;
      for (const auto& instruction : computation->instructions()) {
        order.push_back(instruction_ids_.at(instruction.get()));
      }
      std::string sequence;
      pbf_writer sequence_writer(sequence);
      detail::write_integers(sequence_writer, 1, order);
      std::string entry;
      pbf_writer entry_writer(entry);
      entry_writer.add_int64(1, computation_ids_.at(computation.get()));
      entry_writer.add_message(2, sequence);
      out.add_message(1, entry);
    }
    return bytes;
  }

  std::string write_aliases() {
    std::string bytes;
    pbf_writer out(bytes);
    for (const InputOutputAlias& alias : module_.input_output_aliases) {
      std::string entry;
      pbf_writer fields(entry);
      detail::write_integers(fields, 1, alias.output_index);
      fields.add_int64(2, alias.parameter_number);
      detail::write_integers(fields, 3, alias.parameter_index);
      fields.add_enum(4, alias.must_alias ? 2 : 1);
      out.add_message(1, entry);
    }
    return bytes;
  }

  std::string write_donors() {
    std::string bytes;
    pbf_writer out(bytes);
    for (const BufferDonor& donor : module_.buffer_donors) {
      std::string entry;
      pbf_writer fields(entry);
      fields.add_int64(1, donor.parameter_number);
      detail::write_integers(fields, 2, donor.parameter_index);
      out.add_message(1, entry);
    }
    return bytes;
  }

  const Module& module_;
  std::vector<std::string>* dropped_;
  std::unordered_map<const Computation*, int64_t> computation_ids_;
  std::unordered_map<const Instruction*, int64_t> instruction_ids_;
};

}  // namespace

std::string write_hlo_proto(const Module& module, std::vector<std::string>* dropped) {
  if (module.entry() == nullptr) {
    throw std::invalid_argument("write_hlo_proto: the module has no entry computation");
  }
  return ProtoWriter(module, dropped).write();
}

}  // namespace lagom::hlo

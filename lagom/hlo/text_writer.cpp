#include "lagom/hlo/text_writer.h"

#include <span>

#include "lagom/hlo/attribute_fields.h"
#include "lagom/hlo/text_writer_parts.h"

namespace lagom::hlo {
namespace {

using namespace detail;

/// Walks the table of simple attributes and prints those that are set or required.
class SimpleWriter {
 public:
  SimpleWriter(std::string& out, Opcode opcode) : out_(out), opcode_(opcode) {}

  void integer(std::string_view name, int, const int64_t& value, int64_t standard) {
    if (value == standard && !is_required(opcode_, name)) return;
    begin(name);
    out_ += std::to_string(value);
  }
  void boolean(std::string_view name, int, const bool& value) {
    // A custom call shows its constrained layouts by operand_layout_constraints instead.
    if (name == "constrain_layout" && opcode_ == Opcode::kCustomCall) return;
    if (!value && !is_required(opcode_, name)) return;
    begin(name);
    out_ += value ? "true" : "false";
  }
  void real(std::string_view name, int, const double& value) {
    if (value == 0 && !is_required(opcode_, name)) return;
    begin(name);
    append_number(out_, value, /*single=*/true);
  }
  void word(std::string_view name, int, const std::string& value) {
    if (value.empty()) return;
    begin(name);
    out_ += value;
  }
  void quoted(std::string_view name, int, const std::string& value) {
    if (value.empty()) return;
    begin(name);
    out_ += quote(value);
  }
  void enumeration(std::string_view name, int, const std::string& value,
                   std::span<const std::string_view>) {
    if (value != kImpliedApiVersion) word(name, 0, value);
  }
  void integers(std::string_view name, int, const Dims& value) {
    if (value.empty() && !is_required(opcode_, name)) return;
    begin(name);
    if (name == "iota_dimension") {
      out_ += value.empty() ? "0" : std::to_string(value[0]);
    } else {
      append_list(out_, value);
    }
  }

 private:
  void begin(std::string_view name) {
    out_ += ", ";
    out_ += name;
    out_ += '=';
  }

  std::string& out_;
  Opcode opcode_;
};

void append_window(std::string& out, const Window& window) {
  const auto any = [&](auto&& differs) {
    for (const WindowDim& w : window) {
      if (differs(w)) return true;
    }
    return false;
  };
  const auto field = [&](const char* name, auto&& value) {
    out += name;
    for (size_t i = 0; i < window.size(); ++i) {
      if (i > 0) out += 'x';
      out += value(window[i]);
    }
  };
  const auto text = [](int64_t v) { return std::to_string(v); };
  out += ", window={";
  field("size=", [&](const WindowDim& w) { return text(w.size); });
  if (any([](const WindowDim& w) { return w.stride != 1; })) {
    field(" stride=", [&](const WindowDim& w) { return text(w.stride); });
  }
  if (any([](const WindowDim& w) { return w.pad_low != 0 || w.pad_high != 0; })) {
    field(" pad=", [&](const WindowDim& w) { return text(w.pad_low) + "_" + text(w.pad_high); });
  }
  if (any([](const WindowDim& w) { return w.base_dilation != 1; })) {
    field(" lhs_dilate=", [&](const WindowDim& w) { return text(w.base_dilation); });
  }
  if (any([](const WindowDim& w) { return w.window_dilation != 1; })) {
    field(" rhs_dilate=", [&](const WindowDim& w) { return text(w.window_dilation); });
  }
  if (any([](const WindowDim& w) { return w.reversal; })) {
    field(" rhs_reversal=", [](const WindowDim& w) { return std::string(w.reversal ? "1" : "0"); });
  }
  out += '}';
}

std::string label_group(int64_t first, char first_letter, int64_t second, char second_letter,
                        const Dims& spatial) {
  std::string labels(spatial.size() + 2, '?');
  const auto put = [&](int64_t at, char c) {
    if (at >= 0 && at < static_cast<int64_t>(labels.size())) labels[static_cast<size_t>(at)] = c;
  };
  put(first, first_letter);
  put(second, second_letter);
  for (size_t i = 0; i < spatial.size(); ++i) put(spatial[i], static_cast<char>('0' + i));
  return labels;
}

std::string dim_labels(const ConvolutionDims& d) {
  return label_group(d.input_batch, 'b', d.input_feature, 'f', d.input_spatial) + "_" +
         label_group(d.kernel_input_feature, 'i', d.kernel_output_feature, 'o', d.kernel_spatial) +
         "->" + label_group(d.output_batch, 'b', d.output_feature, 'f', d.output_spatial);
}

void append_sharding(std::string& out, const Sharding& s) {
  const auto name = [](Sharding::Type type) -> std::string_view {
    switch (type) {
      case Sharding::Type::kReplicated:
        return "replicated";
      case Sharding::Type::kMaximal:
        return "maximal";
      case Sharding::Type::kManual:
        return "manual";
      case Sharding::Type::kUnreduced:
        return "unreduced";
      default:
        return "unknown";
    }
  };
  out += '{';
  if (s.type == Sharding::Type::kTuple) {
    for (size_t i = 0; i < s.tuple.size(); ++i) {
      if (i > 0) out += ", ";
      append_sharding(out, s.tuple[i]);
    }
    out += '}';
    return;
  }
  if (s.type == Sharding::Type::kOther) {
    out += "devices=";
    append_list(out, s.tile_dims, '[', ']');
    if (!s.iota_reshape.empty()) {
      out += "<=";
      append_list(out, s.iota_reshape, '[', ']');
      bool identity = true;
      for (size_t i = 0; i < s.iota_perm.size(); ++i) {
        identity = identity && s.iota_perm[i] == static_cast<int64_t>(i);
      }
      if (!identity) {
        out += 'T';
        append_list(out, s.iota_perm, '(', ')');
      }
    } else {
      for (size_t i = 0; i < s.devices.size(); ++i) {
        if (i > 0) out += ',';
        out += std::to_string(s.devices[i]);
      }
    }
    if (s.replicate_on_last_dim) out += " last_tile_dim_replicate";
    if (!s.last_tile_dims.empty()) {
      out += " last_tile_dims={";
      for (size_t i = 0; i < s.last_tile_dims.size(); ++i) {
        if (i > 0) out += ", ";
        out += name(s.last_tile_dims[i]);
      }
      out += '}';
    }
  } else {
    out += name(s.type);
    if (s.type == Sharding::Type::kMaximal && !s.devices.empty()) {
      out += " device=" + std::to_string(s.devices[0]);
    }
  }
  if (s.shard_group) {
    out += (s.shard_like ? " shard_like " : " shard_as ") + std::to_string(*s.shard_group);
  }
  if (!s.metadata_text.empty()) out += " metadata=" + s.metadata_text;
  out += '}';
}

void append_string_map(std::string& out, const StringMap& map) {
  out += '{';
  for (size_t i = 0; i < map.size(); ++i) {
    if (i > 0) out += ',';
    const std::string& key = map[i].first;
    out += (is_identifier(key) ? key : quote(key)) + "=" + quoted_or_json(map[i].second);
  }
  out += '}';
}

void append_replica_groups(std::string& out, const ReplicaGroups& groups) {
  if (!groups.iota_shape.empty()) {
    append_list(out, groups.iota_shape, '[', ']');
    out += "<=";
    append_list(out, groups.iota_reshape, '[', ']');
    if (!groups.iota_perm.empty()) {
      out += 'T';
      append_list(out, groups.iota_perm, '(', ')');
    }
    return;
  }
  out += '{';
  for (size_t i = 0; i < groups.groups.size(); ++i) {
    if (i > 0) out += ',';
    append_list(out, groups.groups[i]);
  }
  out += '}';
}

void append_metadata(std::string& out, const Metadata& m) {
  std::string fields;
  const auto text = [&](const char* name, const std::string& value) {
    if (!value.empty()) fields += std::string(" ") + name + "=" + quote(value);
  };
  const auto number = [&](const char* name, int64_t value) {
    if (value != 0) fields += std::string(" ") + name + "=" + std::to_string(value);
  };
  text("op_type", m.op_type);
  text("op_name", m.op_name);
  text("source_file", m.source_file);
  number("source_line", m.source_line);
  number("source_end_line", m.source_end_line);
  number("source_column", m.source_column);
  number("source_end_column", m.source_end_column);
  number("stack_frame_id", m.stack_frame_id);
  text("deduplicated_name", m.deduplicated_name);
  text("scheduling_name", m.scheduling_name);
  number("size_of_generated_code_in_bytes", m.size_of_generated_code_in_bytes);
  number("size_of_memory_working_set_in_bytes", m.size_of_memory_working_set_in_bytes);
  if (!m.other_text.empty()) fields += " " + m.other_text;
  if (fields.empty()) return;
  out += ", metadata={" + fields.substr(1) + "}";
}

void append_called(std::string& out, const Instruction& instruction) {
  const auto& called = instruction.called;
  if (called.empty()) return;
  const auto one = [&](const char* name, size_t i) {
    if (i < called.size()) out += std::string(", ") + name + "=%" + called[i]->name();
  };
  const auto list = [&](const char* name) {
    out += std::string(", ") + name + "={";
    for (size_t i = 0; i < called.size(); ++i) {
      out += (i > 0 ? ", %" : "%") + called[i]->name();
    }
    out += '}';
  };
  switch (instruction.opcode) {
    case Opcode::kWhile:
      one("condition", 1);
      one("body", 0);
      break;
    case Opcode::kConditional:
      if (called.size() == 2 && !instruction.operands.empty() &&
          instruction.operands[0]->shape.element_type == ElementType::kPred) {
        one("true_computation", 0);
        one("false_computation", 1);
      } else {
        list("branch_computations");
      }
      break;
    case Opcode::kSelectAndScatter:
      one("select", 0);
      one("scatter", 1);
      break;
    case Opcode::kFusion:
    case Opcode::kAsyncStart:
    case Opcode::kAsyncUpdate:
    case Opcode::kAsyncDone:
      one("calls", 0);
      break;
    case Opcode::kCustomCall:
      list("called_computations");
      break;
    default:
      one("to_apply", 0);
  }
}

void append_rare(std::string& out, const Instruction& instruction, const RareAttributes& r) {
  const Opcode opcode = instruction.opcode;
  SimpleWriter simple(out, opcode);
  visit_rare(r, opcode, simple);
  if (opcode == Opcode::kTriangularSolve) {
    out += std::string(", left_side=") + (r.left_side ? "true" : "false");
    out += std::string(", lower=") + (r.lower ? "true" : "false");
    out += std::string(", unit_diagonal=") + (r.unit_diagonal ? "true" : "false");
    if (!r.transpose_a.empty()) out += ", transpose_a=" + r.transpose_a;
  } else if (opcode == Opcode::kCholesky) {
    out += std::string(", lower=") + (r.lower ? "true" : "false");
  }
  if (r.outfeed_shape) out += ", outfeed_shape=" + r.outfeed_shape->to_string();
  if (!r.operand_precision.empty()) {
    out += ", operand_precision={";
    for (size_t i = 0; i < r.operand_precision.size(); ++i) {
      out += (i > 0 ? "," : "") + r.operand_precision[i];
    }
    out += '}';
  }
  if (!r.dot_algorithm.empty()) out += ", algorithm=" + r.dot_algorithm;
  if (!(r.replica_groups == ReplicaGroups{})) {
    out += ", replica_groups=";
    append_replica_groups(out, r.replica_groups);
  }
  if (!r.source_target_pairs.empty()) {
    out += ", source_target_pairs=";
    append_replica_groups(out, ReplicaGroups{.groups = r.source_target_pairs});
  }
  if (opcode == Opcode::kCustomCall && r.constrain_layout) {
    out += ", operand_layout_constraints={";
    for (size_t i = 0; i < r.operand_layouts.size(); ++i) {
      out += (i > 0 ? ", " : "") + r.operand_layouts[i].to_string();
    }
    out += '}';
  }
  if (!r.parameter_replication.empty()) {
    out += ", parameter_replication={";
    for (size_t i = 0; i < r.parameter_replication.size(); ++i) {
      out += i > 0 ? "," : "";
      out += r.parameter_replication[i] ? "true" : "false";
    }
    out += '}';
  }
  if (!r.output_aliases.empty()) {
    out += ", output_to_operand_aliasing={";
    for (size_t i = 0; i < r.output_aliases.size(); ++i) {
      const OutputAlias& alias = r.output_aliases[i];
      if (i > 0) out += ", ";
      append_list(out, alias.output_index);
      out += ": (" + std::to_string(alias.operand) + ", ";
      append_list(out, alias.operand_index);
      out += ')';
    }
    out += '}';
  }
  if (r.cross_program_prefetch_index) {
    out += ", cross_program_prefetch_index=" + std::to_string(*r.cross_program_prefetch_index);
  }
  if (r.sharding) {
    out += ", sharding=";
    append_sharding(out, *r.sharding);
  }
  if (!r.frontend_attributes.empty()) {
    out += ", frontend_attributes=";
    append_string_map(out, r.frontend_attributes);
  }
  for (const RawAttribute& raw : r.raw) out += ", " + raw.name + "=" + raw.text;
  if (!r.backend_config.empty()) out += ", backend_config=" + quoted_or_json(r.backend_config);
}

void append_instruction(std::string& out, const Instruction& instruction,
                        const TextOptions& options) {
  const Attributes& a = instruction.attributes;
  const Opcode opcode = instruction.opcode;
  out += '%';
  out += instruction.name;
  out += " = ";
  out += instruction.shape.to_string();
  out += ' ';
  out += opcode_name(opcode);
  out += '(';
  if (opcode == Opcode::kParameter) out += std::to_string(a.parameter_number);
  if (opcode == Opcode::kConstant && instruction.literal) {
    append_literal(out, *instruction.literal, options);
  }
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    out += i > 0 ? ", %" : "%";
    out += instruction.operands[i]->name;
  }
  out += ')';
  SimpleWriter simple(out, opcode);
  visit_common(a, opcode, simple);
  if (!a.window.empty()) append_window(out, a.window);
  if (a.convolution) out += ", dim_labels=" + dim_labels(*a.convolution);
  if (!a.slice.empty()) {
    out += ", slice={";
    for (size_t i = 0; i < a.slice.size(); ++i) {
      const SliceDim& s = a.slice[i];
      out += (i > 0 ? ", [" : "[") + std::to_string(s.start) + ":" + std::to_string(s.limit);
      if (s.stride != 1) out += ":" + std::to_string(s.stride);
      out += ']';
    }
    out += '}';
  } else if (opcode == Opcode::kSlice) {
    out += ", slice={}";
  }
  if (!a.padding.empty()) {
    out += ", padding=";
    for (size_t i = 0; i < a.padding.size(); ++i) {
      const PadDim& p = a.padding[i];
      out += (i > 0 ? "x" : "") + std::to_string(p.low) + "_" + std::to_string(p.high);
      if (p.interior != 0) out += "_" + std::to_string(p.interior);
    }
  }
  if (a.dot) {
    visit_dot(*a.dot, simple);
    simple.integers("lhs_ragged_dims", 0, a.dot->lhs_ragged);
    simple.integers("rhs_group_dims", 0, a.dot->rhs_group);
  }
  if (a.gather) {
    visit_gather(*a.gather, simple);
    out += ", slice_sizes=";
    append_list(out, a.gather->slice_sizes);
  }
  if (a.scatter) visit_scatter(*a.scatter, simple);
  append_called(out, instruction);
  if (!instruction.control_predecessors.empty()) {
    out += ", control-predecessors={";
    for (size_t i = 0; i < instruction.control_predecessors.size(); ++i) {
      out += (i > 0 ? ", %" : "%") + instruction.control_predecessors[i]->name;
    }
    out += '}';
  }
  if (a.rare) {
    append_rare(out, instruction, *a.rare);
  } else {
    append_rare(out, instruction, RareAttributes{});
  }
  if (options.metadata && instruction.metadata) append_metadata(out, *instruction.metadata);
}

void append_program_shape(std::string& out, const ProgramShape& shape) {
  out += '(';
  for (size_t i = 0; i < shape.parameters.size(); ++i) {
    out += (i > 0 ? ", " : "") + shape.parameters[i].to_string();
  }
  out += ")->" + shape.result.to_string();
}

void append_header(std::string& out, const Module& module) {
  out += "HloModule " + (module.name.empty() ? std::string("module") : module.name);
  if (module.is_scheduled) out += ", is_scheduled=true";
  if (!module.input_output_aliases.empty()) {
    out += ", input_output_alias={ ";
    for (size_t i = 0; i < module.input_output_aliases.size(); ++i) {
      const InputOutputAlias& alias = module.input_output_aliases[i];
      if (i > 0) out += ", ";
      append_list(out, alias.output_index);
      out += ": (" + std::to_string(alias.parameter_number) + ", ";
      append_list(out, alias.parameter_index);
      out += alias.must_alias ? ", must-alias)" : ", may-alias)";
    }
    out += " }";
  }
  if (!module.buffer_donors.empty()) {
    out += ", buffer_donor={ ";
    for (size_t i = 0; i < module.buffer_donors.size(); ++i) {
      if (i > 0) out += ", ";
      out += '(' + std::to_string(module.buffer_donors[i].parameter_number) + ", ";
      append_list(out, module.buffer_donors[i].parameter_index);
      out += ')';
    }
    out += " }";
  }
  if (module.entry_layout) {
    out += ", entry_computation_layout={";
    append_program_shape(out, *module.entry_layout);
    out += '}';
  }
  for (const RawAttribute& raw : module.raw) out += ", " + raw.name + "=" + raw.text;
  if (!module.frontend_attributes.empty()) {
    out += ", frontend_attributes=";
    append_string_map(out, module.frontend_attributes);
  }
  out += "\n\n";
}

void append_stack_frames(std::string& out, const StackFrameIndex& frames) {
  const auto names = [&](const char* title, const std::vector<std::string>& list) {
    out += title;
    for (size_t i = 0; i < list.size(); ++i) {
      out += std::to_string(i + 1) + " " + quote(list[i]) + "\n";
    }
    out += '\n';
  };
  names("FileNames\n", frames.file_names);
  names("FunctionNames\n", frames.function_names);
  out += "FileLocations\n";
  for (size_t i = 0; i < frames.file_locations.size(); ++i) {
    const auto& l = frames.file_locations[i];
    out += std::to_string(i + 1) + " {file_name_id=" + std::to_string(l.file_name_id) +
           " function_name_id=" + std::to_string(l.function_name_id) +
           " line=" + std::to_string(l.line) + " end_line=" + std::to_string(l.end_line) +
           " column=" + std::to_string(l.column) + " end_column=" + std::to_string(l.end_column) +
           "}\n";
  }
  out += "\nStackFrames\n";
  for (size_t i = 0; i < frames.frames.size(); ++i) {
    out += std::to_string(i + 1) +
           " {file_location_id=" + std::to_string(frames.frames[i].file_location_id) +
           " parent_frame_id=" + std::to_string(frames.frames[i].parent_frame_id + 1) + "}\n";
  }
  out += "\n\n";
}

}  // namespace

std::string write_instruction_text(const Instruction& instruction, const TextOptions& options) {
  std::string out;
  append_instruction(out, instruction, options);
  return out;
}

std::string write_hlo_text(const Module& module, const TextOptions& options) {
  std::string out;
  append_header(out, module);
  if (!module.stack_frames.empty()) append_stack_frames(out, module.stack_frames);
  for (const auto& computation : module.computations()) {
    if (computation.get() == module.entry()) out += "ENTRY ";
    out += '%' + computation->name() + " {\n";
    for (const auto& instruction : computation->instructions()) {
      out += instruction.get() == computation->root() ? "  ROOT " : "  ";
      append_instruction(out, *instruction, options);
      out += '\n';
    }
    out += '}';
    if (!computation->execution_thread.empty()) {
      out += ", execution_thread=" + quote(computation->execution_thread);
    }
    out += "\n\n";
  }
  return out;
}

}  // namespace lagom::hlo

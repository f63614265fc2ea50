// Attributes of HloInstructionProto, both ways.
#include <algorithm>
#include <cstring>
#include <span>

#include "lagom/hlo/attribute_fields.h"
#include "lagom/hlo/proto_fields.h"
#include "lagom/util/error.h"

namespace lagom::hlo::detail {
namespace {

using protozero::pbf_reader;
using protozero::pbf_writer;

WindowDim read_window_dim(pbf_reader reader) {
  WindowDim w{.size = 0};
  // Very old dumps leave strides and dilations out where they are 1.
  read_message(reader, [&](auto& simple) {
    simple.integer("", 1, w.size, 0);
    simple.integer("", 2, w.stride, 1);
    simple.integer("", 3, w.pad_low, 0);
    simple.integer("", 4, w.pad_high, 0);
    simple.integer("", 5, w.window_dilation, 1);
    simple.integer("", 6, w.base_dilation, 1);
    simple.boolean("", 7, w.reversal);
  });
  return w;
}

ConvolutionDims read_convolution_dims(pbf_reader reader) {
  ConvolutionDims d;
  read_message(reader, [&](auto& simple) {
    simple.integer("", 3, d.kernel_input_feature, 0);
    simple.integer("", 4, d.kernel_output_feature, 0);
    simple.integers("", 6, d.kernel_spatial);
    simple.integer("", 7, d.input_batch, 0);
    simple.integer("", 8, d.input_feature, 0);
    simple.integer("", 9, d.output_batch, 0);
    simple.integer("", 10, d.output_feature, 0);
    simple.integers("", 11, d.input_spatial);
    simple.integers("", 12, d.output_spatial);
  });
  return d;
}

void read_replica_group(pbf_reader group, std::vector<Dims>& groups) {
  Dims& ids = groups.emplace_back();
  read_message(group, [&](auto& simple) { simple.integers("", 1, ids); });
}

ReplicaGroups read_device_list(pbf_reader reader) {
  ReplicaGroups groups;
  while (reader.next()) {
    if (reader.tag() == 1) {
      read_replica_group(open_message(reader), groups.groups);
    } else if (reader.tag() == 2) {
      int64_t count = 0, size = 0;
      read_message(open_message(reader), [&](auto& simple) {
        simple.integer("", 1, count, 0);
        simple.integer("", 2, size, 0);
        simple.integers("", 3, groups.iota_reshape);
        simple.integers("", 4, groups.iota_perm);
      });
      groups.iota_shape = {count, size};
    } else {
      reader.skip();
    }
  }
  return groups;
}

void read_precision(pbf_reader reader, RareAttributes& rare) {
  Dims operands;
  int64_t algorithm = 0;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        read_integers(reader, operands);
        break;
      case 2:
        algorithm = read_integer(reader);
        break;
      default:
        reader.skip();
    }
  }
  const auto name = [](std::span<const std::string_view> names, int64_t i) {
    if (i < 0 || i >= static_cast<int64_t>(names.size())) {
      throw FormatError("", "", "precision_config has the unknown value " + std::to_string(i));
    }
    return std::string(names[static_cast<size_t>(i)]);
  };
  if (std::any_of(operands.begin(), operands.end(), [](int64_t p) { return p != 0; })) {
    for (const int64_t p : operands) rare.operand_precision.push_back(name(kPrecisions, p));
  }
  if (algorithm != 0) rare.dot_algorithm = name(kDotAlgorithms, algorithm);
}

OutputAlias read_output_alias(pbf_reader reader) {
  OutputAlias alias;
  read_message(reader, [&](auto& simple) {
    simple.integers("", 1, alias.output_index);
    simple.integer("", 2, alias.operand, 0);
    simple.integers("", 3, alias.operand_index);
  });
  return alias;
}

SliceDim read_slice_dim(pbf_reader reader) {
  SliceDim s;
  read_message(reader, [&](auto& simple) {
    simple.integer("", 1, s.start, 0);
    simple.integer("", 2, s.limit, 0);
    simple.integer("", 3, s.stride, 1);
  });
  return s;
}

std::vector<PadDim> read_padding(pbf_reader reader) {
  std::vector<PadDim> padding;
  for_each_entry(reader, [&](pbf_reader dim) {
    PadDim& p = padding.emplace_back();
    read_message(dim, [&](auto& simple) {
      simple.integer("", 1, p.low, 0);
      simple.integer("", 2, p.high, 0);
      simple.integer("", 3, p.interior, 0);
    });
  });
  return padding;
}

/// Structured attributes; false when the field is none of them.
bool read_structured(pbf_reader& reader, Instruction& instruction) {
  Attributes& a = instruction.attributes;
  switch (reader.tag()) {
    case 15:
      for_each_entry(open_message(reader),
                     [&](pbf_reader dim) { a.window.push_back(read_window_dim(dim)); });
      return true;
    case 16:
      a.convolution = read_convolution_dims(open_message(reader));
      return true;
    case 17:
      a.slice.push_back(read_slice_dim(open_message(reader)));
      return true;
    case 21:
      a.padding = read_padding(open_message(reader));
      return true;
    case 30:
      read_message(open_message(reader), [&](auto& simple) { visit_dot(a.dot.ensure(), simple); });
      return true;
    case 33:
      read_message(open_message(reader),
                   [&](auto& simple) { visit_gather(a.gather.ensure(), simple); });
      return true;
    case 34:
      read_integers(reader, a.gather.ensure().slice_sizes);
      return true;
    case 48:
      read_message(open_message(reader),
                   [&](auto& simple) { visit_scatter(a.scatter.ensure(), simple); });
      return true;
    case 90:
      read_message(open_message(reader), [&](auto& simple) {
        simple.integers("", 2, a.dot.ensure().lhs_ragged);
        simple.integers("", 3, a.dot->rhs_group);
      });
      return true;
    default:
      return false;
  }
}

/// Messages among the rare attributes; false when the field is none of them.
bool read_rare_message(pbf_reader& reader, RareAttributes& r) {
  switch (reader.tag()) {
    case 29:
      r.outfeed_shape = read_shape(open_message(reader));
      return true;
    case 40:
      r.sharding = read_sharding(open_message(reader));
      return true;
    case 43:
      r.backend_config = read_bytes(reader);
      return true;
    case 49:
      // Deprecated twin of field 87, which newer writers fill as well.
      if (r.replica_groups.iota_shape.empty()) {
        read_replica_group(open_message(reader), r.replica_groups.groups);
      } else {
        reader.skip();
      }
      return true;
    case 51:
      read_precision(open_message(reader), r);
      return true;
    case 52: {
      Dims ids{0, 0};
      read_message(open_message(reader), [&](auto& simple) {
        simple.integer("", 1, ids[0], 0);
        simple.integer("", 2, ids[1], 0);
      });
      r.source_target_pairs.push_back(std::move(ids));
      return true;
    }
    case 57:
      r.operand_layouts.push_back(read_shape(open_message(reader)));
      return true;
    case 59:
      read_message(open_message(reader), [&](auto& simple) {
        simple.boolean("", 1, r.left_side);
        simple.boolean("", 2, r.lower);
        simple.boolean("", 3, r.unit_diagonal);
        simple.enumeration("transpose_a", 4, r.transpose_a, kTransposes);
      });
      return true;
    case 61: {
      Dims flags;
      read_message(open_message(reader), [&](auto& simple) { simple.integers("", 1, flags); });
      for (const int64_t flag : flags) r.parameter_replication.push_back(flag != 0);
      return true;
    }
    case 62:
      read_message(open_message(reader), [&](auto& simple) { simple.boolean("", 1, r.lower); });
      return true;
    case 68:
      r.frontend_attributes = read_string_map(open_message(reader));
      return true;
    case 74:
      r.output_aliases.push_back(read_output_alias(open_message(reader)));
      return true;
    case 80:
      r.cross_program_prefetch_index = read_integer(reader);
      return true;
    case 87:
      r.replica_groups = read_device_list(open_message(reader));
      return true;
    default:
      return false;
  }
}

/// Writers put empty frontend attributes, backend configurations and precisions on every
/// instruction: they need no rare attributes to be made for them.
bool is_empty_rare_message(const pbf_reader& reader) {
  if (reader.tag() != 68 && reader.tag() != 43 && reader.tag() != 51) return false;
  pbf_reader copy = reader;
  return copy.wire_type() == protozero::pbf_wire_type::length_delimited && copy.get_view().empty();
}

void write_window(pbf_writer& writer, const Window& window) {
  write_message(writer, 15, [&](pbf_writer& out) {
    for (const WindowDim& w : window) {
      write_message(out, 1, [&](pbf_writer& dim) {
        dim.add_int64(1, w.size);
        dim.add_int64(2, w.stride);
        dim.add_int64(3, w.pad_low);
        dim.add_int64(4, w.pad_high);
        dim.add_int64(5, w.window_dilation);
        dim.add_int64(6, w.base_dilation);
        dim.add_bool(7, w.reversal);
      });
    }
  });
}

void write_convolution_dims(pbf_writer& writer, const ConvolutionDims& d) {
  write_message(writer, 16, [&](pbf_writer& out) {
    out.add_int64(3, d.kernel_input_feature);
    out.add_int64(4, d.kernel_output_feature);
    write_integers(out, 6, d.kernel_spatial);
    out.add_int64(7, d.input_batch);
    out.add_int64(8, d.input_feature);
    out.add_int64(9, d.output_batch);
    out.add_int64(10, d.output_feature);
    write_integers(out, 11, d.input_spatial);
    write_integers(out, 12, d.output_spatial);
  });
}

void write_precision(pbf_writer& writer, const RareAttributes& r) {
  if (r.operand_precision.empty() && r.dot_algorithm.empty()) return;
  Dims precisions;
  for (const std::string& p : r.operand_precision) {
    const auto* it = std::find(std::begin(kPrecisions), std::end(kPrecisions), p);
    precisions.push_back(it == std::end(kPrecisions) ? 0 : it - std::begin(kPrecisions));
  }
  write_message(writer, 51, [&](pbf_writer& out) {
    write_integers(out, 1, precisions);
    const auto* it =
        std::find(std::begin(kDotAlgorithms), std::end(kDotAlgorithms), r.dot_algorithm);
    if (it != std::end(kDotAlgorithms) && it != std::begin(kDotAlgorithms)) {
      out.add_enum(2, static_cast<int32_t>(it - std::begin(kDotAlgorithms)));
    }
  });
}

void write_replica_groups(pbf_writer& writer, const ReplicaGroups& groups) {
  if (groups == ReplicaGroups{}) return;
  const auto list = [&](pbf_writer& out, int field) {
    for (const Dims& group : groups.groups) {
      write_message(out, field, [&](pbf_writer& ids) { write_integers(ids, 1, group); });
    }
  };
  list(writer, 49);
  write_message(writer, 87, [&](pbf_writer& out) {
    list(out, 1);
    if (groups.iota_shape.size() != 2) return;
    write_message(out, 2, [&](pbf_writer& iota) {
      iota.add_int64(1, groups.iota_shape[0]);
      iota.add_int64(2, groups.iota_shape[1]);
      write_integers(iota, 3, groups.iota_reshape);
      Dims perm = groups.iota_perm;
      for (size_t i = 0; perm.size() < groups.iota_reshape.size(); ++i) {
        perm.push_back(static_cast<int64_t>(i));
      }
      write_integers(iota, 4, perm);
    });
  });
}

void write_rare(pbf_writer& writer, const Instruction& instruction, const RareAttributes& r) {
  SimpleWriter simple(writer);
  visit_rare(r, instruction.opcode, simple);
  if (r.outfeed_shape) write_shape(writer, 29, *r.outfeed_shape);
  if (r.sharding) write_sharding(writer, 40, *r.sharding);
  if (!r.backend_config.empty()) writer.add_bytes(43, r.backend_config);
  write_replica_groups(writer, r.replica_groups);
  write_precision(writer, r);
  for (const Dims& pair : r.source_target_pairs) {
    write_message(writer, 52, [&](pbf_writer& out) {
      if (pair.size() != 2) return;
      out.add_int64(1, pair[0]);
      out.add_int64(2, pair[1]);
    });
  }
  for (const Shape& shape : r.operand_layouts) write_shape(writer, 57, shape);
  if (instruction.opcode == Opcode::kTriangularSolve) {
    write_message(writer, 59, [&](pbf_writer& out) {
      SimpleWriter options(out);
      options.boolean("", 1, r.left_side);
      options.boolean("", 2, r.lower);
      options.boolean("", 3, r.unit_diagonal);
      options.enumeration("", 4, r.transpose_a, kTransposes);
    });
  }
  if (!r.parameter_replication.empty()) {
    write_message(writer, 61, [&](pbf_writer& out) {
      out.add_packed_bool(1, r.parameter_replication.begin(), r.parameter_replication.end());
    });
  }
  if (instruction.opcode == Opcode::kCholesky) {
    write_message(writer, 62, [&](pbf_writer& out) { out.add_bool(1, r.lower); });
  }
  if (!r.frontend_attributes.empty()) write_string_map(writer, 68, r.frontend_attributes);
  for (const OutputAlias& alias : r.output_aliases) {
    write_message(writer, 74, [&](pbf_writer& out) {
      write_integers(out, 1, alias.output_index);
      out.add_int64(2, alias.operand);
      write_integers(out, 3, alias.operand_index);
    });
  }
  if (r.cross_program_prefetch_index) {
    writer.add_int32(80, static_cast<int32_t>(*r.cross_program_prefetch_index));
  }
}

}  // namespace

void read_attribute(pbf_reader& reader, Instruction& instruction) {
  if (is_empty_rare_message(reader)) return reader.skip();
  if (read_structured(reader, instruction)) return;
  if (reader.tag() == 70 && instruction.opcode != Opcode::kRngBitGenerator) return reader.skip();
  SimpleReader simple(reader);
  visit_common(instruction.attributes, instruction.opcode, simple);
  if (simple.found()) return;
  RareAttributes& rare = instruction.attributes.rare.ensure();
  if (read_rare_message(reader, rare)) return;
  visit_rare(rare, instruction.opcode, simple);
  if (!simple.found()) keep_unknown(reader, rare.unknown_fields);
}

void write_attributes(pbf_writer& writer, const Instruction& instruction, std::string& bytes) {
  const Attributes& a = instruction.attributes;
  SimpleWriter simple(writer);
  visit_common(a, instruction.opcode, simple);
  if (instruction.opcode == Opcode::kParameter) writer.add_int64(9, a.parameter_number);
  const bool windowed = instruction.opcode == Opcode::kConvolution ||
                        instruction.opcode == Opcode::kReduceWindow ||
                        instruction.opcode == Opcode::kSelectAndScatter;
  if (windowed || !a.window.empty()) write_window(writer, a.window);
  if (a.convolution) write_convolution_dims(writer, *a.convolution);
  for (const SliceDim& s : a.slice) {
    write_message(writer, 17, [&](pbf_writer& out) {
      out.add_int64(1, s.start);
      out.add_int64(2, s.limit);
      out.add_int64(3, s.stride);
    });
  }
  if (!a.padding.empty() || instruction.opcode == Opcode::kPad) {
    write_message(writer, 21, [&](pbf_writer& out) {
      for (const PadDim& p : a.padding) {
        write_message(out, 1, [&](pbf_writer& dim) {
          dim.add_int64(1, p.low);
          dim.add_int64(2, p.high);
          dim.add_int64(3, p.interior);
        });
      }
    });
  }
  if (a.dot && instruction.opcode == Opcode::kRaggedDot) {
    write_message(writer, 90, [&](pbf_writer& out) {
      write_message(out, 1, [&](pbf_writer& dot) {
        SimpleWriter fields(dot);
        visit_dot(*a.dot, fields);
      });
      write_integers(out, 2, a.dot->lhs_ragged);
      write_integers(out, 3, a.dot->rhs_group);
    });
  } else if (a.dot) {
    write_message(writer, 30, [&](pbf_writer& out) {
      SimpleWriter fields(out);
      visit_dot(*a.dot, fields);
    });
  }
  if (a.gather) {
    write_message(writer, 33, [&](pbf_writer& out) {
      SimpleWriter fields(out);
      visit_gather(*a.gather, fields);
    });
    write_integers(writer, 34, a.gather->slice_sizes);
  }
  if (a.scatter) {
    write_message(writer, 48, [&](pbf_writer& out) {
      SimpleWriter fields(out);
      visit_scatter(*a.scatter, fields);
    });
  }
  if (a.rare) {
    write_rare(writer, instruction, *a.rare);
    bytes += a.rare->unknown_fields;
  }
}

}  // namespace lagom::hlo::detail

// Metadata, sharding, string maps and stack-frame tables of the proto, both ways.
#include "lagom/hlo/proto_fields.h"

namespace lagom::hlo::detail {

using protozero::pbf_reader;
using protozero::pbf_writer;

Metadata read_metadata(pbf_reader reader) {
  Metadata m;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        m.op_type = read_bytes(reader);
        break;
      case 2:
        m.op_name = read_bytes(reader);
        break;
      case 3:
        m.source_file = read_bytes(reader);
        break;
      case 4:
        m.source_line = read_integer(reader);
        break;
      case 8:
        m.size_of_generated_code_in_bytes = read_integer(reader);
        break;
      case 9:
        m.size_of_memory_working_set_in_bytes = read_integer(reader);
        break;
      case 12:
        m.deduplicated_name = read_bytes(reader);
        break;
      case 15:
        m.stack_frame_id = read_integer(reader);
        break;
      case 16:
        m.scheduling_name = read_bytes(reader);
        break;
      case 17:
        m.source_end_line = read_integer(reader);
        break;
      case 18:
        m.source_column = read_integer(reader);
        break;
      case 19:
        m.source_end_column = read_integer(reader);
        break;
      default:
        keep_unknown(reader, m.unknown_fields);
    }
  }
  return m;
}

void write_metadata(pbf_writer& writer, int field, const Metadata& m) {
  std::string bytes;
  pbf_writer out(bytes);
  const auto text = [&](int f, const std::string& value) {
    if (!value.empty()) out.add_string(tag(f), value);
  };
  const auto number = [&](int f, int64_t value) {
    if (value != 0) out.add_int64(tag(f), value);
  };
  text(1, m.op_type);
  text(2, m.op_name);
  text(3, m.source_file);
  number(4, m.source_line);
  number(8, m.size_of_generated_code_in_bytes);
  number(9, m.size_of_memory_working_set_in_bytes);
  text(12, m.deduplicated_name);
  number(15, m.stack_frame_id);
  text(16, m.scheduling_name);
  number(17, m.source_end_line);
  number(18, m.source_column);
  number(19, m.source_end_column);
  bytes += m.unknown_fields;
  writer.add_message(tag(field), bytes);
}

Sharding read_sharding(pbf_reader reader, int depth) {
  if (depth > kMaxProtoDepth) throw FormatError("", "", "shardings are nested too deeply");
  Sharding s;
  bool in_group = false;
  int64_t group = 0;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        s.type = Sharding::Type(read_integer(reader));
        break;
      case 3:
        read_integers(reader, s.tile_dims);
        break;
      case 4:
        read_integers(reader, s.devices);
        break;
      case 5:
        s.tuple.push_back(read_sharding(open_message(reader), depth + 1));
        break;
      case 6:
        s.replicate_on_last_dim = read_integer(reader) != 0;
        break;
      case 8: {
        Dims types;
        read_integers(reader, types);
        for (const int64_t t : types) s.last_tile_dims.push_back(Sharding::Type(t));
        break;
      }
      case 9:
        read_integers(reader, s.iota_reshape);
        break;
      case 10:
        read_integers(reader, s.iota_perm);
        break;
      case 11:
        in_group = read_integer(reader) != 0;
        break;
      case 12:
        group = read_integer(reader);
        break;
      case 13:
        s.shard_like = read_integer(reader) == 1;
        break;
      default:
        keep_unknown(reader, s.unknown_fields);
    }
  }
  if (in_group) s.shard_group = group;
  // A single device says all about a maximal sharding.
  if (s.type == Sharding::Type::kMaximal) s.tile_dims.clear();
  // An identity permutation is the same as none: keep one form.
  bool identity = true;
  for (size_t i = 0; i < s.iota_perm.size(); ++i) {
    identity = identity && s.iota_perm[i] == static_cast<int64_t>(i);
  }
  if (identity) s.iota_perm.clear();
  return s;
}

void write_sharding(pbf_writer& writer, int field, const Sharding& s) {
  std::string bytes;
  pbf_writer out(bytes);
  out.add_enum(1, static_cast<int32_t>(s.type));
  Dims tile_dims = s.tile_dims;
  if (s.type == Sharding::Type::kMaximal && tile_dims.empty()) tile_dims = {1};
  write_integers(out, 3, tile_dims);
  write_integers(out, 4, s.devices);
  for (const Sharding& element : s.tuple) write_sharding(out, 5, element);
  if (s.replicate_on_last_dim) out.add_bool(6, true);
  Dims types;
  for (const Sharding::Type t : s.last_tile_dims) types.push_back(static_cast<int64_t>(t));
  write_integers(out, 8, types);
  write_integers(out, 9, s.iota_reshape);
  Dims perm = s.iota_perm;
  for (size_t i = 0; perm.size() < s.iota_reshape.size(); ++i) {
    perm.push_back(static_cast<int64_t>(i));
  }
  write_integers(out, 10, perm);
  if (s.shard_group) {
    out.add_bool(11, true);
    out.add_int64(12, *s.shard_group);
    out.add_enum(13, s.shard_like ? 1 : 0);
  }
  bytes += s.unknown_fields;
  writer.add_message(tag(field), bytes);
}

StringMap read_string_map(pbf_reader reader) {
  StringMap map;
  for_each_entry(reader, [&](pbf_reader entry) {
    auto& [key, value] = map.emplace_back();
    while (entry.next()) {
      switch (entry.tag()) {
        case 1:
          key = read_bytes(entry);
          break;
        case 2:
          value = read_bytes(entry);
          break;
        default:
          entry.skip();
      }
    }
  });
  std::sort(map.begin(), map.end());
  return map;
}

void write_string_map(pbf_writer& writer, int field, const StringMap& map) {
  write_message(writer, field, [&](pbf_writer& out) {
    for (const auto& [key, value] : map) {
      write_message(out, 1, [&, &k = key, &v = value](pbf_writer& entry) {
        entry.add_string(1, k);
        entry.add_string(2, v);
      });
    }
  });
}

StackFrameIndex read_stack_frames(pbf_reader reader) {
  StackFrameIndex index;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        index.file_names.push_back(read_bytes(reader));
        break;
      case 2:
        index.function_names.push_back(read_bytes(reader));
        break;
      case 3: {
        StackFrameIndex::FileLocation l;
        read_message(open_message(reader), [&](auto& simple) {
          simple.integer("", 1, l.file_name_id, 0);
          simple.integer("", 2, l.function_name_id, 0);
          simple.integer("", 3, l.line, 0);
          simple.integer("", 4, l.column, 0);
          simple.integer("", 5, l.end_line, 0);
          simple.integer("", 6, l.end_column, 0);
        });
        index.file_locations.push_back(l);
        break;
      }
      case 4: {
        StackFrameIndex::Frame f;
        read_message(open_message(reader), [&](auto& simple) {
          simple.integer("", 1, f.file_location_id, 0);
          simple.integer("", 2, f.parent_frame_id, 0);
        });
        index.frames.push_back(f);
        break;
      }
      default:
        reader.skip();
    }
  }
  return index;
}

std::unordered_map<int64_t, Dims> read_schedule(pbf_reader reader) {
  std::unordered_map<int64_t, Dims> schedule;
  for_each_entry(reader, [&](pbf_reader entry) {
    int64_t computation = 0;
    Dims order;
    while (entry.next()) {
      if (entry.tag() == 1) {
        computation = read_integer(entry);
      } else if (entry.tag() == 2) {
        read_message(open_message(entry), [&](auto& simple) { simple.integers("", 1, order); });
      } else {
        entry.skip();
      }
    }
    schedule[computation] = std::move(order);
  });
  return schedule;
}

std::vector<InputOutputAlias> read_aliases(pbf_reader reader) {
  std::vector<InputOutputAlias> aliases;
  for_each_entry(reader, [&](pbf_reader entry) {
    InputOutputAlias& alias = aliases.emplace_back();
    int64_t kind = 0;
    read_message(entry, [&](auto& simple) {
      simple.integers("", 1, alias.output_index);
      simple.integer("", 2, alias.parameter_number, 0);
      simple.integers("", 3, alias.parameter_index);
      simple.integer("", 4, kind, 0);
    });
    alias.must_alias = kind == 2;
  });
  return aliases;
}

std::vector<BufferDonor> read_donors(pbf_reader reader) {
  std::vector<BufferDonor> donors;
  for_each_entry(reader, [&](pbf_reader entry) {
    BufferDonor& donor = donors.emplace_back();
    read_message(entry, [&](auto& simple) {
      simple.integer("", 1, donor.parameter_number, 0);
      simple.integers("", 2, donor.parameter_index);
    });
  });
  return donors;
}

void write_stack_frames(pbf_writer& writer, int field, const StackFrameIndex& index) {
  write_message(writer, field, [&](pbf_writer& out) {
    for (const std::string& name : index.file_names) out.add_string(1, name);
    for (const std::string& name : index.function_names) out.add_string(2, name);
    for (const auto& l : index.file_locations) {
      write_message(out, 3, [&](pbf_writer& fields) {
        SimpleWriter simple(fields);
        simple.integer("", 1, l.file_name_id, 0);
        simple.integer("", 2, l.function_name_id, 0);
        simple.integer("", 3, l.line, 0);
        simple.integer("", 4, l.column, 0);
        simple.integer("", 5, l.end_line, 0);
        simple.integer("", 6, l.end_column, 0);
      });
    }
    for (const auto& f : index.frames) {
      write_message(out, 4, [&](pbf_writer& fields) {
        SimpleWriter simple(fields);
        simple.integer("", 1, f.file_location_id, 0);
        simple.integer("", 2, f.parent_frame_id, 0);
      });
    }
  });
}

}  // namespace lagom::hlo::detail

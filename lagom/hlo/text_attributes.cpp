// Attributes of instructions and of the module's header in HLO text.
#include <algorithm>
#include <span>

#include "lagom/hlo/attribute_fields.h"
#include "lagom/hlo/text_parts.h"

namespace lagom::hlo::detail {
namespace {

bool read_bool(TextCursor& cursor) {
  if (cursor.consume_word("true")) return true;
  if (cursor.consume_word("false")) return false;
  if (cursor.at_integer()) return cursor.integer("true or false") != 0;
  cursor.fail_expected("true or false");
}

/// Walks the table of simple attributes and reads the one with the wanted name.
class SimpleReader {
 public:
  SimpleReader(TextCursor& cursor, std::string_view name) : cursor_(cursor), name_(name) {}
  bool found() const { return found_; }

  void integer(std::string_view name, int, int64_t& value, int64_t) {
    if (wanted(name)) value = cursor_.integer("an integer");
  }
  void boolean(std::string_view name, int, bool& value) {
    if (wanted(name)) value = read_bool(cursor_);
  }
  void real(std::string_view name, int, double& value) {
    if (wanted(name)) value = static_cast<float>(cursor_.real("a number"));
  }
  void word(std::string_view name, int, std::string& value) {
    if (wanted(name)) value = cursor_.identifier("a word");
  }
  void quoted(std::string_view name, int, std::string& value) {
    if (wanted(name)) value = cursor_.quoted("a quoted string");
  }
  void enumeration(std::string_view name, int, std::string& value,
                   std::span<const std::string_view> names) {
    if (!wanted(name)) return;
    cursor_.skip_space();
    const char* start = cursor_.position();
    const std::string_view word = cursor_.identifier("a word");
    if (std::find(names.begin(), names.end(), word) == names.end()) {
      std::string list;
      for (const std::string_view n : names) {
        if (!n.empty()) list.append(list.empty() ? "" : ", ").append(n);
      }
      cursor_.reset(start);
      cursor_.fail_expected("one of " + list);
    }
    value = word;
  }
  void integers(std::string_view name, int, Dims& value) {
    if (!wanted(name)) return;
    value = cursor_.peek() == '{' ? read_integers(cursor_, "a list of integers")
                                  : Dims{cursor_.integer("an integer")};
  }

 private:
  bool wanted(std::string_view name) {
    if (found_ || name != name_) return false;
    found_ = true;
    return true;
  }

  TextCursor& cursor_;
  std::string_view name_;
  bool found_ = false;
};

/// "3x3" or "1_1x0_2": numbers parted by '_' inside a dimension and by 'x' between dimensions.
std::vector<Dims> read_by_dimensions(TextCursor& cursor, std::string_view what) {
  std::vector<Dims> dims;
  do {
    Dims one{cursor.integer(what)};
    while (cursor.raw_peek() == '_') {
      cursor.reset(cursor.position() + 1);
      one.push_back(cursor.integer(what));
    }
    dims.push_back(std::move(one));
    if (cursor.raw_peek() != 'x') return dims;
    cursor.reset(cursor.position() + 1);
  } while (true);
}

Window read_window(TextCursor& cursor) {
  Window window;
  cursor.expect('{', "before a window");
  while (!cursor.consume('}')) {
    cursor.consume(',');
    cursor.skip_space();
    const char* start = cursor.position();
    const std::string_view field = cursor.identifier("a window field or '}'");
    cursor.expect('=', "after a window field");
    const auto values = read_by_dimensions(cursor, "a window size");
    if (window.empty()) window.resize(values.size());
    const size_t parts = field == "pad" ? 2 : 1;
    for (const Dims& v : values) {
      if (v.size() != parts)
        cursor.fail("malformed window field '" + std::string(field) + "'", start);
    }
    if (values.size() != window.size()) {
      cursor.fail("window field '" + std::string(field) + "' has " + std::to_string(values.size()) +
                      " dimensions, the others have " + std::to_string(window.size()),
                  start);
    }
    for (size_t i = 0; i < values.size(); ++i) {
      WindowDim& w = window[i];
      const int64_t v = values[i][0];
      if (field == "size") {
        w.size = v;
      } else if (field == "stride") {
        w.stride = v;
      } else if (field == "pad") {
        w.pad_low = v;
        w.pad_high = values[i][1];
      } else if (field == "lhs_dilate") {
        w.base_dilation = v;
      } else if (field == "rhs_dilate") {
        w.window_dilation = v;
      } else if (field == "rhs_reversal") {
        w.reversal = v != 0;
      } else {
        cursor.fail("unknown window field '" + std::string(field) +
                        "', expected size, stride, pad, lhs_dilate, rhs_dilate or rhs_reversal",
                    start);
      }
    }
  }
  return window;
}

/// One of the three label groups of dim_labels: 'b'/'i' and 'f'/'o' letters and spatial digits.
struct Labels {
  int64_t first = -1, second = -1;
  Dims spatial;
};

Labels decode_labels(TextCursor& cursor, std::string_view text, char first, char second,
                     const char* start) {
  Labels labels;
  std::vector<int64_t> spatial(text.size(), -1);
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto at = static_cast<int64_t>(i);
    if (c == first && labels.first < 0) {
      labels.first = at;
    } else if (c == second && labels.second < 0) {
      labels.second = at;
    } else if (c >= '0' && c <= '9' && static_cast<size_t>(c - '0') < text.size() &&
               spatial[static_cast<size_t>(c - '0')] < 0) {
      spatial[static_cast<size_t>(c - '0')] = at;
      ++count;
    } else {
      cursor.fail("dim_labels: unexpected '" + std::string(1, c) + "' in '" + std::string(text) +
                      "', expected each of '" + first + "', '" + second +
                      "' and the digits from 0 once",
                  start);
    }
  }
  spatial.resize(count);
  if (labels.first < 0 || labels.second < 0 ||
      std::find(spatial.begin(), spatial.end(), -1) != spatial.end()) {
    cursor.fail("dim_labels: '" + std::string(text) + "' misses a label", start);
  }
  labels.spatial = std::move(spatial);
  return labels;
}

ConvolutionDims read_dim_labels(TextCursor& cursor) {
  cursor.skip_space();
  const char* start = cursor.position();
  const std::string_view text = cursor.balanced("dim_labels such as b01f_01io->b01f");
  const size_t underscore = text.find('_');
  const size_t arrow = text.find("->");
  if (underscore == std::string_view::npos || arrow == std::string_view::npos ||
      arrow < underscore) {
    cursor.fail("expected dim_labels such as b01f_01io->b01f, found '" + std::string(text) + "'",
                start);
  }
  const Labels input = decode_labels(cursor, text.substr(0, underscore), 'b', 'f', start);
  const Labels kernel =
      decode_labels(cursor, text.substr(underscore + 1, arrow - underscore - 1), 'i', 'o', start);
  const Labels output = decode_labels(cursor, text.substr(arrow + 2), 'b', 'f', start);
  if (input.spatial.size() != kernel.spatial.size() ||
      input.spatial.size() != output.spatial.size()) {
    cursor.fail("dim_labels: the three parts have different numbers of spatial dimensions", start);
  }
  return {.input_batch = input.first,
          .input_feature = input.second,
          .input_spatial = input.spatial,
          .kernel_input_feature = kernel.first,
          .kernel_output_feature = kernel.second,
          .kernel_spatial = kernel.spatial,
          .output_batch = output.first,
          .output_feature = output.second,
          .output_spatial = output.spatial};
}

std::vector<SliceDim> read_slice(TextCursor& cursor) {
  std::vector<SliceDim> slice;
  cursor.expect('{', "before slice dimensions");
  while (!cursor.consume('}')) {
    if (!slice.empty()) cursor.expect(',', "or '}' in a slice");
    cursor.expect('[', "before a slice dimension");
    SliceDim dim;
    dim.start = cursor.integer("a slice start");
    cursor.expect(':', "in a slice dimension");
    dim.limit = cursor.integer("a slice limit");
    if (cursor.consume(':')) dim.stride = cursor.integer("a slice stride");
    cursor.expect(']', "after a slice dimension");
    slice.push_back(dim);
  }
  return slice;
}

std::vector<PadDim> read_padding(TextCursor& cursor) {
  cursor.skip_space();
  const char* start = cursor.position();
  std::vector<PadDim> padding;
  for (const Dims& v : read_by_dimensions(cursor, "a padding such as 1_1x0_0")) {
    if (v.size() < 2 || v.size() > 3) {
      cursor.fail("expected a padding such as 1_1 or 1_1_0 per dimension", start);
    }
    padding.push_back({.low = v[0], .high = v[1], .interior = v.size() == 3 ? v[2] : 0});
  }
  return padding;
}

ReplicaGroups read_replica_groups(TextCursor& cursor) {
  ReplicaGroups groups;
  if (cursor.consume('[')) {
    do groups.iota_shape.push_back(cursor.integer("a group count"));
    while (cursor.consume(','));
    cursor.expect(']', "in replica_groups");
    cursor.expect("<=[", "in replica_groups");
    do groups.iota_reshape.push_back(cursor.integer("a dimension"));
    while (cursor.consume(','));
    cursor.expect(']', "in replica_groups");
    if (cursor.consume("T(")) {
      do groups.iota_perm.push_back(cursor.integer("a dimension"));
      while (cursor.consume(','));
      cursor.expect(')', "in replica_groups");
    }
    return groups;
  }
  cursor.expect('{', "before replica_groups");
  while (!cursor.consume('}')) {
    if (!groups.groups.empty()) cursor.expect(',', "or '}' in replica_groups");
    groups.groups.push_back(read_integers(cursor, "a replica group"));
  }
  return groups;
}

std::vector<OutputAlias> read_output_aliases(TextCursor& cursor) {
  std::vector<OutputAlias> aliases;
  cursor.expect('{', "before output_to_operand_aliasing");
  while (!cursor.consume('}')) {
    if (!aliases.empty()) cursor.expect(',', "or '}' in output_to_operand_aliasing");
    OutputAlias alias;
    alias.output_index = read_integers(cursor, "an output index");
    cursor.expect(':', "after an output index");
    cursor.expect('(', "before an operand");
    alias.operand = cursor.integer("an operand number");
    cursor.expect(',', "after an operand number");
    alias.operand_index = read_integers(cursor, "an operand index");
    cursor.expect(')', "after an operand index");
    aliases.push_back(std::move(alias));
  }
  return aliases;
}

std::vector<InputOutputAlias> read_input_output_aliases(TextCursor& cursor) {
  std::vector<InputOutputAlias> aliases;
  cursor.expect('{', "before input_output_alias");
  while (!cursor.consume('}')) {
    if (!aliases.empty()) cursor.expect(',', "or '}' in input_output_alias");
    InputOutputAlias alias;
    alias.output_index = read_integers(cursor, "an output index");
    cursor.expect(':', "after an output index");
    cursor.expect('(', "before a parameter");
    alias.parameter_number = cursor.integer("a parameter number");
    cursor.expect(',', "after a parameter number");
    alias.parameter_index = read_integers(cursor, "a parameter index");
    if (cursor.consume(',')) {
      const std::string_view kind = cursor.identifier("may-alias or must-alias");
      if (kind != "may-alias" && kind != "must-alias") {
        cursor.fail("expected may-alias or must-alias, found '" + std::string(kind) + "'");
      }
      alias.must_alias = kind == "must-alias";
    }
    cursor.expect(')', "after an alias");
    aliases.push_back(std::move(alias));
  }
  return aliases;
}

std::vector<BufferDonor> read_buffer_donors(TextCursor& cursor) {
  std::vector<BufferDonor> donors;
  cursor.expect('{', "before buffer_donor");
  while (!cursor.consume('}')) {
    if (!donors.empty()) cursor.expect(',', "or '}' in buffer_donor");
    BufferDonor donor;
    cursor.expect('(', "before a donor");
    donor.parameter_number = cursor.integer("a parameter number");
    cursor.expect(',', "after a parameter number");
    donor.parameter_index = read_integers(cursor, "a parameter index");
    cursor.expect(')', "after a donor");
    donors.push_back(std::move(donor));
  }
  return donors;
}

/// The text of an attribute that is not decoded: a balanced value and further brackets after
/// blanks on its line, such as mesh['x'=4] {'x'}.
std::string read_raw_value(TextCursor& cursor) {
  std::string text(cursor.balanced("a value"));
  while (true) {
    size_t blanks = 0;
    while (cursor.raw_peek(blanks) == ' ') ++blanks;
    const char next = cursor.raw_peek(blanks);
    if (blanks == 0 || (next != '{' && next != '[')) return text;
    text.append(" ").append(cursor.balanced("a value"));
  }
}

Sharding::Type sharding_type(TextCursor& cursor, std::string_view word) {
  if (word == "replicated") return Sharding::Type::kReplicated;
  if (word == "maximal") return Sharding::Type::kMaximal;
  if (word == "manual") return Sharding::Type::kManual;
  if (word == "unknown") return Sharding::Type::kUnknown;
  if (word == "unreduced") return Sharding::Type::kUnreduced;
  cursor.fail("unknown sharding '" + std::string(word) +
              "', expected replicated, maximal, manual, unknown, unreduced or devices=[..]");
}

Dims read_bracketed(TextCursor& cursor, char open, char close) {
  Dims dims;
  cursor.expect(open, "in a sharding");
  while (!cursor.consume(close)) {
    if (!dims.empty()) cursor.expect(',', "in a sharding");
    dims.push_back(cursor.integer("an integer"));
  }
  return dims;
}

void read_tile_assignment(TextCursor& cursor, Sharding& sharding) {
  sharding.type = Sharding::Type::kOther;
  sharding.tile_dims = read_bracketed(cursor, '[', ']');
  if (cursor.consume("<=")) {
    sharding.iota_reshape = read_bracketed(cursor, '[', ']');
    if (cursor.consume("T(")) {
      cursor.reset(cursor.position() - 1);
      sharding.iota_perm = read_bracketed(cursor, '(', ')');
    }
    return;
  }
  do sharding.devices.push_back(cursor.integer("a device id"));
  while (cursor.consume(','));
}

}  // namespace

Dims read_integers(TextCursor& cursor, std::string_view what) {
  Dims values;
  if (cursor.peek() != '{') cursor.fail_expected("'{' before " + std::string(what));
  cursor.consume('{');
  while (!cursor.consume('}')) {
    if (!values.empty()) cursor.expect(',', "or '}' in " + std::string(what));
    values.push_back(cursor.integer("an integer"));
  }
  return values;
}

Sharding read_sharding(TextCursor& cursor, int depth) {
  if (depth > kMaxDepth) cursor.fail("shardings are nested too deeply");
  Sharding sharding;
  cursor.expect('{', "before a sharding");
  if (cursor.peek() == '{') {
    sharding.type = Sharding::Type::kTuple;
    do sharding.tuple.push_back(read_sharding(cursor, depth + 1));
    while (cursor.consume(','));
    cursor.expect('}', "after a tuple sharding");
    return sharding;
  }
  while (!cursor.consume('}')) {
    const std::string_view word = cursor.identifier("a sharding or '}'");
    if (word == "devices" || word == "device") {
      cursor.expect('=', "in a sharding");
      if (word == "device" || cursor.peek() != '[') {
        sharding.devices = {cursor.integer("a device id")};
      } else {
        read_tile_assignment(cursor, sharding);
      }
    } else if (word == "last_tile_dim_replicate") {
      sharding.replicate_on_last_dim = true;
    } else if (word == "last_tile_dims") {
      cursor.expect("={", "in a sharding");
      while (!cursor.consume('}')) {
        cursor.consume(',');
        sharding.last_tile_dims.push_back(
            sharding_type(cursor, cursor.identifier("a sharding kind")));
      }
    } else if (word == "shard_as" || word == "shard_like") {
      sharding.shard_like = word == "shard_like";
      sharding.shard_group = cursor.integer("a shard group");
    } else if (word == "metadata") {
      cursor.expect('=', "in a sharding");
      sharding.metadata_text = cursor.balanced("metadata");
    } else {
      sharding.type = sharding_type(cursor, word);
    }
    cursor.consume(',');
  }
  return sharding;
}

Metadata read_metadata(TextCursor& cursor) {
  Metadata m;
  cursor.expect('{', "before metadata");
  while (!cursor.consume('}')) {
    cursor.consume(',');
    cursor.skip_space();
    const char* start = cursor.position();
    const std::string_view field = cursor.identifier("a metadata field or '}'");
    cursor.expect('=', "after a metadata field");
    if (field == "op_type") {
      m.op_type = cursor.quoted("a quoted string");
    } else if (field == "op_name") {
      m.op_name = cursor.quoted("a quoted string");
    } else if (field == "source_file") {
      m.source_file = cursor.quoted("a quoted string");
    } else if (field == "source_line") {
      m.source_line = cursor.integer("a line");
    } else if (field == "source_end_line") {
      m.source_end_line = cursor.integer("a line");
    } else if (field == "source_column") {
      m.source_column = cursor.integer("a column");
    } else if (field == "source_end_column") {
      m.source_end_column = cursor.integer("a column");
    } else if (field == "stack_frame_id") {
      m.stack_frame_id = cursor.integer("a frame id");
    } else if (field == "deduplicated_name") {
      m.deduplicated_name = cursor.quoted("a quoted string");
    } else if (field == "scheduling_name") {
      m.scheduling_name = cursor.quoted("a quoted string");
    } else if (field == "size_of_generated_code_in_bytes") {
      m.size_of_generated_code_in_bytes = cursor.integer("a size");
    } else if (field == "size_of_memory_working_set_in_bytes") {
      m.size_of_memory_working_set_in_bytes = cursor.integer("a size");
    } else {
      cursor.balanced("a metadata value");
      if (!m.other_text.empty()) m.other_text += ' ';
      m.other_text.append(start, static_cast<size_t>(cursor.position() - start));
    }
  }
  return m;
}

StringMap read_string_map(TextCursor& cursor, std::string_view what) {
  StringMap map;
  cursor.expect('{', "before " + std::string(what));
  while (!cursor.consume('}')) {
    if (!map.empty()) cursor.expect(',', "or '}' in " + std::string(what));
    std::string key(cursor.peek() == '"' ? cursor.quoted("a key")
                                         : std::string(cursor.identifier("a key")));
    cursor.expect('=', "after a key in " + std::string(what));
    std::string value =
        cursor.peek() == '"' ? cursor.quoted("a value") : std::string(cursor.balanced("a value"));
    map.emplace_back(std::move(key), std::move(value));
  }
  std::sort(map.begin(), map.end());
  return map;
}

ProgramShape read_program_shape(TextCursor& cursor) {
  ProgramShape shape;
  cursor.expect('(', "before parameter shapes");
  while (!cursor.consume(')')) {
    if (!shape.parameters.empty()) cursor.expect(',', "or ')' in parameter shapes");
    shape.parameters.push_back(read_shape(cursor));
  }
  cursor.expect("->", "after parameter shapes");
  shape.result = read_shape(cursor);
  return shape;
}

void read_header_attribute(TextCursor& cursor, std::string_view name, Module& module) {
  if (name == "is_scheduled") {
    module.is_scheduled = read_bool(cursor);
  } else if (name == "entry_computation_layout") {
    cursor.expect('{', "before entry_computation_layout");
    module.entry_layout = read_program_shape(cursor);
    cursor.expect('}', "after entry_computation_layout");
  } else if (name == "input_output_alias") {
    module.input_output_aliases = read_input_output_aliases(cursor);
  } else if (name == "buffer_donor") {
    module.buffer_donors = read_buffer_donors(cursor);
  } else if (name == "frontend_attributes") {
    module.frontend_attributes = read_string_map(cursor, "frontend_attributes");
  } else {
    module.raw.push_back({std::string(name), read_raw_value(cursor)});
  }
}

void read_attribute(TextCursor& cursor, std::string_view name, Instruction& instruction) {
  Attributes& a = instruction.attributes;
  const Opcode opcode = instruction.opcode;
  SimpleReader simple(cursor, name);
  visit_common(a, opcode, simple);
  if (simple.found()) return;
  if (name == "metadata") {
    instruction.metadata = read_metadata(cursor);
  } else if (name == "window") {
    a.window = read_window(cursor);
  } else if (name == "dim_labels") {
    a.convolution = read_dim_labels(cursor);
  } else if (name == "slice") {
    a.slice = read_slice(cursor);
  } else if (name == "padding") {
    a.padding = read_padding(cursor);
  } else if (opcode == Opcode::kGather && name == "slice_sizes") {
    a.gather.ensure().slice_sizes = read_integers(cursor, "slice_sizes");
  } else {
    if (opcode == Opcode::kDot || opcode == Opcode::kRaggedDot) visit_dot(a.dot.ensure(), simple);
    if (opcode == Opcode::kGather) visit_gather(a.gather.ensure(), simple);
    if (opcode == Opcode::kScatter) visit_scatter(a.scatter.ensure(), simple);
    if (opcode == Opcode::kRaggedDot) {
      simple.integers("lhs_ragged_dims", 0, a.dot->lhs_ragged);
      simple.integers("rhs_group_dims", 0, a.dot->rhs_group);
    }
    if (simple.found()) return;
    RareAttributes& r = a.rare.ensure();
    visit_rare(r, opcode, simple);
    if (simple.found()) return;
    const char next = cursor.peek();
    if (name == "sharding" && next == '{') {
      r.sharding = read_sharding(cursor);
    } else if (name == "frontend_attributes") {
      r.frontend_attributes = read_string_map(cursor, "frontend_attributes");
    } else if (name == "backend_config") {
      r.backend_config = next == '"' ? cursor.quoted("a backend_config")
                                     : std::string(cursor.balanced("a backend_config"));
    } else if (name == "replica_groups" && (next == '{' || next == '[')) {
      r.replica_groups = read_replica_groups(cursor);
    } else if (name == "source_target_pairs" && next == '{') {
      r.source_target_pairs = read_replica_groups(cursor).groups;
    } else if (name == "operand_precision") {
      cursor.expect('{', "before operand_precision");
      while (!cursor.consume('}')) {
        cursor.consume(',');
        r.operand_precision.emplace_back(cursor.identifier("a precision"));
      }
    } else if (name == "algorithm" && opcode != Opcode::kRngBitGenerator) {
      r.dot_algorithm = cursor.identifier("a dot algorithm");
    } else if (name == "operand_layout_constraints") {
      cursor.expect('{', "before operand_layout_constraints");
      while (!cursor.consume('}')) {
        if (!r.operand_layouts.empty()) cursor.expect(',', "or '}' in a list of shapes");
        r.operand_layouts.push_back(read_shape(cursor));
      }
      r.constrain_layout = true;
    } else if (name == "output_to_operand_aliasing") {
      r.output_aliases = read_output_aliases(cursor);
    } else if (name == "parameter_replication") {
      cursor.expect('{', "before parameter_replication");
      while (!cursor.consume('}')) {
        cursor.consume(',');
        r.parameter_replication.push_back(read_bool(cursor));
      }
    } else if (name == "cross_program_prefetch_index") {
      r.cross_program_prefetch_index = cursor.integer("an index");
    } else if (name == "outfeed_shape") {
      r.outfeed_shape = read_shape(cursor);
    } else if (name == "lower") {
      r.lower = read_bool(cursor);
    } else if (name == "left_side") {
      r.left_side = read_bool(cursor);
    } else if (name == "unit_diagonal") {
      r.unit_diagonal = read_bool(cursor);
    } else if (name == "transpose_a") {
      r.transpose_a = cursor.identifier("a transpose kind");
    } else {
      r.raw.push_back({std::string(name), read_raw_value(cursor)});
    }
  }
}

}  // namespace lagom::hlo::detail

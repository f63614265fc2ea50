// ShapeProto, LayoutProto, ProgramShapeProto and LiteralProto, both ways.
#include <cstring>

#include "lagom/hlo/proto_parts.h"
#include "lagom/hlo/proto_reader.h"
#include "lagom/hlo/proto_writer.h"
#include "lagom/util/error.h"

namespace lagom::hlo {
namespace detail {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;
using protozero::pbf_writer;

[[noreturn]] void fail(const std::string& what) {
  throw FormatError("", "", what);
}

Layout read_layout(pbf_reader reader) {
  Layout layout;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        read_integers(reader, layout.minor_to_major);
        break;
      case 6: {
        pbf_reader tile = open_message(reader);
        Dims dims;
        while (tile.next()) {
          if (tile.tag() == 1) {
            read_integers(tile, dims);
          } else {
            tile.skip();
          }
        }
        // XLA's Tile::kCombineDimension is the smallest int64.
        for (int64_t& d : dims) d = d < 0 ? -1 : d;
        layout.tiles.push_back(std::move(dims));
        break;
      }
      case 7:
        layout.element_size_bits = read_integer(reader);
        break;
      case 8:
        layout.memory_space = read_integer(reader);
        break;
      case 16:
        layout.tail_padding_alignment = std::max<int64_t>(read_integer(reader), 1);
        break;
      default:
        reader.skip();
    }
  }
  return layout;
}

void write_layout(pbf_writer& writer, int field, const Layout& layout) {
  std::string bytes;
  pbf_writer out(bytes);
  write_integers(out, 1, layout.minor_to_major);
  for (const Dims& tile : layout.tiles) {
    std::string tile_bytes;
    pbf_writer tile_writer(tile_bytes);
    Dims dims = tile;
    for (int64_t& d : dims) d = d < 0 ? INT64_MIN : d;
    write_integers(tile_writer, 1, dims);
    out.add_message(6, tile_bytes);
  }
  if (layout.element_size_bits != 0) out.add_int64(7, layout.element_size_bits);
  if (layout.memory_space != 0) out.add_int64(8, layout.memory_space);
  out.add_int64(16, layout.tail_padding_alignment);
  writer.add_message(static_cast<protozero::pbf_tag_type>(field), bytes);
}

/// Flags that are all false, as writers put on every array, cost nothing.
void read_dynamic_flags(pbf_reader& reader, std::vector<bool>& dynamic) {
  pbf_reader copy = reader;
  if (copy.wire_type() == pbf_wire_type::length_delimited) {
    const std::string_view flags = read_view(copy);
    if (flags.find_first_not_of('\0') == std::string_view::npos) return reader.skip();
  }
  Dims flags;
  read_integers(reader, flags);
  for (const int64_t flag : flags) dynamic.push_back(flag != 0);
}

void check_dimensions(Shape& shape) {
  bool has_unbounded = false;
  for (size_t i = 0; i < shape.dimensions.size(); ++i) {
    if (shape.dimensions[i] >= 0) continue;
    // An unbounded dynamic dimension is the smallest int64 on the wire.
    if (shape.dynamic.empty() || !shape.dynamic[i]) {
      fail("a dimension is negative: " + std::to_string(shape.dimensions[i]));
    }
    shape.dimensions[i] = -1;
    has_unbounded = true;
  }
  std::optional<int64_t> elements;
  if (has_unbounded) {
    Dims bounded = shape.dimensions;
    std::erase(bounded, -1);
    elements = checked_product(bounded);
  } else {
    elements = checked_product(shape.dimensions);
  }
  if (!elements || *elements > kMaxElements) fail("a shape has too many elements");
}

bool is_permutation(const Dims& order, size_t rank) {
  if (order.size() != rank) return false;
  if (rank > 64) return std::is_permutation(order.begin(), order.end(), row_major(rank).begin());
  uint64_t seen = 0;
  for (const int64_t d : order) {
    if (d < 0 || d >= static_cast<int64_t>(rank) || (seen >> d & 1) != 0) return false;
    seen |= uint64_t{1} << d;
  }
  return true;
}

/// Values of a packed or unpacked fixed-width or varint list, appended as raw elements.
void read_varints(pbf_reader& reader, ElementType type, std::string& data) {
  Dims values;
  read_integers(reader, values);
  const auto width = static_cast<size_t>(element_bytes(type));
  const size_t start = data.size();
  data.resize(start + values.size() * width);
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == ElementType::kPred) values[i] = values[i] != 0;
    std::memcpy(data.data() + start + i * width, &values[i], width);  // little-endian
  }
}

void read_fixed(pbf_reader& reader, std::string& data) {
  if (reader.wire_type() == pbf_wire_type::length_delimited) {
    const auto view = reader.get_view();
    data.append(view.data(), view.size());
  } else if (reader.wire_type() == pbf_wire_type::fixed32) {
    const uint32_t v = reader.get_fixed32();
    data.append(reinterpret_cast<const char*>(&v), 4);
  } else if (reader.wire_type() == pbf_wire_type::fixed64) {
    const uint64_t v = reader.get_fixed64();
    data.append(reinterpret_cast<const char*>(&v), 8);
  } else {
    fail("literal values have wire type " + std::to_string(static_cast<int>(reader.wire_type())) +
         ", expected packed values");
  }
}

/// LiteralProto keeps a value of a sub-byte type in the low bits of a byte of its own; the high
/// bits are 0 there and copies of the sign in memory.
std::string without_high_bits(std::string values, int bits) {
  for (char& value : values) value = static_cast<char>(value & ((1 << bits) - 1));
  return values;
}

void set_high_bits(std::string& values, int bits, bool is_signed) {
  values = without_high_bits(std::move(values), bits);
  if (!is_signed) return;
  for (char& value : values) {
    if (value >> (bits - 1)) value = static_cast<char>(value - (1 << bits));
  }
}

void check_literal_size(const Literal& literal) {
  const auto n = checked_product(literal.shape.dimensions);
  const auto width = static_cast<uint64_t>(element_bytes(literal.shape.element_type));
  if (!n || static_cast<uint64_t>(*n) > UINT64_MAX / 16 ||
      literal.data.size() != static_cast<uint64_t>(*n) * width) {
    fail("a literal of shape " + literal.shape.to_string() + " has " +
         std::to_string(literal.data.size()) + " bytes of values, expected " +
         (n ? std::to_string(static_cast<uint64_t>(*n) * width) : "a size that fits"));
  }
}

}  // namespace

int literal_field(ElementType type) {
  switch (type) {
    case ElementType::kPred:
      return 2;
    case ElementType::kU8:
      return 3;
    case ElementType::kS32:
      return 4;
    case ElementType::kS64:
      return 5;
    case ElementType::kU32:
      return 6;
    case ElementType::kU64:
      return 7;
    case ElementType::kF32:
      return 8;
    case ElementType::kF64:
      return 9;
    case ElementType::kF16:
      return 11;
    case ElementType::kC64:
      return 12;
    case ElementType::kBF16:
      return 13;
    case ElementType::kS8:
      return 15;
    case ElementType::kU16:
      return 16;
    case ElementType::kS16:
      return 17;
    case ElementType::kC128:
      return 18;
    // The newer types' fields carry their PrimitiveType numbers.
    default:
      return static_cast<int>(type);
  }
}

void keep_unknown(pbf_reader& reader, std::string& unknown) {
  // The reader has consumed the tag: write it again, then the value's bytes as they are.
  const auto tag = reader.tag();
  const auto type = reader.wire_type();
  const char* start = reader.data().data();
  reader.skip();
  const char* stop = reader.data().data();
  protozero::write_varint(std::back_inserter(unknown),
                          (uint64_t{tag} << 3) | static_cast<uint64_t>(type));
  unknown.append(start, stop);
}

Shape read_shape(pbf_reader reader, int depth) {
  if (depth > kMaxProtoDepth) fail("shapes are nested too deeply");
  Shape shape;
  while (reader.next()) {
    switch (reader.tag()) {
      case 2:
        shape.element_type = ElementType(static_cast<int32_t>(read_integer(reader)));
        break;
      case 3:
        read_integers(reader, shape.dimensions);
        break;
      case 4:
        shape.tuple_shapes.push_back(read_shape(open_message(reader), depth + 1));
        break;
      case 5:
        shape.layout = read_layout(open_message(reader));
        break;
      case 6:
        read_dynamic_flags(reader, shape.dynamic);
        break;
      default:
        reader.skip();
    }
  }
  const int type = static_cast<int>(shape.element_type);
  if (type < 0 || type >= kNumElementTypes) {
    fail("element type " + std::to_string(type) + " is unknown");
  }
  // The layout of a parameter that is missing has none either; an instruction must have one.
  if (shape.element_type == ElementType::kInvalid && depth > 0) {
    fail("a shape has no element type");
  }
  if (shape.element_type == ElementType::kBuffer
          ? shape.tuple_shapes.size() != 1
          : !shape.is_tuple() && !shape.tuple_shapes.empty()) {
    fail("a shape of type " + std::string(element_type_name(shape.element_type)) + " has " +
         std::to_string(shape.tuple_shapes.size()) + " elements");
  }
  if (!shape.is_array() && !shape.dimensions.empty()) {
    fail("a shape of type " + std::string(element_type_name(shape.element_type)) +
         " has dimensions");
  }
  if (shape.dynamic.size() != shape.dimensions.size() ||
      std::find(shape.dynamic.begin(), shape.dynamic.end(), true) == shape.dynamic.end()) {
    shape.dynamic.clear();
  }
  check_dimensions(shape);
  if (!shape.is_array()) {
    shape.layout.reset();  // old dumps give tuples an empty layout
  } else if (shape.layout) {
    if (!is_permutation(shape.layout->minor_to_major, shape.dimensions.size())) {
      fail("the layout of " + shape.to_string(false) + " is no permutation");
    }
  } else if (shape.dimensions.empty()) {
    shape.layout = Layout{};
  }
  return shape;
}

ProgramShape read_program_shape(pbf_reader reader) {
  ProgramShape shape;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        shape.parameters.push_back(read_shape(open_message(reader)));
        break;
      case 2:
        shape.result = read_shape(open_message(reader));
        break;
      case 3:
        shape.parameter_names.push_back(read_bytes(reader));
        break;
      default:
        reader.skip();
    }
  }
  return shape;
}

Literal read_literal(pbf_reader reader, int depth) {
  if (depth > kMaxProtoDepth) fail("literals are nested too deeply");
  Literal literal;
  pbf_reader values = reader;  // the shape, wherever it stands, decides how values are read
  while (reader.next()) {
    if (reader.tag() == 1) {
      literal.shape = read_shape(open_message(reader));
    } else {
      reader.skip();
    }
  }
  const ElementType type = literal.shape.element_type;
  const auto field =
      static_cast<protozero::pbf_tag_type>(literal.shape.is_array() ? literal_field(type) : 0);
  std::string packed;
  while (values.next()) {
    if (values.tag() == 10) {
      literal.elements.push_back(read_literal(open_message(values), depth + 1));
    } else if (values.tag() != field || values.tag() == 1) {
      values.skip();
    } else if (type == ElementType::kF32 || type == ElementType::kF64 || is_complex(type)) {
      read_fixed(values, literal.data);
    } else if (type == ElementType::kPred || type == ElementType::kS32 ||
               type == ElementType::kS64 || type == ElementType::kU32 ||
               type == ElementType::kU64) {
      read_varints(values, type, literal.data);
    } else {
      literal.data += read_bytes(values);
    }
  }
  if (literal.shape.is_array()) {
    const int bits = element_bits(type);
    if (bits < 8) set_high_bits(literal.data, bits, is_signed_integer(type));
    literal.shape.layout = Layout{.minor_to_major = literal.shape.minor_to_major()};
    check_literal_size(literal);
  } else if (literal.shape.is_tuple() &&
             literal.elements.size() != literal.shape.tuple_shapes.size()) {
    fail("a tuple literal has " + std::to_string(literal.elements.size()) +
         " elements, its shape has " + std::to_string(literal.shape.tuple_shapes.size()));
  }
  return literal;
}

void write_integers(pbf_writer& writer, int field, const Dims& values) {
  if (values.empty()) return;
  writer.add_packed_int64(static_cast<protozero::pbf_tag_type>(field), values.begin(),
                          values.end());
}

void write_shape(pbf_writer& writer, int field, const Shape& shape) {
  writer.add_message(static_cast<protozero::pbf_tag_type>(field), write_shape_proto(shape));
}

void write_program_shape(pbf_writer& writer, int field, const ProgramShape& shape) {
  std::string bytes;
  pbf_writer out(bytes);
  for (const Shape& parameter : shape.parameters) write_shape(out, 1, parameter);
  write_shape(out, 2, shape.result);
  for (const std::string& name : shape.parameter_names) out.add_string(3, name);
  writer.add_message(static_cast<protozero::pbf_tag_type>(field), bytes);
}

void write_literal(pbf_writer& writer, int field, const Literal& literal) {
  if (literal.elided) {
    throw std::invalid_argument("a constant of shape " + literal.shape.to_string() +
                                " has no values: its text was elided as {...}; print the program "
                                "with large constants (xla_dump_large_constants)");
  }
  std::string bytes;
  pbf_writer out(bytes);
  write_shape(out, 1, literal.shape);
  for (const Literal& element : literal.elements) write_literal(out, 10, element);
  const ElementType type = literal.shape.element_type;
  if (literal.shape.is_array() && !literal.data.empty()) {
    const auto values_field = static_cast<protozero::pbf_tag_type>(literal_field(type));
    const auto write_varints = [&]<typename T>(T) {
      std::vector<T> values(literal.data.size() / sizeof(T));
      std::memcpy(values.data(), literal.data.data(), values.size() * sizeof(T));
      if constexpr (std::is_signed_v<T>) {
        out.add_packed_int64(values_field, values.begin(), values.end());
      } else {
        out.add_packed_uint64(values_field, values.begin(), values.end());
      }
    };
    switch (type) {
      case ElementType::kPred:
        write_varints(uint8_t{});
        break;
      case ElementType::kS32:
        write_varints(int32_t{});
        break;
      case ElementType::kS64:
        write_varints(int64_t{});
        break;
      case ElementType::kU32:
        write_varints(uint32_t{});
        break;
      case ElementType::kU64:
        write_varints(uint64_t{});
        break;
      default:
        if (element_bits(type) < 8) {
          out.add_bytes(values_field, without_high_bits(literal.data, element_bits(type)));
        } else {
          out.add_bytes(values_field, literal.data);  // packed floats and byte strings alike
        }
    }
  }
  writer.add_message(static_cast<protozero::pbf_tag_type>(field), bytes);
}

}  // namespace detail

std::string write_shape_proto(const Shape& shape) {
  std::string bytes;
  protozero::pbf_writer out(bytes);
  out.add_enum(2, static_cast<int32_t>(shape.element_type));
  Dims dimensions = shape.dimensions;
  for (int64_t& d : dimensions) d = d < 0 ? INT64_MIN : d;
  detail::write_integers(out, 3, dimensions);
  for (const Shape& element : shape.tuple_shapes) detail::write_shape(out, 4, element);
  if (shape.layout) detail::write_layout(out, 5, *shape.layout);
  if (shape.is_array() && !shape.dimensions.empty()) {
    Dims flags(shape.dimensions.size(), 0);
    for (size_t i = 0; i < shape.dynamic.size(); ++i) flags[i] = shape.dynamic[i];
    out.add_packed_bool(6, flags.begin(), flags.end());
  }
  return bytes;
}

}  // namespace lagom::hlo

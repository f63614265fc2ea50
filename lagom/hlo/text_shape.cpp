// Shapes, layouts and literals in HLO text.
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "lagom/hlo/text_parts.h"
#include "lagom/hlo/text_reader.h"

namespace lagom::hlo {
namespace detail {
namespace {

void read_tiles(TextCursor& cursor, Layout& layout) {
  while (cursor.consume('(')) {
    Dims tile;
    while (!cursor.consume(')')) {
      if (!tile.empty()) cursor.expect(',', "or ')' in a tile");
      tile.push_back(cursor.consume('*') ? -1 : cursor.integer("a tile dimension"));
    }
    layout.tiles.push_back(std::move(tile));
  }
}

int64_t read_parenthesised(TextCursor& cursor, std::string_view what) {
  cursor.expect('(', "in a layout");
  const int64_t value = cursor.integer(what);
  cursor.expect(')', "in a layout");
  return value;
}

/// The text of one rare layout part: its letters and bracketed argument.
std::string_view rare_layout_part(TextCursor& cursor) {
  const char* start = cursor.position();
  const char* open = start;
  while (cursor.raw_peek() != '(' && cursor.raw_peek() != '}' && cursor.raw_peek() != '\0') {
    cursor.reset(++open);
  }
  int depth = 0;
  do {
    const char c = cursor.raw_peek();
    if (c == '\0') cursor.fail("the layout is not closed", start);
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (c == '}' && depth == 0) cursor.fail_expected("a layout part such as T(8,128)");
    cursor.reset(cursor.position() + 1);
  } while (depth > 0);
  return {start, static_cast<size_t>(cursor.position() - start)};
}

Layout read_layout(TextCursor& cursor, int64_t rank) {
  const char* start = cursor.position();
  Layout layout;
  cursor.expect('{', "before a layout");
  while (cursor.at_integer()) {
    layout.minor_to_major.push_back(cursor.integer("a dimension"));
    if (!cursor.consume(',')) break;
  }
  if (static_cast<int64_t>(layout.minor_to_major.size()) != rank) {
    cursor.fail("the layout lists " + std::to_string(layout.minor_to_major.size()) +
                    " dimensions, the shape has " + std::to_string(rank),
                start);
  }
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (const int64_t d : layout.minor_to_major) {
    if (d < 0 || d >= rank || seen[static_cast<size_t>(d)]) {
      cursor.fail("the layout is no permutation of 0.." + std::to_string(rank - 1), start);
    }
    seen[static_cast<size_t>(d)] = true;
  }
  if (cursor.consume(':')) {
    while (cursor.peek() != '}') {
      if (cursor.consume("T(")) {
        cursor.reset(cursor.position() - 1);
        read_tiles(cursor, layout);
      } else if (cursor.consume("L(")) {
        cursor.reset(cursor.position() - 1);
        layout.tail_padding_alignment = read_parenthesised(cursor, "an alignment");
      } else if (cursor.consume("E(")) {
        cursor.reset(cursor.position() - 1);
        layout.element_size_bits = read_parenthesised(cursor, "a size in bits");
      } else if (cursor.consume("S(")) {
        cursor.reset(cursor.position() - 1);
        layout.memory_space = read_parenthesised(cursor, "a memory space");
      } else {
        layout.other += rare_layout_part(cursor);
      }
    }
  }
  cursor.expect('}', "after a layout");
  return layout;
}

void read_dimensions(TextCursor& cursor, Shape& shape) {
  cursor.expect('[', "after the element type");
  while (!cursor.consume(']')) {
    if (!shape.dimensions.empty()) cursor.expect(',', "or ']' in a shape");
    const char* start = cursor.position();
    bool dynamic = true;
    int64_t size = -1;
    if (!cursor.consume('?')) {
      dynamic = cursor.consume("<=");
      size = cursor.integer("a dimension");
      if (size < 0) cursor.fail("a dimension is negative", start);
    }
    if (dynamic && shape.dynamic.empty()) shape.dynamic.assign(shape.dimensions.size(), false);
    if (dynamic || !shape.dynamic.empty()) shape.dynamic.push_back(dynamic);
    shape.dimensions.push_back(size);
    if (shape.dimensions.size() > kMaxDepth) cursor.fail("the shape has too many dimensions");
  }
}

template <typename T>
void store_integer(TextCursor& cursor, ElementType type, T value, char* out) {
  const char* at = cursor.position();
  const int bits = element_bits(type);
  const bool is_signed = is_signed_integer(type);
  if (bits < 64) {
    const int64_t low = is_signed ? -(int64_t{1} << (bits - 1)) : 0;
    const int64_t high = (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
    const auto wide = static_cast<int64_t>(value);
    if (wide < low || wide > high) {
      cursor.fail("the value " + std::to_string(wide) + " does not fit in " +
                      std::string(element_type_name(type)),
                  at);
    }
  }
  std::memcpy(out, &value, static_cast<size_t>(element_bytes(type)));
}

/// Bits of the significand that a NaN's payload may use; 0 for types whose NaN has none.
int payload_bits(ElementType type) {
  switch (type) {
    case ElementType::kF64:
      return 52;
    case ElementType::kF32:
      return 23;
    case ElementType::kF16:
      return 10;
    case ElementType::kBF16:
      return 7;
    default:
      return 0;
  }
}

/// A NaN with the payload of its text form nan(0xPAYLOAD).
void store_nan(ElementType type, uint64_t payload, bool negative, char* out) {
  const int bits = element_bits(type);
  const uint64_t sign = uint64_t{1} << (bits - 1);
  const uint64_t exponent = sign - (uint64_t{1} << payload_bits(type));
  const uint64_t value = (negative ? sign : 0) | exponent | payload;
  std::memcpy(out, &value, static_cast<size_t>(element_bytes(type)));  // little-endian
}

/// Whether the stored value is the given one up to rounding: not what overflow makes of it.
bool is_near(double value, ElementType type, const char* stored) {
  const double got = decode_number(type, stored);
  if (std::isinf(value)) return got == value || std::isnan(got);
  return std::fabs(value - got) <=
         std::ldexp(std::fabs(value), -number_format(type).significand_bits);
}

void read_real(TextCursor& cursor, ElementType type, char* out) {
  const bool negative = cursor.peek() == '-';
  const char* start = cursor.position();
  if (negative) cursor.reset(start + 1);
  if (cursor.consume_word("nan")) {
    const char* payload_start = cursor.position();
    if (cursor.raw_peek() == '(') {
      uint64_t payload = 0;
      cursor.expect("(0x", "in a NaN payload");
      const auto [rest, error] =
          std::from_chars(cursor.position(), cursor.position() + cursor.remaining(), payload, 16);
      if (error != std::errc()) cursor.fail_expected("hexadecimal digits");
      cursor.reset(rest);
      cursor.expect(')', "after a NaN payload");
      if (payload == 0 || payload >> payload_bits(type) != 0) {
        cursor.fail(
            "a NaN of type " + std::string(element_type_name(type)) + " cannot have this payload",
            payload_start);
      }
      return store_nan(type, payload, negative, out);
    }
    return encode_number(
        type, std::copysign(std::numeric_limits<double>::quiet_NaN(), negative ? -1.0 : 1.0), out);
  }
  cursor.reset(start);
  if (cursor.consume_word("true")) return encode_number(type, 1, out);
  if (cursor.consume_word("false")) return encode_number(type, 0, out);
  const double value = cursor.real("a number");
  encode_number(type, value, out);
  if (std::fabs(value) > 1 && !is_near(value, type, out)) {
    cursor.fail("the value does not fit in " + std::string(element_type_name(type)), start);
  }
}

void read_element(TextCursor& cursor, ElementType type, char* out) {
  if (type == ElementType::kPred) {
    if (cursor.consume_word("true")) {
      out[0] = 1;
    } else if (cursor.consume_word("false")) {
      out[0] = 0;
    } else {
      const int64_t value = cursor.integer("true, false, 0 or 1");
      if (value != 0 && value != 1) cursor.fail("a pred is 0 or 1");
      out[0] = static_cast<char>(value);
    }
    return;
  }
  if (type == ElementType::kU64) {
    cursor.skip_space();
    uint64_t value = 0;
    const auto [rest, error] =
        std::from_chars(cursor.position(), cursor.position() + cursor.remaining(), value);
    if (error != std::errc()) cursor.fail_expected("an unsigned integer");
    cursor.reset(rest);
    std::memcpy(out, &value, 8);
    return;
  }
  if (is_integer(type)) {
    if (cursor.consume_word("true")) return store_integer(cursor, type, int64_t{1}, out);
    if (cursor.consume_word("false")) return store_integer(cursor, type, int64_t{0}, out);
    return store_integer(cursor, type, cursor.integer("an integer"), out);
  }
  if (is_complex(type)) {
    const ElementType part = type == ElementType::kC64 ? ElementType::kF32 : ElementType::kF64;
    if (!cursor.consume('(')) {  // a real number stands for (re, 0)
      read_real(cursor, part, out);
      return encode_number(part, 0, out + element_bytes(part));
    }
    read_real(cursor, part, out);
    cursor.expect(',', "between real and imaginary part");
    read_real(cursor, part, out + element_bytes(part));
    return cursor.expect(')', "after a complex number");
  }
  read_real(cursor, type, out);
}

/// Reads nested braces of one array, writing each element at its place in the layout.
class ArrayLiteralReader {
 public:
  ArrayLiteralReader(TextCursor& cursor, const Shape& shape, std::string& data)
      : cursor_(cursor),
        shape_(shape),
        data_(data),
        width_(element_bytes(shape.element_type)),
        stride_(shape.strides()) {}

  void read(size_t dimension, int64_t offset) {
    if (dimension == shape_.dimensions.size()) {
      return read_element(cursor_, shape_.element_type, data_.data() + offset * width_);
    }
    cursor_.expect('{', "before dimension " + std::to_string(dimension) + " of the literal");
    for (int64_t i = 0; i < shape_.dimensions[dimension]; ++i) {
      if (i > 0) {
        cursor_.expect(',', "in a literal: dimension " + std::to_string(dimension) + " of " +
                                shape_.to_string(false) + " needs " +
                                std::to_string(shape_.dimensions[dimension]) + " elements");
      }
      read(dimension + 1, offset + i * stride_[dimension]);
    }
    cursor_.expect('}', "after " + std::to_string(shape_.dimensions[dimension]) +
                            " elements of dimension " + std::to_string(dimension));
  }

 private:
  TextCursor& cursor_;
  const Shape& shape_;
  std::string& data_;
  int width_;
  Dims stride_;
};

}  // namespace

bool at_shape(TextCursor& cursor) {
  if (cursor.peek() == '(') return true;
  const char* start = cursor.position();
  const std::string_view word = cursor.try_identifier();
  const char after = cursor.raw_peek();
  cursor.reset(start);
  if (word == "b" && after == '(') return true;
  return after == '[' && !word.empty() && element_type_from_name(word).has_value();
}

Shape read_shape(TextCursor& cursor, int depth) {
  if (depth > kMaxDepth) cursor.fail("shapes are nested too deeply");
  Shape shape;
  if (cursor.consume('(')) {
    shape.element_type = ElementType::kTuple;
    while (!cursor.consume(')')) {
      if (!shape.tuple_shapes.empty()) cursor.expect(',', "or ')' in a tuple shape");
      shape.tuple_shapes.push_back(read_shape(cursor, depth + 1));
    }
    return shape;
  }
  cursor.skip_space();
  const char* start = cursor.position();
  const std::string_view word = cursor.identifier("a shape");
  if (word == "b" && cursor.raw_peek() == '(') {
    cursor.expect('(', "in a buffer shape");
    shape.element_type = ElementType::kBuffer;
    shape.tuple_shapes.push_back(read_shape(cursor, depth + 1));
    cursor.expect(')', "after a buffer shape");
    return shape;
  }
  const auto type = element_type_from_name(word);
  if (!type) {
    cursor.reset(start);
    cursor.fail_expected("a shape");
  }
  shape.element_type = *type;
  read_dimensions(cursor, shape);
  if (!is_array_type(*type) && !shape.dimensions.empty()) {
    cursor.fail("a shape of type " + std::string(word) + " has dimensions", start);
  }
  const char next = cursor.raw_peek();
  if (next == '{' && is_array_type(*type)) {
    // Elsewhere a brace opens a computation's body: a layout begins with a number or ':'.
    const char inner = cursor.raw_peek(1);
    if ((inner >= '0' && inner <= '9') || inner == ':' || inner == '}') {
      shape.layout = read_layout(cursor, shape.rank());
    }
  }
  if (!shape.layout && is_array_type(*type)) {
    shape.layout = Layout{.minor_to_major = row_major(shape.rank())};
  }
  if (is_array_type(*type)) {
    Dims sizes = shape.dimensions;
    std::erase(sizes, -1);  // unbounded ones
    const auto n = checked_product(sizes);
    if (!n || *n > kMaxElements) cursor.fail("the shape has too many elements", start);
  }
  return shape;
}

Literal read_literal(TextCursor& cursor, const Shape& shape, int depth) {
  if (depth > kMaxDepth) cursor.fail("literals are nested too deeply");
  Literal literal;
  literal.shape = shape;
  // A literal's own layout is the order of its values: tiles and memory spaces stay outside.
  if (shape.is_array()) literal.shape.layout = Layout{.minor_to_major = shape.minor_to_major()};
  const char* start = cursor.position();
  if (cursor.consume('{')) {
    if (cursor.consume("...")) {
      cursor.expect('}', "after an elided literal");
      literal.elided = true;
      return literal;
    }
    cursor.reset(start);
  }
  if (shape.is_tuple()) {
    cursor.expect('(', "before a tuple literal");
    for (const Shape& element : shape.tuple_shapes) {
      if (!literal.elements.empty()) cursor.expect(',', "in a tuple literal");
      if (at_shape(cursor) && !element.is_tuple()) read_shape(cursor);
      literal.elements.push_back(read_literal(cursor, element, depth + 1));
    }
    cursor.expect(')', "after a tuple literal");
    return literal;
  }
  if (!shape.is_array() || !checked_product(shape.dimensions)) {
    if (shape.element_type == ElementType::kToken) return literal;
    cursor.fail("a constant of type " + shape.to_string() + " is not possible");
  }
  const int64_t n = shape.num_elements();
  // An element takes at least one character and all but the last a separator.
  if (n > 0 && static_cast<uint64_t>(n) > cursor.remaining() / 2 + 1) {
    cursor.fail("the literal of " + shape.to_string() + " needs " + std::to_string(n) +
                " values, more than the text has");
  }
  literal.data.resize(static_cast<size_t>(n * element_bytes(shape.element_type)));
  if (n == 0 && shape.rank() > 0) {
    cursor.balanced("a literal");  // {} or { {}, {} }
    return literal;
  }
  ArrayLiteralReader(cursor, literal.shape, literal.data).read(0, 0);
  return literal;
}

}  // namespace detail

Shape read_shape_text(std::string_view text) {
  detail::TextCursor cursor(text, "");
  Shape shape = detail::read_shape(cursor);
  if (!cursor.at_end()) cursor.fail_expected("the end of the shape");
  return shape;
}

}  // namespace lagom::hlo

#include "lagom/hlo/shape.h"

#include <algorithm>

namespace lagom::hlo {
namespace {

void append_dims(std::string& out, const Dims& dims) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(dims[i]);
  }
}

void append_layout(std::string& out, const Layout& layout) {
  out += '{';
  append_dims(out, layout.minor_to_major);
  std::string parts;
  for (const Dims& tile : layout.tiles) {
    if (&tile == &layout.tiles.front()) parts += 'T';
    parts += '(';
    for (size_t i = 0; i < tile.size(); ++i) {
      if (i > 0) parts += ',';
      parts += tile[i] < 0 ? "*" : std::to_string(tile[i]);
    }
    parts += ')';
  }
  if (layout.tail_padding_alignment != 1) {
    parts += "L(" + std::to_string(layout.tail_padding_alignment) + ")";
  }
  if (layout.element_size_bits != 0) parts += "E(" + std::to_string(layout.element_size_bits) + ")";
  if (layout.memory_space != 0) parts += "S(" + std::to_string(layout.memory_space) + ")";
  parts += layout.other;
  if (!parts.empty()) out += ':' + parts;
  out += '}';
}

void append_shape(std::string& out, const Shape& shape, bool with_layout) {
  if (shape.is_tuple()) {
    out += '(';
    for (size_t i = 0; i < shape.tuple_shapes.size(); ++i) {
      if (i > 0) out += ", ";
      append_shape(out, shape.tuple_shapes[i], with_layout);
    }
    out += ')';
    return;
  }
  if (shape.element_type == ElementType::kBuffer) {
    out += "b(";
    if (!shape.tuple_shapes.empty()) append_shape(out, shape.tuple_shapes[0], with_layout);
    out += ')';
    return;
  }
  out += element_type_name(shape.element_type);
  out += '[';
  for (size_t i = 0; i < shape.dimensions.size(); ++i) {
    if (i > 0) out += ',';
    const bool dynamic = i < shape.dynamic.size() && shape.dynamic[i];
    if (dynamic && shape.dimensions[i] < 0) {
      out += '?';
      continue;
    }
    if (dynamic) out += "<=";
    out += std::to_string(shape.dimensions[i]);
  }
  out += ']';
  // A rank-0 array's empty layout is not printed unless it says something.
  if (with_layout && shape.layout && (shape.rank() > 0 || !(*shape.layout == Layout{}))) {
    append_layout(out, *shape.layout);
  }
}

}  // namespace

std::string_view element_type_name(ElementType type) {
  switch (type) {
    case ElementType::kTuple:
      return "tuple";
    case ElementType::kOpaque:
      return "opaque";
    case ElementType::kToken:
      return "token";
    case ElementType::kBuffer:
      return "buffer";
    default:
      return number_format(type).name;
  }
}

std::optional<ElementType> element_type_from_name(std::string_view name) {
  for (int i = 1; i < kNumElementTypes; ++i) {
    const auto type = static_cast<ElementType>(i);
    if (type != ElementType::kTuple && element_type_name(type) == name) return type;
  }
  return std::nullopt;
}

int element_bits(ElementType type) {
  return number_format(type).bits;
}

int element_bytes(ElementType type) {
  return number_format(type).bytes;
}

bool is_floating(ElementType type) {
  return number_format(type).is_float();
}

bool is_complex(ElementType type) {
  return number_format(type).is_complex();
}

bool is_signed_integer(ElementType type) {
  return number_format(type).kind == NumberKind::kSigned;
}

bool is_unsigned_integer(ElementType type) {
  return number_format(type).kind == NumberKind::kUnsigned;
}

bool is_array_type(ElementType type) {
  return element_bits(type) != 0;
}

Shape Shape::array(ElementType type, Dims dims) {
  Shape shape;
  shape.element_type = type;
  shape.layout = Layout{.minor_to_major = row_major(static_cast<int64_t>(dims.size()))};
  shape.dimensions = std::move(dims);
  return shape;
}

Shape Shape::array(ElementType type, Dims dims, Dims minor_to_major) {
  Shape shape;
  shape.element_type = type;
  shape.dimensions = std::move(dims);
  shape.layout = Layout{.minor_to_major = std::move(minor_to_major)};
  return shape;
}

Shape Shape::tuple(std::vector<Shape> elements) {
  Shape shape;
  shape.element_type = ElementType::kTuple;
  shape.tuple_shapes = std::move(elements);
  return shape;
}

Shape Shape::token() {
  Shape shape;
  shape.element_type = ElementType::kToken;
  return shape;
}

bool Shape::is_dynamic() const {
  if (std::find(dynamic.begin(), dynamic.end(), true) != dynamic.end()) return true;
  return std::any_of(tuple_shapes.begin(), tuple_shapes.end(),
                     [](const Shape& s) { return s.is_dynamic(); });
}

std::optional<int64_t> checked_product(const Dims& dims) {
  int64_t product = 1;
  bool zero = false;
  for (const int64_t d : dims) {
    if (d < 0) return std::nullopt;
    if (d == 0) {
      zero = true;
      continue;
    }
    if (product > (int64_t{1} << 62) / d) return std::nullopt;
    product *= d;
  }
  return zero ? 0 : product;
}

int64_t saturating_add(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

int64_t Shape::num_elements() const {
  return is_array() ? checked_product(dimensions).value_or(0) : 0;
}

int64_t Shape::size_bytes() const {
  if (is_array()) {
    const int bits = element_bits(element_type);
    const int64_t n = num_elements();
    return bits >= 8 ? n * (bits / 8) : (n * bits + 7) / 8;
  }
  int64_t total = 0;
  if (is_tuple()) {
    for (const Shape& s : tuple_shapes) total = saturating_add(total, s.size_bytes());
  }
  return total;
}

Dims Shape::minor_to_major() const {
  return layout ? layout->minor_to_major : row_major(rank());
}

Dims Shape::strides() const {
  Dims strides(dimensions.size(), 1);
  int64_t step = 1;
  for (const int64_t d : minor_to_major()) {
    strides[static_cast<size_t>(d)] = step;
    step *= dimensions[static_cast<size_t>(d)];
  }
  return strides;
}

std::string Shape::to_string(bool with_layout) const {
  std::string out;
  append_shape(out, *this, with_layout);
  return out;
}

bool same_dimensions(const Shape& a, const Shape& b) {
  if (a.is_tuple() != b.is_tuple() || a.dimensions != b.dimensions ||
      a.tuple_shapes.size() != b.tuple_shapes.size()) {
    return false;
  }
  for (size_t i = 0; i < a.tuple_shapes.size(); ++i) {
    if (!same_dimensions(a.tuple_shapes[i], b.tuple_shapes[i])) return false;
  }
  return true;
}

bool same_shape(const Shape& a, const Shape& b) {
  if (a.element_type != b.element_type || a.dimensions != b.dimensions ||
      a.tuple_shapes.size() != b.tuple_shapes.size()) {
    return false;
  }
  const auto is_dynamic = [](const Shape& s, size_t i) {
    return i < s.dynamic.size() && s.dynamic[i];
  };
  for (size_t i = 0; i < a.dimensions.size(); ++i) {
    if (is_dynamic(a, i) != is_dynamic(b, i)) return false;
  }
  for (size_t i = 0; i < a.tuple_shapes.size(); ++i) {
    if (!same_shape(a.tuple_shapes[i], b.tuple_shapes[i])) return false;
  }
  return true;
}

Dims row_major(int64_t rank) {
  Dims order(static_cast<size_t>(rank));
  for (size_t i = 0; i < order.size(); ++i) order[i] = rank - 1 - static_cast<int64_t>(i);
  return order;
}

}  // namespace lagom::hlo

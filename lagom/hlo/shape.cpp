#include "lagom/hlo/shape.h"

#include <algorithm>

namespace lagom::hlo {
namespace {

struct TypeInfo {
  std::string_view name;
  int bits;
};

// Indexed by the wire number.
constexpr TypeInfo kTypes[kNumElementTypes] = {
    {"invalid", 0},  {"pred", 8},     {"s8", 8},           {"s16", 16},        {"s32", 32},
    {"s64", 64},     {"u8", 8},       {"u16", 16},         {"u32", 32},        {"u64", 64},
    {"f16", 16},     {"f32", 32},     {"f64", 64},         {"tuple", 0},       {"opaque", 0},
    {"c64", 64},     {"bf16", 16},    {"token", 0},        {"c128", 128},      {"f8e5m2", 8},
    {"f8e4m3fn", 8}, {"s4", 4},       {"u4", 4},           {"f8e4m3b11fnuz", 8}, {"f8e5m2fnuz", 8},
    {"f8e4m3fnuz", 8}, {"s2", 2},     {"u2", 2},           {"f8e4m3", 8},      {"f8e3m4", 8},
    {"s1", 1},       {"u1", 1},       {"f4e2m1fn", 4},     {"f8e8m0fnu", 8},   {"buffer", 0},
};

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
  const int i = static_cast<int>(type);
  return i >= 0 && i < kNumElementTypes ? kTypes[i].name : "invalid";
}

std::optional<ElementType> element_type_from_name(std::string_view name) {
  for (int i = 1; i < kNumElementTypes; ++i) {
    if (kTypes[i].name == name && i != static_cast<int>(ElementType::kTuple)) return ElementType(i);
  }
  return std::nullopt;
}

int element_bits(ElementType type) {
  const int i = static_cast<int>(type);
  return i >= 0 && i < kNumElementTypes ? kTypes[i].bits : 0;
}

int element_bytes(ElementType type) { return (element_bits(type) + 7) / 8; }

bool is_floating(ElementType type) {
  switch (type) {
    case ElementType::kF16:
    case ElementType::kF32:
    case ElementType::kF64:
    case ElementType::kBF16:
    case ElementType::kF8E5M2:
    case ElementType::kF8E4M3:
    case ElementType::kF8E4M3FN:
    case ElementType::kF8E4M3B11FNUZ:
    case ElementType::kF8E5M2FNUZ:
    case ElementType::kF8E4M3FNUZ:
    case ElementType::kF8E3M4:
    case ElementType::kF8E8M0FNU:
    case ElementType::kF4E2M1FN:
      return true;
    default:
      return false;
  }
}

bool is_complex(ElementType type) {
  return type == ElementType::kC64 || type == ElementType::kC128;
}

bool is_signed_integer(ElementType type) {
  switch (type) {
    case ElementType::kS1:
    case ElementType::kS2:
    case ElementType::kS4:
    case ElementType::kS8:
    case ElementType::kS16:
    case ElementType::kS32:
    case ElementType::kS64:
      return true;
    default:
      return false;
  }
}

bool is_unsigned_integer(ElementType type) {
  switch (type) {
    case ElementType::kU1:
    case ElementType::kU2:
    case ElementType::kU4:
    case ElementType::kU8:
    case ElementType::kU16:
    case ElementType::kU32:
    case ElementType::kU64:
      return true;
    default:
      return false;
  }
}

bool is_array_type(ElementType type) { return element_bits(type) != 0; }

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
    for (const Shape& s : tuple_shapes) total += s.size_bytes();
  }
  return total;
}

Dims Shape::minor_to_major() const { return layout ? layout->minor_to_major : row_major(rank()); }

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

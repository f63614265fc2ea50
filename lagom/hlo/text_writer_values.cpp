#include <charconv>
#include <cmath>
#include <cstring>

#include "lagom/hlo/text_cursor.h"
#include "lagom/hlo/text_writer_parts.h"

namespace lagom::hlo::detail {
namespace {

/// A JSON dictionary is printed bare, as XLA does; anything else in quotes.
bool is_bare_json(std::string_view text) {
  if (text.size() < 2 || text.front() != '{') return false;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
      }
      if (i >= text.size()) return false;
    } else if (c == '{' || c == '[' || c == '(') {
      ++depth;
    } else if (c == '}' || c == ']' || c == ')') {
      if (--depth < 0) return false;
      if (depth == 0 && i + 1 != text.size()) return false;
    } else if (c == '\n' || c == '/' || (static_cast<unsigned char>(c) < 32)) {
      return false;
    }
  }
  return depth == 0;
}

/// nan, -nan or nan(0xPAYLOAD) when the bits are not the type's default NaN.
void append_nan(std::string& out, ElementType type, const char* bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, static_cast<size_t>(element_bytes(type)));
  int mantissa_bits = 0;
  if (type == ElementType::kF32) mantissa_bits = 23;
  if (type == ElementType::kF64) mantissa_bits = 52;
  if (type == ElementType::kBF16) mantissa_bits = 7;
  if (type == ElementType::kF16) mantissa_bits = 10;
  const bool signed_zero_nan = type == ElementType::kF8E4M3B11FNUZ ||
                               type == ElementType::kF8E5M2FNUZ ||
                               type == ElementType::kF8E4M3FNUZ || type == ElementType::kF8E8M0FNU;
  if (!signed_zero_nan && ((bits >> (element_bits(type) - 1)) & 1)) out += '-';
  out += "nan";
  if (mantissa_bits == 0) return;
  const uint64_t payload = bits & ((uint64_t{1} << mantissa_bits) - 1);
  if (payload == uint64_t{1} << (mantissa_bits - 1)) return;
  char buffer[20];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, payload, 16);
  out += "(0x";
  out.append(buffer, result.ptr);
  out += ')';
}

void append_real(std::string& out, ElementType type, const char* bytes) {
  const double value = decode_number(type, bytes);
  if (std::isnan(value)) return append_nan(out, type, bytes);
  append_number(out, value, type != ElementType::kF64);
}

void append_element(std::string& out, ElementType type, const char* bytes, bool in_array) {
  if (type == ElementType::kPred) {
    out += in_array ? (bytes[0] ? "1" : "0") : (bytes[0] ? "true" : "false");
  } else if (is_complex(type)) {
    const ElementType part = type == ElementType::kC64 ? ElementType::kF32 : ElementType::kF64;
    out += '(';
    append_real(out, part, bytes);
    out += ", ";
    append_real(out, part, bytes + element_bytes(part));
    out += ')';
  } else if (type == ElementType::kU64) {
    uint64_t value;
    std::memcpy(&value, bytes, sizeof value);
    out += std::to_string(value);
  } else if (type == ElementType::kS64) {
    int64_t value;
    std::memcpy(&value, bytes, sizeof value);
    out += std::to_string(value);
  } else if (is_integer(type)) {
    out += std::to_string(static_cast<int64_t>(decode_number(type, bytes)));
  } else {
    append_real(out, type, bytes);
  }
}

/// An array without elements is printed as braces down to its empty dimension, as XLA's reader
/// wants them. Where these would be many, `{}` must do.
bool has_many_empty_braces(const Dims& dimensions) {
  constexpr int64_t kMaxBraces = 1 << 16;
  int64_t braces = 1;
  for (const int64_t d : dimensions) {
    if (d == 0) return false;
    if (braces > kMaxBraces / d) return true;
    braces *= d;
  }
  return false;
}

void append_array(std::string& out, const Literal& literal, const Dims& stride, size_t dimension,
                  int64_t offset) {
  const Shape& shape = literal.shape;
  if (dimension == shape.dimensions.size()) {
    append_element(out, shape.element_type,
                   literal.data.data() + offset * element_bytes(shape.element_type),
                   shape.rank() > 0);
    return;
  }
  const bool inner = dimension + 1 == shape.dimensions.size();
  out += inner ? "{" : "{ ";
  for (int64_t i = 0; i < shape.dimensions[dimension]; ++i) {
    if (i > 0) out += ", ";
    append_array(out, literal, stride, dimension + 1, offset + i * stride[dimension]);
  }
  out += inner ? "}" : " }";
}

}  // namespace

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 32 || static_cast<unsigned char>(c) == 127) {
          const auto byte = static_cast<unsigned char>(c);
          out += '\\';
          out += static_cast<char>('0' + (byte >> 6));
          out += static_cast<char>('0' + ((byte >> 3) & 7));
          out += static_cast<char>('0' + (byte & 7));
        } else {
          out += c;
        }
    }
  }
  return out + '"';
}

bool is_identifier(std::string_view text) {
  TextCursor cursor(text, "");
  return !text.empty() && cursor.try_identifier().size() == text.size();
}

std::string quoted_or_json(const std::string& text) {
  return is_bare_json(text) ? text : quote(text);
}

void append_list(std::string& out, const Dims& values, char open, char close) {
  out += open;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(values[i]);
  }
  out += close;
}

void append_number(std::string& out, double value, bool single) {
  if (value == 0 && std::signbit(value)) {
    out += "-0.0";  // XLA reads -0 as an integer, without its sign
    return;
  }
  char buffer[40];
  const auto result = single
                          ? std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(value))
                          : std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, result.ptr);
}

void append_literal(std::string& out, const Literal& literal, const TextOptions& options) {
  if (literal.elided) {
    out += "{...}";
    return;
  }
  if (literal.shape.is_tuple()) {
    out += "( ";
    for (size_t i = 0; i < literal.elements.size(); ++i) {
      if (i > 0) out += ", ";
      append_literal(out, literal.elements[i], options);
    }
    out += " )";
    return;
  }
  const int64_t n = literal.shape.num_elements();
  if (options.max_literal_elements >= 0 && n > options.max_literal_elements) {
    out += "{...}";
    return;
  }
  if (n == 0 && has_many_empty_braces(literal.shape.dimensions)) {
    out += "{}";
    return;
  }
  append_array(out, literal, literal.shape.strides(), 0, 0);
}

}  // namespace lagom::hlo::detail

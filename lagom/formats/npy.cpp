#include "lagom/formats/npy.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "lagom/util/error.h"

namespace lagom::formats {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
/// Sizes are kept where sums and products of a few of them cannot overflow.
constexpr uint64_t kMaxBytes = uint64_t{1} << 60;

struct NumpyType {
  PrimitiveType type;
  char kind;
  int bytes;
  std::string_view name;
};
constexpr NumpyType kTypes[] = {
    {PrimitiveType::kPred, 'b', 1, "bool"},     {PrimitiveType::kS8, 'i', 1, "int8"},
    {PrimitiveType::kS16, 'i', 2, "int16"},     {PrimitiveType::kS32, 'i', 4, "int32"},
    {PrimitiveType::kS64, 'i', 8, "int64"},     {PrimitiveType::kU8, 'u', 1, "uint8"},
    {PrimitiveType::kU16, 'u', 2, "uint16"},    {PrimitiveType::kU32, 'u', 4, "uint32"},
    {PrimitiveType::kU64, 'u', 8, "uint64"},    {PrimitiveType::kF16, 'f', 2, "float16"},
    {PrimitiveType::kF32, 'f', 4, "float32"},   {PrimitiveType::kF64, 'f', 8, "float64"},
    {PrimitiveType::kC64, 'c', 8, "complex64"}, {PrimitiveType::kC128, 'c', 16, "complex128"},
};

const NumpyType* find_type(PrimitiveType type) {
  const auto* it = std::find_if(std::begin(kTypes), std::end(kTypes),
                                [&](const NumpyType& t) { return t.type == type; });
  return it == std::end(kTypes) ? nullptr : it;
}

/// The dictionary in a header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::string_view path, std::string_view where)
      : text_(text), path_(path), where_(where) {}

  NpyHeader parse() {
    NpyHeader header;
    bool has_type = false, has_order = false, has_shape = false;
    expect('{');
    while (!consume('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr") {
        read_type(header);
        has_type = true;
      } else if (key == "fortran_order") {
        header.is_fortran_order = boolean();
        has_order = true;
      } else if (key == "shape") {
        header.shape = tuple();
        has_shape = true;
      } else {
        fail("unknown key '" + std::string(key) + "' in the header");
      }
      if (!consume(',')) {
        expect('}');
        break;
      }
    }
    if (!has_type || !has_order || !has_shape) {
      fail("the header lacks descr, fortran_order or shape");
    }
    check_size(header);
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw FormatError(path_, where_, what); }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  bool consume(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (consume(c)) return;
    fail(std::string("npy header: expected '") + c + "', found " +
         (at_ < text_.size() ? "'" + std::string(1, text_[at_]) + "'" : "its end") + " at column " +
         std::to_string(at_));
  }
  std::string_view string() {
    const char quote = consume('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    const size_t begin = at_;
    at_ = std::min(text_.find(quote, at_), text_.size());
    const std::string_view result = text_.substr(begin, at_ - begin);
    expect(quote);
    return result;
  }
  bool boolean() {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    fail("npy header: fortran_order is neither True nor False");
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> sizes;
    expect('(');
    while (!consume(')')) {
      sizes.push_back(integer());
      if (sizes.size() > 64) fail("npy header: more than 64 dimensions");
      if (!consume(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }
  int64_t integer() {
    skip_space();
    uint64_t value = 0;
    const size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = value * 10 + static_cast<uint64_t>(text_[at_] - '0');
      if (value > kMaxBytes) fail("npy header: a dimension is too large");
    }
    if (at_ == begin) fail("npy header: a dimension is no whole number of 0 or more");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers so
    return static_cast<int64_t>(value);
  }

  void read_type(NpyHeader& header) {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[') {
      fail("an array of structures, expected an array of numbers");
    }
    const std::string_view descr = string();
    if (descr.size() < 2) fail("unknown type '" + std::string(descr) + "'");
    const bool has_order = std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
    const char kind = descr[has_order ? 1 : 0];
    if (kind == 'O') {
      fail("an array of Python objects: it would be a pickle, which is never read");
    }
    header.is_big_endian = descr[0] == '>';
    const std::string size(descr.substr(has_order ? 2 : 1));
    for (const NumpyType& type : kTypes) {
      if (kind == '?' ? type.type == PrimitiveType::kPred && size.empty()
                      : type.kind == kind && size == std::to_string(type.bytes)) {
        header.element_type = type.type;
        return;
      }
    }
    fail("type '" + std::string(descr) +
         "' is not supported, expected booleans, integers, floats or complex numbers");
  }

  void check_size(const NpyHeader& header) const {
    uint64_t bytes = static_cast<uint64_t>(number_format(header.element_type).bytes);
    bool is_empty = false;
    for (const int64_t size : header.shape) is_empty |= size == 0;
    for (const int64_t size : header.shape) {
      const uint64_t factor = std::max<uint64_t>(static_cast<uint64_t>(size), 1);
      if (factor > kMaxBytes / bytes) {
        fail(is_empty ? "the shape's dimensions are too large"
                      : "the shape needs more bytes than can be counted");
      }
      bytes *= factor;
    }
  }

  std::string_view text_, path_, where_;
  size_t at_ = 0;
};

void swap_bytes(const NpyHeader& header, Buffer& values) {
  const NumberFormat& format = number_format(header.element_type);
  const auto width = static_cast<size_t>(format.is_complex() ? format.bytes / 2 : format.bytes);
  if (width == 1) return;
  for (size_t i = 0; i + width <= values.size(); i += width) {
    std::reverse(values.data() + i, values.data() + i + width);
  }
}

/// From column-major to row-major.
Buffer row_major(const NpyHeader& header, const Buffer& values) {
  const auto width = static_cast<size_t>(number_format(header.element_type).bytes);
  const size_t rank = header.shape.size();
  std::vector<size_t> strides(rank);
  size_t stride = width;
  for (size_t d = 0; d < rank; ++d) {
    strides[d] = stride;
    stride *= static_cast<size_t>(header.shape[d]);
  }
  Buffer result(values.size());
  std::vector<int64_t> at(rank, 0);
  size_t source = 0;
  for (size_t target = 0; target < result.size(); target += width) {
    std::memcpy(result.data() + target, values.data() + source, width);
    for (size_t d = rank; d-- > 0;) {
      source += strides[d];
      if (++at[d] < header.shape[d]) break;
      source -= strides[d] * static_cast<size_t>(header.shape[d]);
      at[d] = 0;
    }
  }
  return result;
}

}  // namespace

int64_t NpyHeader::num_elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

uint64_t NpyHeader::data_bytes() const {
  return static_cast<uint64_t>(num_elements()) *
         static_cast<uint64_t>(number_format(element_type).bytes);
}

bool is_npy(std::string_view bytes) {
  return bytes.starts_with(kMagic);
}

NpyHeader read_npy_header(std::string_view bytes, std::string_view path, std::string_view where) {
  const auto fail = [&](const std::string& what) { throw FormatError(path, where, what); };
  if (!is_npy(bytes)) fail("expected an npy array, found other bytes");
  if (bytes.size() < 10) fail("the npy header is cut off");
  const int major = static_cast<unsigned char>(bytes[6]);
  if (major < 1 || major > 3) {
    fail("npy version " + std::to_string(major) + ", expected 1, 2 or 3");
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  const size_t begin = 8 + length_bytes;
  if (bytes.size() < begin) fail("the npy header is cut off");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    length |= static_cast<size_t>(static_cast<unsigned char>(bytes[8 + i])) << (8 * i);
  }
  if (length > kMaxNpyHeaderBytes - begin) fail("the npy header is too long");
  if (length > bytes.size() - begin) fail("the npy header is cut off");
  NpyHeader header = HeaderParser(bytes.substr(begin, length), path, where).parse();
  header.data_offset = begin + length;
  return header;
}

Array array_from_npy(const NpyHeader& header, Buffer values) {
  if (header.is_big_endian) swap_bytes(header, values);
  if (header.is_fortran_order && header.shape.size() > 1) values = row_major(header, values);
  return {.element_type = header.element_type, .shape = header.shape, .data = std::move(values)};
}

Array read_npy(std::string_view bytes, std::string_view path, std::string_view where) {
  const NpyHeader header = read_npy_header(bytes, path, where);
  const std::string_view values = bytes.substr(header.data_offset);
  if (values.size() != header.data_bytes()) {
    throw FormatError(path, where,
                      "holds " + std::to_string(values.size()) +
                          " bytes of values, its shape and type need " +
                          std::to_string(header.data_bytes()));
  }
  return array_from_npy(header, Buffer(values.begin(), values.end()));
}

std::string npy_header(PrimitiveType element_type, const std::vector<int64_t>& shape) {
  const NumpyType* type = find_type(element_type);
  if (type == nullptr) {
    throw std::invalid_argument("npy has no type for " +
                                std::string(number_format(element_type).name));
  }
  std::string text = "{'descr': '";
  text += type->bytes == 1 ? '|' : '<';
  text += type->kind + std::to_string(type->bytes) + "', 'fortran_order': False, 'shape': (";
  for (size_t d = 0; d < shape.size(); ++d) {
    text += std::to_string(shape[d]) + (d + 1 < shape.size() ? ", " : shape.size() == 1 ? "," : "");
  }
  text += "), }";
  // Values begin at a multiple of 64 bytes, the header ends in a line's end.
  const bool is_long = text.size() + 11 + 63 > 0xffff;
  const size_t before = is_long ? 12 : 10;
  text.append((64 - (before + text.size() + 1) % 64) % 64, ' ');
  text += '\n';
  std::string header(kMagic);
  header += static_cast<char>(is_long ? 2 : 1);
  header += '\0';
  for (size_t i = 0; i < before - 8; ++i) {
    header += static_cast<char>(text.size() >> (8 * i) & 0xff);
  }
  return header + text;
}

std::string write_npy(const Array& array) {
  return npy_header(array.element_type, array.shape).append(view_of(array.data));
}

std::string_view numpy_type_name(PrimitiveType type) {
  const NumpyType* found = find_type(type);
  return found ? found->name : std::string_view();
}

}  // namespace lagom::formats

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/formats/array.h"

/// NumPy's file format for one array: magic, version, a Python dictionary as text, raw values.
/// Versions 1.0 to 3.0.
namespace lagom::formats {

struct NpyHeader {
  PrimitiveType element_type = PrimitiveType::kInvalid;
  bool is_big_endian = false;
  bool is_fortran_order = false;  ///< Column-major.
  std::vector<int64_t> shape;
  size_t data_offset = 0;  ///< Of the values in the file.

  int64_t num_elements() const;
  /// Of all values.
  uint64_t data_bytes() const;
};

/// More than any header that NumPy writes for numbers.
inline constexpr size_t kMaxNpyHeaderBytes = 1 << 16;

/// Reads the header at the start of the bytes, which may be cut off after it.
///
/// `path` and `where` name the bytes in errors. Throws FormatError for what is no npy, for a shape
/// whose bytes cannot be counted, and for types that are no numbers: Python objects (they would be
/// pickles, which are never read), structures, strings, dates, 80-bit floats.
NpyHeader read_npy_header(std::string_view bytes, std::string_view path, std::string_view where);

/// True when the bytes begin as an npy file does.
bool is_npy(std::string_view bytes);

/// Reads a whole npy file. Throws as read_npy_header, and when values are missing or left over.
Array read_npy(std::string_view bytes, std::string_view path, std::string_view where = "");

/// The array from the raw values behind a header: little endian, row-major.
Array array_from_npy(const NpyHeader& header, Buffer values);

/// An npy file, version 1.0 (2.0 where the header is too long for it). Throws std::invalid_argument
/// for types that NumPy has not (bf16, f8, s4...).
std::string write_npy(const Array& array);
/// The same without the values.
std::string npy_header(PrimitiveType element_type, const std::vector<int64_t>& shape);

/// "float32", "int64", "bool"...: NumPy's name of the type; empty where it has none.
std::string_view numpy_type_name(PrimitiveType type);

}  // namespace lagom::formats

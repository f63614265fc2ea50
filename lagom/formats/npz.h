#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/formats/array.h"
#include "lagom/formats/npy.h"
#include "lagom/formats/zip.h"

/// NumPy's npz: a zip archive of npy members.
namespace lagom::formats {

/// Reads arrays by name, in any order, without touching the others.
class NpzReader {
 public:
  /// Throws SystemError and FormatError as ZipReader.
  explicit NpzReader(const std::filesystem::path& path);

  const std::string& path() const { return archive_.path(); }
  /// Names of the arrays (".npy" taken off), in the archive's order.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  /// A hash of the arrays' names, sizes and checksums as the directory has them: equal for equal
  /// contents, without reading values.
  uint64_t fingerprint() const;

  /// Type and shape, without the values. Throws FormatError when there is no such array ("member
  /// 'x' is missing; the file has a, b") or it is none; see read_npy_header.
  NpyHeader header(std::string_view name) const;
  Array read(std::string_view name) const;

  /// An array's rows (slices along its first dimension), in order and in little memory.
  class Rows {
   public:
    Rows(const NpzReader& file, std::string_view name);

    const NpyHeader& header() const { return header_; }
    int64_t num_rows() const { return header_.shape.at(0); }
    /// The next rows, `count` at most; none (a first dimension of 0) at the end.
    Array next(int64_t count);

   private:
    NpyHeader header_;
    ZipReader::Stream stream_;
    int64_t at_ = 0;
    uint64_t row_bytes_ = 0;
  };
  /// Throws FormatError also for scalars and for column-major arrays, whose rows lie scattered.
  Rows rows(std::string_view name) const { return Rows(*this, name); }

 private:
  const ZipMember& member(std::string_view name) const;
  [[noreturn]] void fail(std::string_view name, const std::string& what) const;

  ZipReader archive_;
};

/// Writes an npz that takes its name at `finish`; see ZipWriter.
class NpzWriter {
 public:
  explicit NpzWriter(std::filesystem::path path) : archive_(std::move(path)) {}
  void add(std::string_view name, const Array& array) {
    archive_.add(std::string(name) + ".npy", write_npy(array));
  }
  void finish() { archive_.finish(); }

 private:
  ZipWriter archive_;
};

}  // namespace lagom::formats

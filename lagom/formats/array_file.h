#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/formats/array.h"
#include "lagom/util/mapped_file.h"

/// Named arrays in one file that is mapped, not read: the place of every value is known without
/// touching the others. docs/formats.md has the bytes.
namespace lagom::formats {

inline constexpr uint32_t kArrayFileVersion = 1;

/// True when the bytes begin as an array file does.
bool is_array_file(std::string_view bytes);

class ArrayFile {
 public:
  struct Entry {
    std::string name;
    PrimitiveType element_type = PrimitiveType::kInvalid;
    std::vector<int64_t> shape;
    uint64_t offset = 0;
    uint32_t crc = 0;

    uint64_t data_bytes() const;
  };

  /// Reads header and directory, not the values. Throws SystemError when the file cannot be read,
  /// FormatError when it is none, is cut off, is of a later version, or fails its checksum.
  explicit ArrayFile(const std::filesystem::path& path);

  const std::string& path() const { return path_; }
  const std::vector<Entry>& entries() const { return entries_; }
  /// nullptr when there is none of that name.
  const Entry* find(std::string_view name) const;

  /// The mapped values. Throws FormatError when there is no such array, or it has another type or
  /// another number of dimensions.
  template <typename T>
  std::span<const T> values(std::string_view name, size_t rank) const {
    const Entry& entry = checked(name, primitive_type_of<T>(), rank);
    return {reinterpret_cast<const T*>(file_.bytes().data() + entry.offset),
            static_cast<size_t>(entry.data_bytes() / sizeof(T))};
  }
  /// The mapped values of any type.
  std::string_view bytes(const Entry& entry) const {
    return file_.bytes().substr(entry.offset, entry.data_bytes());
  }
  /// Throws FormatError as `values`.
  const std::vector<int64_t>& shape(std::string_view name) const;

  /// Compares an array's values with their checksum, which reads them. Throws FormatError.
  void verify(std::string_view name) const;
  void verify_all() const;

 private:
  [[noreturn]] void fail(std::string_view where, const std::string& what) const;
  const Entry& existing(std::string_view name) const;
  const Entry& checked(std::string_view name, PrimitiveType type, size_t rank) const;
  void read_directory();

  std::string path_;
  MappedFile file_;
  std::vector<Entry> entries_;
};

/// Writes array after array, each in pieces, into a temporary file that takes the name at `finish`;
/// until then, and when the writer goes without it, there is no file of that name.
class ArrayFileWriter {
 public:
  /// Throws SystemError when it cannot be written, as the others do.
  explicit ArrayFileWriter(std::filesystem::path path);
  ~ArrayFileWriter();
  ArrayFileWriter(const ArrayFileWriter&) = delete;
  ArrayFileWriter& operator=(const ArrayFileWriter&) = delete;

  /// Begins an array whose values follow in order by `append`. The array before must be complete.
  /// Throws std::invalid_argument for a name that is taken or longer than 40 bytes, more than 4
  /// dimensions, or an incomplete array before.
  void begin(std::string_view name, PrimitiveType type, std::vector<int64_t> shape);
  template <typename T>
  void append(std::span<const T> values) {
    append_bytes({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
  /// A whole array.
  template <typename T>
  void add(std::string_view name, std::vector<int64_t> shape, const std::vector<T>& values) {
    begin(name, primitive_type_of<T>(), std::move(shape));
    append(std::span<const T>(values));
  }
  void finish();

 private:
  struct State;
  void append_bytes(std::string_view bytes);
  std::unique_ptr<State> state_;
};

}  // namespace lagom::formats

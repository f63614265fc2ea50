#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/util/mapped_file.h"
#include "lagom/util/primitive_type.h"

/// Named tensors in one file: 8 bytes of header length, a JSON header, raw little-endian values
/// (github.com/huggingface/safetensors).
namespace lagom::formats {

/// One tensor: row-major, contiguous.
struct SafetensorsEntry {
  std::string name;
  PrimitiveType element_type = PrimitiveType::kInvalid;
  std::vector<int64_t> shape;
  std::string_view data;  ///< The values; whoever made the entry owns them.
};

using SafetensorsMetadata = std::map<std::string, std::string>;

/// A file that is mapped: values are paged in as they are used.
class SafetensorsFile {
 public:
  /// Reads and checks the header. Throws SystemError when the file cannot be read; FormatError when
  /// it is none, claims more than it holds, names a tensor twice, has an unknown dtype, a size that
  /// does not fit its shape, or values that overlap or leave bytes unused.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::string& path() const { return path_; }
  /// In the order of their values in the file.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }
  /// nullptr when there is none of that name.
  const SafetensorsEntry* find(std::string_view name) const;
  /// Throws FormatError when there is none of that name.
  const SafetensorsEntry& at(std::string_view name) const;

 private:
  std::string path_;
  MappedFile file_;
  std::vector<SafetensorsEntry> entries_;
  SafetensorsMetadata metadata_;
};

/// True when the bytes may begin a safetensors file: a header length and an opening brace.
bool is_safetensors(std::string_view bytes);

/// Writes the tensors in this order through a temporary file, so that a failure (a full disk, a
/// kill) leaves what was there. Values begin at multiples of 8 bytes where the sizes before allow.
/// Throws SystemError when it cannot be written, std::invalid_argument for a name given twice, a
/// type that safetensors has not, or values of another size than the shape's.
void write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsEntry> entries,
                       const SafetensorsMetadata& metadata = {});

}  // namespace lagom::formats

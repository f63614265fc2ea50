#pragma once

#include <filesystem>
#include <string_view>

namespace lagom {

/// A file's bytes in memory, read only, paged in as they are used.
class MappedFile {
 public:
  /// Throws SystemError when the file cannot be opened or mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::string_view bytes() const { return {data_, size_}; }
  /// Gives back the memory of whole pages in this part of `bytes`; they are paged in anew if used.
  void release(std::string_view part) const;

 private:
  const char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace lagom

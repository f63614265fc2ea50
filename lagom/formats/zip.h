#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/util/buffer.h"
#include "lagom/util/mapped_file.h"

/// Zip archives as NumPy writes them: members stored or deflated, zip64, no encryption, one volume.
namespace lagom::formats {

struct ZipMember {
  std::string name;
  bool is_deflated = false;
  uint32_t crc = 0;
  uint64_t compressed_bytes = 0, bytes = 0;
  uint64_t header_offset = 0;
};

/// Reads through the central directory at the archive's end; members are found without reading the
/// others. The file stays mapped.
class ZipReader {
 public:
  /// Throws SystemError when the file cannot be read, FormatError when it is no zip archive, is cut
  /// off, or names a member twice.
  explicit ZipReader(const std::filesystem::path& path);

  const std::string& path() const { return path_; }
  const std::vector<ZipMember>& members() const { return members_; }
  /// nullptr when there is none of that name.
  const ZipMember* find(std::string_view name) const;

  /// The whole member, its checksum compared. Throws FormatError naming the member.
  Buffer read(const ZipMember& member) const;

  /// Reads a member from its beginning in pieces, in little memory.
  class Stream {
   public:
    Stream(const ZipReader& archive, const ZipMember& member);
    ~Stream();
    Stream(Stream&&) noexcept;

    /// Up to `count` bytes more; fewer only at the end, where the checksum is compared. Throws
    /// FormatError.
    size_t read(char* out, size_t count);

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  [[noreturn]] void fail(std::string_view where, const std::string& what) const;
  void read_directory();
  ZipMember read_entry(std::string_view entry) const;
  std::string_view compressed(const ZipMember& member) const;

  std::string path_;
  MappedFile file_;
  std::vector<ZipMember> members_;
};

/// Writes an archive member by member, into a temporary file that takes the name at `finish`; until
/// then, and when the writer goes without it, there is no file of that name.
class ZipWriter {
 public:
  explicit ZipWriter(std::filesystem::path path);
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  /// Deflated, or stored where that is smaller. zip64 fields where sizes need them. Equal members
  /// give equal bytes: there is no time stamp. Throws SystemError when it cannot be written.
  void add(std::string_view name, std::string_view bytes);
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lagom::formats

#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace lagom {

/// Reads a whole file; a gzip file (by its magic bytes, not its name) is decompressed.
///
/// Throws SystemError when it cannot be read (absent, a directory, no permission) and FormatError
/// when a gzip stream is damaged or expands past `max_bytes`.
std::string read_file(const std::filesystem::path& path, uint64_t max_bytes = uint64_t{8} << 30);

/// Writes through a temporary file in the same folder and renames it, so that a reader sees the
/// old contents or the new ones and never a part. Creates missing folders.
void write_file(const std::filesystem::path& path, std::string_view bytes);
/// The same from pieces, one after the other.
void write_file(const std::filesystem::path& path, std::span<const std::string_view> pieces);

/// Appends one line, whole and under a lock, so that several processes may share a file. A last line
/// that a kill left torn is closed first. Creates the file.
void append_line(const std::filesystem::path& path, std::string_view line);

/// The bytes as a gzip stream (zlib's default level, no time stamp: equal bytes give equal files).
std::string gzip(std::string_view bytes);

}  // namespace lagom

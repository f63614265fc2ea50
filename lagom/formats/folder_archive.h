#pragma once

#include <cstddef>
#include <filesystem>

/// Folders of many small files as one zip archive.
namespace lagom::formats {

/// Packs the files in and below the folder, by ascending path, so that equal folders give equal
/// archives; files whose names begin with a dot or hold ".part" stay out. Returns how many.
/// Throws SystemError when one cannot be read or the archive cannot be written.
size_t pack_folder(const std::filesystem::path& folder, const std::filesystem::path& archive);

/// Writes the archive's files into the folder, which is created; files of these names are replaced,
/// each whole. Returns how many. Throws FormatError as ZipReader, and for a name that leads out of
/// the folder; SystemError when one cannot be written.
size_t unpack_folder(const std::filesystem::path& archive, const std::filesystem::path& folder);

}  // namespace lagom::formats

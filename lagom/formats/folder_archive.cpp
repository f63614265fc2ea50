#include "lagom/formats/folder_archive.h"

#include <algorithm>
#include <string>
#include <vector>

#include "lagom/formats/zip.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "lagom/util/mapped_file.h"

namespace lagom::formats {
namespace {

namespace fs = std::filesystem;

bool stays_inside(const fs::path& name) {
  if (name.empty() || name.is_absolute()) return false;
  return std::none_of(name.begin(), name.end(), [](const fs::path& part) { return part == ".."; });
}

}  // namespace

size_t pack_folder(const fs::path& folder, const fs::path& archive) {
  std::error_code ec;
  std::vector<std::string> names;
  for (fs::recursive_directory_iterator entry(folder, ec), end; !ec && entry != end;
       entry.increment(ec)) {
    const std::string name = entry->path().filename().string();
    if (!entry->is_regular_file() || name.starts_with('.') ||
        name.find(".part") != std::string::npos) {
      continue;
    }
    names.push_back(entry->path().lexically_relative(folder).generic_string());
  }
  if (ec) throw SystemError(folder.string() + ": cannot be listed: " + ec.message());
  std::sort(names.begin(), names.end());
  ZipWriter writer(archive);
  for (const std::string& name : names) writer.add(name, MappedFile(folder / name).bytes());
  writer.finish();
  return names.size();
}

size_t unpack_folder(const fs::path& archive, const fs::path& folder) {
  const ZipReader reader(archive);
  for (const ZipMember& member : reader.members()) {
    if (!stays_inside(member.name)) {
      throw FormatError(reader.path(), "member '" + member.name + "'",
                        "its name leads out of the folder");
    }
  }
  size_t count = 0;
  for (const ZipMember& member : reader.members()) {
    if (member.name.ends_with('/')) continue;
    write_file(folder / member.name, view_of(reader.read(member)));
    ++count;
  }
  return count;
}

}  // namespace lagom::formats

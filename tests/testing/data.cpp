#include "tests/testing/data.h"

#include <algorithm>
#include <stdexcept>

namespace lagom::testing {

std::filesystem::path data_folder() {
  // This source lies in tests/testing.
  return std::filesystem::path(LAGOM_SOURCE_DIR) / "data";
}

std::vector<std::filesystem::path> data_files(const std::string& folder,
                                              const std::string& ending) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(data_folder() / folder)) {
    if (entry.path().filename().string().ends_with(ending)) files.push_back(entry.path());
  }
  if (files.empty()) throw std::runtime_error("no files in data/" + folder);
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace lagom::testing

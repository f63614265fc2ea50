#include "lagom/collect/kernel_descriptions.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "lagom/util/error.h"
#include "lagom/util/file.h"

namespace lagom::collect {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

bool for_each_kernel_description(const fs::path& folder,
                                 const std::function<bool(const fs::path&)>& progress,
                                 const std::function<void(const fs::path&, json)>& visit,
                                 bool with_programs) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  if (error) throw SystemError(folder.string() + ": cannot be read: " + error.message());
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    if (progress && !progress(path)) return false;
    try {
      json j = json::parse(read_file(path));
      const bool is_program = with_programs && j.is_object() && j.contains("configurations");
      if (is_program || (j.is_object() && j.contains("hlo"))) visit(path, std::move(j));
    } catch (const json::exception& e) {
      throw FormatError(path.string(), "",
                        std::string("is no description of a kernel: ") + e.what());
    }
  }
  return true;
}

void throw_no_kernels(const fs::path& folder) {
  throw FormatError(folder.string(), "",
                    "expected measured kernels (.npz and .json, as lagom collect writes them), "
                    "found none");
}

}  // namespace lagom::collect

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lagom::testing {

/// The project's data/ folder.
std::filesystem::path data_folder();

/// Files of a folder below data/ whose names end like this, sorted; at least one.
std::vector<std::filesystem::path> data_files(const std::string& folder, const std::string& ending);

}  // namespace lagom::testing

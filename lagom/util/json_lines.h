#pragma once

// Logs of JSON lines (see append_line in file.h). Private to sources: it shows nlohmann's types.

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace lagom {

/// Calls `visit` with each line's value. Lines that are no JSON, or from which `visit` throws, are
/// left out: a kill may have torn them. Returns how many; a file that is not there has no lines.
template <typename Json = nlohmann::json, typename Visitor>
size_t for_each_json_line(const std::filesystem::path& path, Visitor&& visit) {
  std::ifstream in(path);
  size_t left_out = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    try {
      visit(Json::parse(line));
    } catch (const std::exception&) {
      ++left_out;
    }
  }
  return left_out;
}

}  // namespace lagom

#include "lagom/collect/splits.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <vector>

#include "lagom/util/error.h"
#include "lagom/util/file.h"

namespace lagom::collect {
namespace {

// The first of these that any program has is the split of what they share.
constexpr std::array<std::string_view, 3> kSplits = {"train", "valid", "test"};

std::vector<std::string> columns_of(const std::string& line) {
  std::vector<std::string> columns(1);
  for (const char c : line) {
    if (c == '\t') {
      columns.emplace_back();
    } else if (c != '\r') {
      columns.back() += c;
    }
  }
  return columns;
}

}  // namespace

ProgramSplits::ProgramSplits(const std::filesystem::path& path) : path_(path.string()) {
  std::istringstream lines(read_file(path));
  std::map<std::string, std::string> split_of_family;
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = "line " + std::to_string(++number);
    if (line.empty()) continue;
    const std::vector<std::string> columns = columns_of(line);
    if (number == 1) {
      if (columns == std::vector<std::string>{"program", "family", "split"}) continue;
      throw FormatError(path_, where,
                        "expected the header program, family, split; found '" + line + "'");
    }
    if (columns.size() != 3) {
      throw FormatError(path_, where,
                        "expected 3 columns, found " + std::to_string(columns.size()));
    }
    const std::string& split = columns[2];
    if (std::find(kSplits.begin(), kSplits.end(), split) == kSplits.end()) {
      throw FormatError(path_, where, "expected train, valid or test; found '" + split + "'");
    }
    if (!entries_.emplace(columns[0], Entry{columns[1], split}).second) {
      throw FormatError(path_, where, "program '" + columns[0] + "' is there twice");
    }
    const std::string& first = split_of_family.emplace(columns[1], split).first->second;
    if (first != split) {
      throw FormatError(path_, where,
                        "family '" + columns[1] + "' is in " + first + " and in " + split);
    }
  }
}

const ProgramSplits::Entry& ProgramSplits::entry(const std::string& program) const {
  const auto found = entries_.find(program);
  if (found == entries_.end()) {
    throw FormatError(path_, "", "has no program '" + program + "'");
  }
  return found->second;
}

const std::string& ProgramSplits::split_of(const std::string& program) const {
  return entry(program).split;
}

const std::string& ProgramSplits::family_of(const std::string& program) const {
  return entry(program).family;
}

std::string ProgramSplits::split_of(std::span<const std::string> programs) const {
  for (const std::string_view split : kSplits) {
    for (const std::string& program : programs) {
      if (split_of(program) == split) return std::string(split);
    }
  }
  return "";
}

}  // namespace lagom::collect

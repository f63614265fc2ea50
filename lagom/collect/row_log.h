#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lagom/measure/types.h"

namespace lagom::collect {

/// One measured configuration of a program or kernel.
struct Row {
  std::string configuration;   ///< Text form; empty for the default against itself.
  double seconds = 0;          ///< Median of the configuration...
  double default_seconds = 0;  ///< ...and of the default, run in turn with it.
  measure::Ratio ratio;
  double compile_seconds = 0;
  measure::FailureKind failure = measure::FailureKind::kNone;
  std::string error;

  bool ok() const { return failure == measure::FailureKind::kNone; }
};

/// Rows in a file of JSON lines. Lines are appended whole, so that what was measured outlives any
/// kill; a line torn by one is skipped.
class RowLog {
 public:
  explicit RowLog(std::filesystem::path path);

  const std::vector<Row>& rows() const { return rows_; }
  bool contains(const std::string& configuration) const;
  void add(const Row& row);

 private:
  std::filesystem::path path_;
  std::vector<Row> rows_;
};

}  // namespace lagom::collect

#pragma once

#include <cstdio>
#include <stdexcept>
#include <string>

namespace lagom::train {

/// Throws std::invalid_argument "FIELD: expected EXPECTED, found FOUND" unless `ok`.
inline void check_field(bool ok, const char* field, const std::string& expected, double found) {
  if (ok) return;
  char number[32];
  std::snprintf(number, sizeof number, "%.9g", found);
  throw std::invalid_argument(std::string(field) + ": expected " + expected + ", found " + number);
}

}  // namespace lagom::train

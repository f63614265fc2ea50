#pragma once

#include <stdexcept>
#include <string>

namespace lagom::train {

/// Throws std::invalid_argument "FIELD: expected EXPECTED, found FOUND" unless `ok`.
inline void check_field(bool ok, const char* field, const char* expected, double found) {
  if (ok) return;
  throw std::invalid_argument(std::string(field) + ": expected " + expected + ", found " +
                              std::to_string(found));
}

}  // namespace lagom::train

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lagom::formats {

/// "[2, 3]", for messages.
inline std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

}  // namespace lagom::formats

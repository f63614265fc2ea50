#include "lagom/util/flags.h"

#include <charconv>

namespace lagom {

std::string flag_value_to_string(const FlagValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, std::get<double>(value)).ptr;
  return std::string(buffer, end);
}

}  // namespace lagom

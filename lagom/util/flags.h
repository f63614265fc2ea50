#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

namespace lagom {

using FlagValue = std::variant<bool, int64_t, double, std::string>;

/// Overrides of XLA's flags for one compilation: {"xla_cpu_prefer_vector_width", int64_t{512}}.
using Flags = std::map<std::string, FlagValue>;

/// "true", "512", "0.5" or the string itself.
std::string flag_value_to_string(const FlagValue& value);

}  // namespace lagom

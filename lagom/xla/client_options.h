#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lagom::xla::abi {
struct NamedValue;
}

namespace lagom::xla {

using ClientOption = std::variant<bool, int64_t, float, std::vector<int64_t>, std::string>;

/// What a plugin is told when a client is made: {"memory_fraction", 0.5f}. Plugins refuse names
/// that they do not know, and values of another type; docs/devices.md lists those of common
/// plugins.
using ClientOptions = std::map<std::string, ClientOption>;

/// "NAME=VALUE": true and false, integers, decimal numbers, [1,2] for a list of integers; anything
/// else is text, also between double quotes. Throws std::invalid_argument.
std::pair<std::string, ClientOption> parse_client_option(std::string_view text);

/// The options as the ABI has them; refers to `options`.
std::vector<abi::NamedValue> to_named_values(const ClientOptions& options);

}  // namespace lagom::xla

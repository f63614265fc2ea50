#include "lagom/xla/client_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "lagom/xla/pjrt_abi.h"

namespace lagom::xla {
namespace {

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<int64_t> parse_list(std::string_view text, std::string_view option) {
  std::vector<int64_t> values;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const auto value = parse_number<int64_t>(text.substr(0, end));
    if (!value) {
      throw std::invalid_argument("expected integers with commas between them in '" +
                                  std::string(option) + "'");
    }
    values.push_back(*value);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return values;
}

ClientOption parse_value(std::string_view text, std::string_view option) {
  if (text == "true" || text == "false") return text == "true";
  if (const auto value = parse_number<int64_t>(text)) return *value;
  if (const auto value = parse_number<float>(text); value && std::isfinite(*value)) return *value;
  const auto is_between = [&](char begin, char end) {
    return text.size() >= 2 && text.front() == begin && text.back() == end;
  };
  if (is_between('[', ']')) return parse_list(text.substr(1, text.size() - 2), option);
  return std::string(is_between('"', '"') ? text.substr(1, text.size() - 2) : text);
}

}  // namespace

std::pair<std::string, ClientOption> parse_client_option(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos) {
    throw std::invalid_argument("expected NAME=VALUE, found '" + std::string(text) + "'");
  }
  return {std::string(text.substr(0, equals)), parse_value(text.substr(equals + 1), text)};
}

std::vector<abi::NamedValue> to_named_values(const ClientOptions& options) {
  std::vector<abi::NamedValue> values;
  for (const auto& [name, option] : options) {
    abi::NamedValue value{};
    value.struct_size = sizeof value;
    value.name = name.data();
    value.name_size = name.size();
    value.value_size = 1;
    if (const auto* flag = std::get_if<bool>(&option)) {
      value.type = abi::kBool;
      value.bool_value = *flag;
    } else if (const auto* integer = std::get_if<int64_t>(&option)) {
      value.type = abi::kInt64;
      value.int64_value = *integer;
    } else if (const auto* number = std::get_if<float>(&option)) {
      value.type = abi::kFloat;
      value.float_value = *number;
    } else if (const auto* list = std::get_if<std::vector<int64_t>>(&option)) {
      value.type = abi::kInt64List;
      value.int64_array_value = list->data();
      value.value_size = list->size();
    } else {
      const auto& text = std::get<std::string>(option);
      value.type = abi::kString;
      value.string_value = text.data();
      value.value_size = text.size();
    }
    values.push_back(value);
  }
  return values;
}

}  // namespace lagom::xla

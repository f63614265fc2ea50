#include "lagom/util/options.h"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <stdexcept>

#include "lagom/util/error.h"
#include "lagom/util/file.h"

namespace lagom {
namespace {

std::string place(const toml::source_region& source) {
  if (source.begin.line == 0) return "";
  return "line " + std::to_string(source.begin.line) + ", column " +
         std::to_string(source.begin.column);
}

std::string_view type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

std::string joined(std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    char escaped[8];
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 32 || byte == 127) {
      std::snprintf(escaped, sizeof escaped, "\\u%04X", byte);
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

class OptionsReader::Impl : public FieldVisitor {
 public:
  Impl(std::string_view text, std::string origin) : origin_(std::move(origin)) {
    try {
      root_ = toml::parse(text);
    } catch (const toml::parse_error& error) {
      throw FormatError(origin_, place(error.source()), std::string(error.description()));
    }
    levels_.push_back({&root_, "", {}});
  }

  void finish() {
    refuse_unknown();
    levels_.assign(1, Level{&root_, "", {}});
  }

 protected:
  void field(std::string_view name, bool& value) override {
    if (const toml::node* node = find(name)) value = get<bool>(*node, name, "a boolean");
  }
  void field(std::string_view name, int64_t& value) override {
    if (const toml::node* node = find(name)) value = get_integer(*node, name);
  }
  void field(std::string_view name, double& value) override {
    if (const toml::node* node = find(name)) value = get_number(*node, name);
  }
  void field(std::string_view name, std::string& value) override {
    if (const toml::node* node = find(name)) value = get<std::string>(*node, name, "a string");
  }
  void field(std::string_view name, std::vector<int64_t>& value) override {
    const toml::array* array = find_array(name);
    if (array == nullptr) return;
    value.clear();
    for (const toml::node& node : *array) value.push_back(get_integer(node, name));
  }
  void field(std::string_view name, std::vector<double>& value) override {
    const toml::array* array = find_array(name);
    if (array == nullptr) return;
    value.clear();
    for (const toml::node& node : *array) value.push_back(get_number(node, name));
  }
  void field(std::string_view name, std::vector<std::string>& value) override {
    const toml::array* array = find_array(name);
    if (array == nullptr) return;
    value.clear();
    for (const toml::node& node : *array) {
      value.push_back(get<std::string>(node, name, "a string"));
    }
  }
  void choice(std::string_view name, size_t& index,
              std::span<const std::string_view> names) override {
    const toml::node* node = find(name);
    if (node == nullptr) return;
    const auto text = get<std::string>(*node, name, "a string");
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == text) {
        index = i;
        return;
      }
    }
    fail(*node, name, "expected one of " + joined(names) + "; found '" + text + "'");
  }
  bool enter(std::string_view name) override {
    const toml::node* node = find(name);
    if (node == nullptr) return false;
    const toml::table* table = node->as_table();
    if (table == nullptr) {
      fail(*node, name, "expected a table, found " + std::string(type_name(*node)));
    }
    levels_.push_back({table, levels_.back().prefix + std::string(name) + ".", {}});
    return true;
  }
  void leave() override {
    refuse_unknown();
    levels_.pop_back();
  }
  std::vector<std::string> names_in_table() override {
    std::vector<std::pair<toml::source_position, std::string>> found;
    for (const auto& [key, node] : *levels_.back().table) {
      found.emplace_back(key.source().begin, std::string(key.str()));
    }
    std::sort(found.begin(), found.end());
    std::vector<std::string> names;
    for (auto& [position, name] : found) names.push_back(std::move(name));
    return names;
  }
  int narrow(std::string_view name, int64_t value) override {
    if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max()) {
      const toml::node* node = levels_.back().table->get(name);
      fail(*node, name, "expected 32 bits, found " + std::to_string(value));
    }
    return static_cast<int>(value);
  }

 private:
  struct Level {
    const toml::table* table;
    std::string prefix;
    std::set<std::string, std::less<>> known;
  };

  const toml::node* find(std::string_view name) {
    levels_.back().known.emplace(name);
    return levels_.back().table->get(name);
  }
  const toml::array* find_array(std::string_view name) {
    const toml::node* node = find(name);
    if (node == nullptr) return nullptr;
    if (node->as_array() == nullptr) {
      fail(*node, name, "expected an array, found " + std::string(type_name(*node)));
    }
    return node->as_array();
  }
  template <typename T>
  T get(const toml::node& node, std::string_view name, std::string_view expected) {
    if (const auto* value = node.as<T>()) return value->get();
    fail(node, name,
         "expected " + std::string(expected) + ", found " + std::string(type_name(node)));
  }
  double get_number(const toml::node& node, std::string_view name) {
    if (const auto* integer = node.as_integer()) return static_cast<double>(integer->get());
    return get<double>(node, name, "a number");
  }
  int64_t get_integer(const toml::node& node, std::string_view name) {
    return get<int64_t>(node, name, "an integer");
  }
  void refuse_unknown() {
    const Level& level = levels_.back();
    for (const auto& [key, node] : *level.table) {
      if (level.known.contains(key.str())) continue;
      std::vector<std::string_view> names(level.known.begin(), level.known.end());
      throw FormatError(origin_, place(key.source()),
                        "unknown key '" + level.prefix + std::string(key.str()) +
                            "'; expected one of " + joined(names));
    }
  }
  [[noreturn]] void fail(const toml::node& node, std::string_view name, const std::string& what) {
    throw FormatError(origin_, place(node.source()),
                      levels_.back().prefix + std::string(name) + ": " + what);
  }

  std::string origin_;
  toml::table root_;
  std::vector<Level> levels_;
};

OptionsReader::OptionsReader(std::string_view toml, std::string origin)
    : impl_(std::make_unique<Impl>(toml, std::move(origin))) {}
OptionsReader::~OptionsReader() = default;
FieldVisitor& OptionsReader::visitor() {
  return *impl_;
}
void OptionsReader::finish() {
  impl_->finish();
}

class OptionsWriter::Impl : public FieldVisitor {
 public:
  std::string text() const {
    std::string text;
    for (const Table& table : tables_) {
      if (!table.name.empty() && !table.lines.empty()) text += "\n[" + table.name + "]\n";
      text += table.lines;
    }
    return text.starts_with('\n') ? text.substr(1) : text;
  }

 protected:
  void field(std::string_view name, bool& value) override { add(name, value ? "true" : "false"); }
  void field(std::string_view name, int64_t& value) override { add(name, std::to_string(value)); }
  void field(std::string_view name, double& value) override { add(name, number_text(value)); }
  void field(std::string_view name, std::string& value) override { add(name, toml_string(value)); }
  void field(std::string_view name, std::vector<int64_t>& value) override {
    std::string text;
    for (const int64_t item : value) text += (text.empty() ? "" : ", ") + std::to_string(item);
    add(name, "[" + text + "]");
  }
  void field(std::string_view name, std::vector<double>& value) override {
    std::string text;
    for (const double item : value) text += (text.empty() ? "" : ", ") + number_text(item);
    add(name, "[" + text + "]");
  }
  void field(std::string_view name, std::vector<std::string>& value) override {
    std::string text;
    for (const std::string& item : value) text += (text.empty() ? "" : ", ") + toml_string(item);
    add(name, "[" + text + "]");
  }
  void choice(std::string_view name, size_t& index,
              std::span<const std::string_view> names) override {
    add(name, toml_string(names[index]));
  }
  bool enter(std::string_view name) override {
    const std::string& outer = tables_[open_.back()].name;
    tables_.push_back({outer.empty() ? std::string(name) : outer + "." + std::string(name), ""});
    open_.push_back(tables_.size() - 1);
    return true;
  }
  void leave() override { open_.pop_back(); }
  std::vector<std::string> names_in_table() override { return {}; }
  int narrow(std::string_view, int64_t value) override { return static_cast<int>(value); }

 private:
  struct Table {
    std::string name;
    std::string lines;
  };
  static std::string number_text(double value) {
    char buffer[32];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
    std::string text(buffer, end);
    if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
    return text;
  }
  void add(std::string_view name, std::string_view value) {
    tables_[open_.back()].lines.append(name).append(" = ").append(value).append("\n");
  }

  std::vector<Table> tables_{{"", ""}};
  std::vector<size_t> open_{0};
};

OptionsWriter::OptionsWriter() : impl_(std::make_unique<Impl>()) {}
OptionsWriter::~OptionsWriter() = default;
FieldVisitor& OptionsWriter::visitor() {
  return *impl_;
}
std::string OptionsWriter::text() const {
  return impl_->text();
}

std::string peek_option(const std::filesystem::path& path, std::span<const std::string> overrides,
                        std::string_view key) {
  std::string found;
  const auto look = [&](std::string_view text, const std::string& origin) {
    try {
      found = toml::parse(text)[key].value_or(found);
    } catch (const toml::parse_error& error) {
      throw FormatError(origin, place(error.source()), std::string(error.description()));
    }
  };
  look(detail::read_config_text(path), path.string());
  for (const std::string& text : overrides) {
    look(detail::override_to_toml(text), "--set " + text);
  }
  return found;
}

namespace detail {

std::string read_config_text(const std::filesystem::path& path) {
  constexpr uint64_t kMaxBytes = 16 << 20;
  return read_file(path, kMaxBytes);
}

std::string override_to_toml(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw FormatError("--set " + text, "", "expected KEY=VALUE, for instance model.width=128");
  }
  const std::string key = text.substr(0, equals);
  const std::string value = text.substr(equals + 1);
  try {
    (void)toml::parse("x = " + value);
    return key + " = " + value;
  } catch (const toml::parse_error&) {
    return key + " = " + toml_string(value);
  }
}

}  // namespace detail
}  // namespace lagom

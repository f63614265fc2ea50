#pragma once

// Options as plain structs that config files, checkpoints and logs share. A struct names its fields
// once:
//
//   struct RouterOptions {
//     int64_t d_model = 256;
//     Gate gate = Gate::kSigmoid;     // an enum with `option_names(Gate)`, found by its namespace
//     template <typename Self, typename Visitor>
//     static void visit_fields(Self& self, Visitor&& visit) {
//       visit("d_model", self.d_model);
//       visit("gate", self.gate);
//     }
//   };
//
// A field that is such a struct itself is a table of its own: `[router]`. A field of NamedTables is
// a table of tables whose names the file chooses: `[families.dense]`.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lagom {

/// Structs by name, in the order of the file.
template <typename Options>
using NamedTables = std::vector<std::pair<std::string, Options>>;

/// Sees each field of an options struct by name; readers and writers implement it.
class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;

  template <typename T>
  void operator()(std::string_view name, T& value) {
    if constexpr (std::is_enum_v<T>) {
      auto index = static_cast<size_t>(value);
      choice(name, index, option_names(T{}));
      value = static_cast<T>(index);
    } else if constexpr (std::is_same_v<T, int>) {
      auto wide = static_cast<int64_t>(value);
      field(name, wide);
      value = narrow(name, wide);
    } else if constexpr (requires(T& t, FieldVisitor& v) { T::visit_fields(t, v); }) {
      if (enter(name)) {
        T::visit_fields(value, *this);
        leave();
      }
    } else if constexpr (requires { typename T::value_type::second_type; }) {
      named_tables(name, value);
    } else {
      field(name, value);
    }
  }

 protected:
  virtual void field(std::string_view name, bool& value) = 0;
  virtual void field(std::string_view name, int64_t& value) = 0;
  virtual void field(std::string_view name, double& value) = 0;
  virtual void field(std::string_view name, std::string& value) = 0;
  virtual void field(std::string_view name, std::vector<int64_t>& value) = 0;
  virtual void field(std::string_view name, std::vector<double>& value) = 0;
  virtual void field(std::string_view name, std::vector<std::string>& value) = 0;
  /// An enum whose values count from 0; `names` in that order.
  virtual void choice(std::string_view name, size_t& index,
                      std::span<const std::string_view> names) = 0;
  /// Begins a table; false leaves it out.
  virtual bool enter(std::string_view name) = 0;
  virtual void leave() = 0;
  /// Names that stand in the table just entered, in the order of the file; none while writing.
  virtual std::vector<std::string> names_in_table() = 0;
  virtual int narrow(std::string_view name, int64_t value) = 0;

 private:
  template <typename Options>
  void named_tables(std::string_view name, NamedTables<Options>& value) {
    if (!enter(name)) return;
    for (std::string& key : names_in_table()) {
      bool known = false;
      for (const auto& entry : value) known = known || entry.first == key;
      if (!known) value.emplace_back(std::move(key), Options{});
    }
    for (auto& [key, options] : value) {
      if (!enter(key)) continue;
      Options::visit_fields(options, *this);
      leave();
    }
    leave();
  }
};

/// Sets fields from TOML; what it does not name keeps its value.
class OptionsReader {
 public:
  /// `origin` stands for the text in messages. Throws FormatError with line and column when the
  /// text is no TOML.
  OptionsReader(std::string_view toml, std::string origin);
  ~OptionsReader();

  /// Throws FormatError, with the line, for a key that is no field, a value of another type or
  /// outside its type's range, and a name that is none of an enum's.
  template <typename Options>
  void read(Options& options) {
    Options::visit_fields(options, visitor());
    finish();
  }

 private:
  class Impl;
  FieldVisitor& visitor();
  void finish();
  std::unique_ptr<Impl> impl_;
};

/// Writes fields in their order, scalars before tables.
class OptionsWriter {
 public:
  OptionsWriter();
  ~OptionsWriter();

  template <typename Options>
  std::string write(const Options& options) {
    Options copy = options;  // visiting needs fields that can be set
    Options::visit_fields(copy, visitor());
    return text();
  }

 private:
  class Impl;
  FieldVisitor& visitor();
  std::string text() const;
  std::unique_ptr<Impl> impl_;
};

/// Reads a config file, then each of `overrides`, lines such as `model.width=128`, which win; text
/// may go without quotes there.
/// Throws SystemError when the file cannot be read and FormatError as OptionsReader does.
template <typename Options>
void read_options(const std::filesystem::path& path, std::span<const std::string> overrides,
                  Options& options);

/// The string that a config file, or an override of it, gives a key outside tables; empty where
/// none does. Decides which options a file is for before they are read. Throws as read_options.
std::string peek_option(const std::filesystem::path& path, std::span<const std::string> overrides,
                        std::string_view key);

/// The options as TOML; reading it back gives equal options.
template <typename Options>
std::string options_to_toml(const Options& options) {
  return OptionsWriter().write(options);
}

/// Reads options from TOML text; `origin` stands for it in messages.
template <typename Options>
void options_from_toml(std::string_view toml, const std::string& origin, Options& options) {
  OptionsReader(toml, origin).read(options);
}

namespace detail {
std::string read_config_text(const std::filesystem::path& path);
/// `a.b=c` as TOML, with quotes put around a value that is no TOML.
std::string override_to_toml(const std::string& text);
}  // namespace detail

template <typename Options>
void read_options(const std::filesystem::path& path, std::span<const std::string> overrides,
                  Options& options) {
  if (!path.empty()) options_from_toml(detail::read_config_text(path), path.string(), options);
  for (const std::string& text : overrides) {
    options_from_toml(detail::override_to_toml(text), "--set " + text, options);
  }
}

}  // namespace lagom

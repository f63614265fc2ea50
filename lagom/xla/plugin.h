#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "lagom/util/error.h"

namespace lagom::xla {

namespace abi {
struct Api;
struct Error;
struct Header;
enum Slot : int;
}  // namespace abi

/// A call into the plugin returned an error.
///
/// The message reads "PJRT_Client_Compile: INVALID_ARGUMENT: No such compile option: 'x'".
class PjrtError : public SystemError {
 public:
  PjrtError(const std::string& call, int code, std::string reason);
  int code() const { return code_; }                     ///< absl's status codes: 3, 8, 12, 13...
  const std::string& reason() const { return reason_; }  ///< Without the call and the code.

 private:
  int code_;
  std::string reason_;
};

/// The plugin to load: `explicit_path` when not empty, else the environment variable
/// LAGOM_PJRT_PLUGIN, else the cache folder's `plugins/default`, else the newest `*pjrt*.so` under
/// the cache folder's `plugins`. The cache folder is LAGOM_CACHE, or XDG_CACHE_HOME/lagom, or
/// HOME/.cache/lagom.
///
/// Throws SystemError with how to get a plugin when there is none or the named file is absent.
std::filesystem::path find_plugin(const std::filesystem::path& explicit_path = {});

/// A PJRT plugin in memory. It stays loaded until the process ends: XLA keeps threads of its own.
///
/// A wrong program can abort the whole process from inside the plugin, so load it in a worker.
class Plugin {
 public:
  /// Loads and initialises the plugin. Throws SystemError when the file is no loadable library,
  /// exports no GetPjrtApi, or speaks another major version than 0.
  static std::shared_ptr<const Plugin> load(const std::filesystem::path& path);

  /// Wraps a function table that is already in memory and outlives the plugin; `name` is used in
  /// messages. Same checks as load.
  static std::shared_ptr<const Plugin> from_api(const abi::Api* api, const std::string& name);

  const std::filesystem::path& path() const { return path_; }
  int major_version() const { return major_version_; }
  int minor_version() const { return minor_version_; }

  /// True when the table is long enough for the slot and the slot is filled.
  bool has(abi::Slot slot) const;

  /// Calls the slot's function with an argument struct of lagom/xla/pjrt_abi.h.
  /// Throws SystemError naming the function when the plugin lacks it, PjrtError when it fails.
  template <typename Args>
  void call(abi::Slot slot, Args& args) const {
    args.struct_size = sizeof(Args);
    call_raw(slot, &args);
  }
  /// The same for destructors: a failure is ignored.
  template <typename Args>
  void call_quietly(abi::Slot slot, Args& args) const noexcept {
    args.struct_size = sizeof(Args);
    call_raw_quietly(slot, &args);
  }
  /// Throws and frees the error if there is one.
  void check(abi::Error* error, abi::Slot slot) const;

 private:
  Plugin() = default;
  void call_raw(abi::Slot slot, void* args) const;
  void call_raw_quietly(abi::Slot slot, void* args) const noexcept;
  void destroy_error(abi::Error* error) const noexcept;

  std::filesystem::path path_;
  const abi::Api* api_ = nullptr;
  int major_version_ = 0;
  int minor_version_ = 0;
};

}  // namespace lagom::xla

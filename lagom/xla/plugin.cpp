#include "lagom/xla/plugin.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "lagom/xla/pjrt_abi.h"

namespace lagom::xla {
namespace abi {

const char* slot_name(Slot slot) {
  switch (slot) {
    case kErrorDestroy:
      return "PJRT_Error_Destroy";
    case kErrorMessage:
      return "PJRT_Error_Message";
    case kErrorGetCode:
      return "PJRT_Error_GetCode";
    case kPluginInitialize:
      return "PJRT_Plugin_Initialize";
    case kEventDestroy:
      return "PJRT_Event_Destroy";
    case kEventAwait:
      return "PJRT_Event_Await";
    case kClientCreate:
      return "PJRT_Client_Create";
    case kClientDestroy:
      return "PJRT_Client_Destroy";
    case kClientPlatformName:
      return "PJRT_Client_PlatformName";
    case kClientPlatformVersion:
      return "PJRT_Client_PlatformVersion";
    case kClientAddressableDevices:
      return "PJRT_Client_AddressableDevices";
    case kClientCompile:
      return "PJRT_Client_Compile";
    case kClientBufferFromHostBuffer:
      return "PJRT_Client_BufferFromHostBuffer";
    case kDeviceDescriptionKind:
      return "PJRT_DeviceDescription_Kind";
    case kDeviceGetDescription:
      return "PJRT_Device_GetDescription";
    case kExecutableDestroy:
      return "PJRT_Executable_Destroy";
    case kExecutableNumOutputs:
      return "PJRT_Executable_NumOutputs";
    case kExecutableSizeOfGeneratedCodeInBytes:
      return "PJRT_Executable_SizeOfGeneratedCodeInBytes";
    case kExecutableGetCostAnalysis:
      return "PJRT_Executable_GetCostAnalysis";
    case kExecutableOptimizedProgram:
      return "PJRT_Executable_OptimizedProgram";
    case kLoadedExecutableDestroy:
      return "PJRT_LoadedExecutable_Destroy";
    case kLoadedExecutableGetExecutable:
      return "PJRT_LoadedExecutable_GetExecutable";
    case kLoadedExecutableExecute:
      return "PJRT_LoadedExecutable_Execute";
    case kBufferDestroy:
      return "PJRT_Buffer_Destroy";
    case kBufferElementType:
      return "PJRT_Buffer_ElementType";
    case kBufferDimensions:
      return "PJRT_Buffer_Dimensions";
    case kBufferToHostBuffer:
      return "PJRT_Buffer_ToHostBuffer";
    case kExecutableOutputElementTypes:
      return "PJRT_Executable_OutputElementTypes";
    case kExecutableOutputDimensions:
      return "PJRT_Executable_OutputDimensions";
    case kExecutableGetCompiledMemoryStats:
      return "PJRT_Executable_GetCompiledMemoryStats";
  }
  return "PJRT function";
}

}  // namespace abi

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHowToGet =
    "get one with `./run setup`, or name a PJRT plugin with --plugin FILE or LAGOM_PJRT_PLUGIN";

std::string status_name(int code) {
  static constexpr std::array<const char*, 17> kNames = {"OK",
                                                         "CANCELLED",
                                                         "UNKNOWN",
                                                         "INVALID_ARGUMENT",
                                                         "DEADLINE",
                                                         "NOT_FOUND",
                                                         "ALREADY_EXISTS",
                                                         "PERMISSION_DENIED",
                                                         "RESOURCE_EXHAUSTED",
                                                         "FAILED_PRECONDITION",
                                                         "ABORTED",
                                                         "OUT_OF_RANGE",
                                                         "UNIMPLEMENTED",
                                                         "INTERNAL",
                                                         "UNAVAILABLE",
                                                         "DATA_LOSS",
                                                         "UNAUTHENTICATED"};
  if (code < 0 || code >= static_cast<int>(kNames.size())) return "status " + std::to_string(code);
  return kNames[static_cast<size_t>(code)];
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path cache_folder() {
  if (const std::string folder = environment("LAGOM_CACHE"); !folder.empty()) return folder;
  if (const std::string folder = environment("XDG_CACHE_HOME"); !folder.empty()) {
    return fs::path(folder) / "lagom";
  }
  return fs::path(environment("HOME")) / ".cache" / "lagom";
}

fs::path newest_plugin_under(const fs::path& folder) {
  fs::path newest;
  fs::file_time_type newest_time{};
  std::error_code ec;
  for (fs::recursive_directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
    const fs::path& path = it->path();
    if (path.extension() != ".so" || path.filename().string().find("pjrt") == std::string::npos) {
      continue;
    }
    std::error_code time_error;
    const fs::file_time_type time = fs::last_write_time(path, time_error);
    if (!time_error && (newest.empty() || time > newest_time)) {
      newest = path;
      newest_time = time;
    }
  }
  return newest;
}

fs::path require_file(const fs::path& path, std::string_view named_by) {
  std::error_code ec;
  if (fs::is_regular_file(path, ec)) return path;
  throw SystemError(path.string() + ": no such plugin file (" + std::string(named_by) + "); " +
                    std::string(kHowToGet));
}

abi::AnyFunction stored(const abi::Api* api, abi::Slot slot) {
  return (&api->functions[0])[slot];
}

abi::Error* invoke(const abi::Api* api, abi::Slot slot, void* args) {
  return reinterpret_cast<abi::Function>(stored(api, slot))(args);
}

void invoke_on_error(const abi::Api* api, abi::Slot slot, void* args) {
  reinterpret_cast<abi::ErrorFunction>(stored(api, slot))(args);
}

}  // namespace

PjrtError::PjrtError(const std::string& call, int code, std::string reason)
    : SystemError(call + ": " + status_name(code) + ": " + reason),
      code_(code),
      reason_(std::move(reason)) {}

fs::path find_plugin(const fs::path& explicit_path) {
  if (!explicit_path.empty()) return require_file(explicit_path, "named explicitly");
  if (const std::string path = environment("LAGOM_PJRT_PLUGIN"); !path.empty()) {
    return require_file(path, "named by LAGOM_PJRT_PLUGIN");
  }
  const fs::path folder = cache_folder() / "plugins";
  std::error_code ec;
  if (fs::is_regular_file(folder / "default", ec)) return folder / "default";
  fs::path newest = newest_plugin_under(folder);
  if (newest.empty()) {
    throw SystemError("no XLA plugin found under " + folder.string() + "; " +
                      std::string(kHowToGet));
  }
  return newest;
}

std::shared_ptr<const Plugin> Plugin::load(const fs::path& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    throw SystemError(path.string() + ": not a loadable plugin: " + (why ? why : "unknown reason"));
  }
  using GetApi = const abi::Api* (*)();
  const auto get_api = reinterpret_cast<GetApi>(dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) {
    dlclose(library);
    throw SystemError(path.string() + ": a library, but no PJRT plugin: it exports no GetPjrtApi");
  }
  return from_api(get_api(), path.string());
}

std::shared_ptr<const Plugin> Plugin::from_api(const abi::Api* api, const std::string& name) {
  if (api == nullptr || api->struct_size < offsetof(abi::Api, functions)) {
    throw SystemError(name + ": its GetPjrtApi gives no function table");
  }
  if (api->version.major_version != abi::kMajorVersion) {
    throw SystemError(name + ": speaks PJRT version " + std::to_string(api->version.major_version) +
                      "." + std::to_string(api->version.minor_version) + ", expected " +
                      std::to_string(abi::kMajorVersion) + ".x");
  }
  std::shared_ptr<Plugin> plugin(new Plugin);
  plugin->path_ = name;
  plugin->api_ = api;
  plugin->major_version_ = api->version.major_version;
  plugin->minor_version_ = api->version.minor_version;
  abi::PluginInitializeArgs args;
  plugin->call(abi::kPluginInitialize, args);
  return plugin;
}

bool Plugin::has(abi::Slot slot) const {
  const size_t end =
      offsetof(abi::Api, functions) + (static_cast<size_t>(slot) + 1) * sizeof(void*);
  return api_->struct_size >= end && stored(api_, slot) != nullptr;
}

void Plugin::call_raw(abi::Slot slot, void* args) const {
  if (!has(slot)) {
    throw SystemError(path_.string() + ": the plugin (PJRT " + std::to_string(major_version_) +
                      "." + std::to_string(minor_version_) + ") has no " + abi::slot_name(slot));
  }
  check(invoke(api_, slot, args), slot);
}

void Plugin::call_raw_quietly(abi::Slot slot, void* args) const noexcept {
  if (!has(slot)) return;
  if (abi::Error* error = invoke(api_, slot, args)) destroy_error(error);
}

void Plugin::destroy_error(abi::Error* error) const noexcept {
  if (!has(abi::kErrorDestroy)) return;
  abi::ErrorDestroyArgs args;
  args.struct_size = sizeof args;
  args.error = error;
  invoke_on_error(api_, abi::kErrorDestroy, &args);
}

void Plugin::check(abi::Error* error, abi::Slot slot) const {
  if (error == nullptr) return;
  std::string text = "unknown error";
  int code = 2;
  if (has(abi::kErrorMessage)) {
    abi::ErrorMessageArgs message;
    message.struct_size = sizeof message;
    message.error = error;
    invoke_on_error(api_, abi::kErrorMessage, &message);
    if (message.message != nullptr) text.assign(message.message, message.message_size);
  }
  if (has(abi::kErrorGetCode)) {
    abi::ErrorGetCodeArgs get_code;
    get_code.struct_size = sizeof get_code;
    get_code.error = error;
    if (abi::Error* nested = invoke(api_, abi::kErrorGetCode, &get_code)) {
      destroy_error(nested);
    }
    code = get_code.code;
  }
  destroy_error(error);
  throw PjrtError(abi::slot_name(slot), code, text);
}

}  // namespace lagom::xla

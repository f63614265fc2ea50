#pragma once

#include <cstddef>
#include <cstdint>

/// The part of the PJRT C ABI that this library calls, written down from its published layout.
///
/// A plugin exports `GetPjrtApi`, which returns a table: its own size, an extension list, a
/// version, then function pointers in an order that only ever grows at the end. Every function
/// takes one struct whose first field is the struct's size; fields too are only appended, so that
/// either side may be the newer one. Functions return an error object or null.
///
/// Names follow the ABI's without their prefix. Only lagom/xla includes this file.
namespace lagom::xla::abi {

struct Error;
struct Event;
struct Client;
struct Device;
struct DeviceDescription;
struct Memory;
struct Executable;
struct LoadedExecutable;
struct Buffer;

inline constexpr int kMajorVersion = 0;
inline constexpr int kUnimplemented = 12;  ///< A status code.

/// Positions in the table, counted from the first function pointer.
enum Slot : int {
  kErrorDestroy = 0,
  kErrorMessage = 1,
  kErrorGetCode = 2,
  kPluginInitialize = 3,
  kEventDestroy = 5,
  kEventAwait = 8,
  kClientCreate = 10,
  kClientDestroy = 11,
  kClientPlatformName = 12,
  kClientPlatformVersion = 14,
  kClientAddressableDevices = 16,
  kClientCompile = 20,
  kClientBufferFromHostBuffer = 22,
  kDeviceDescriptionKind = 26,
  kDeviceGetDescription = 29,
  kExecutableDestroy = 40,
  kExecutableNumOutputs = 44,
  kExecutableSizeOfGeneratedCodeInBytes = 45,
  kExecutableGetCostAnalysis = 46,
  kExecutableOptimizedProgram = 48,
  kLoadedExecutableDestroy = 50,
  kLoadedExecutableGetExecutable = 51,
  kLoadedExecutableExecute = 55,
  kBufferDestroy = 58,
  kBufferElementType = 59,
  kBufferDimensions = 60,
  kBufferToHostBuffer = 70,
  kExecutableOutputElementTypes = 90,
  kExecutableOutputDimensions = 91,
  kExecutableGetCompiledMemoryStats = 96,
};

/// The function's name in the ABI, for messages.
const char* slot_name(Slot slot);

/// Most functions are `Error* f(Args*)`; the two that free and read errors return nothing.
using Function = Error* (*)(void* args);
using ErrorFunction = void (*)(void* args);
using AnyFunction = void (*)();  ///< As stored; cast to one of the above before the call.

struct Version {
  size_t struct_size;
  void* extension_start;
  int major_version;
  int minor_version;
};

struct Api {
  size_t struct_size;
  void* extension_start;
  Version version;
  AnyFunction functions[1];  ///< As many as struct_size has room for.
};

/// What every argument struct begins with.
struct Header {
  size_t struct_size = 0;
  void* extension_start = nullptr;
};

struct ErrorDestroyArgs : Header {
  Error* error = nullptr;
};
struct ErrorMessageArgs : Header {
  const Error* error = nullptr;
  const char* message = nullptr;  // out, lives as long as the error
  size_t message_size = 0;        // out
};
struct ErrorGetCodeArgs : Header {
  const Error* error = nullptr;
  int32_t code = 0;  // out
};

struct PluginInitializeArgs : Header {};

struct EventArgs : Header {  ///< Await and Destroy.
  Event* event = nullptr;
};

enum NamedValueType : int32_t { kString = 0, kInt64 = 1, kInt64List = 2, kFloat = 3, kBool = 4 };

struct NamedValue {
  size_t struct_size;
  void* extension_start;
  const char* name;
  size_t name_size;
  NamedValueType type;
  union {
    const char* string_value;
    int64_t int64_value;
    const int64_t* int64_array_value;
    float float_value;
    bool bool_value;
  };
  size_t value_size;
};

struct ClientCreateArgs : Header {
  const NamedValue* create_options = nullptr;
  size_t num_options = 0;
  void* kv_get_callback = nullptr;
  void* kv_get_user_arg = nullptr;
  void* kv_put_callback = nullptr;
  void* kv_put_user_arg = nullptr;
  Client* client = nullptr;  // out
  void* kv_try_get_callback = nullptr;
  void* kv_try_get_user_arg = nullptr;
};
struct ClientDestroyArgs : Header {
  Client* client = nullptr;
};
struct ClientStringArgs : Header {  ///< PlatformName and PlatformVersion.
  Client* client = nullptr;
  const char* text = nullptr;  // out, lives as long as the client
  size_t text_size = 0;        // out
};
struct ClientAddressableDevicesArgs : Header {
  Client* client = nullptr;
  Device* const* devices = nullptr;  // out
  size_t num_devices = 0;            // out
};
struct DeviceGetDescriptionArgs : Header {
  Device* device = nullptr;
  DeviceDescription* description = nullptr;  // out
};
struct DeviceDescriptionKindArgs : Header {
  DeviceDescription* description = nullptr;
  const char* kind = nullptr;  // out
  size_t kind_size = 0;        // out
};

struct Program : Header {
  char* code = nullptr;  // in for compilation, out for the optimised program
  size_t code_size = 0;
  const char* format = nullptr;
  size_t format_size = 0;
};
struct ClientCompileArgs : Header {
  Client* client = nullptr;
  const Program* program = nullptr;
  const char* compile_options = nullptr;
  size_t compile_options_size = 0;
  LoadedExecutable* executable = nullptr;  // out
};

struct TiledLayout : Header {
  const int64_t* minor_to_major = nullptr;
  size_t minor_to_major_size = 0;
  const int64_t* tile_dims = nullptr;
  const size_t* tile_dim_sizes = nullptr;
  size_t num_tiles = 0;
};
struct MemoryLayout : Header {
  TiledLayout tiled;  ///< The larger member of a union; the other (strides) is not used here.
  int32_t type = 0;   ///< 0 = tiled.
};

enum HostBufferSemantics : int32_t { kImmutableUntilTransferCompletes = 1 };

struct BufferFromHostBufferArgs : Header {
  Client* client = nullptr;
  const void* data = nullptr;
  int32_t type = 0;
  const int64_t* dims = nullptr;
  size_t num_dims = 0;
  const int64_t* byte_strides = nullptr;  ///< Null: dense and row-major.
  size_t num_byte_strides = 0;
  HostBufferSemantics host_buffer_semantics = kImmutableUntilTransferCompletes;
  Device* device = nullptr;
  Memory* memory = nullptr;
  MemoryLayout* device_layout = nullptr;   ///< Null: the default, which programs are compiled for.
  Event* done_with_host_buffer = nullptr;  // out
  Buffer* buffer = nullptr;                // out
};

struct ExecutableDestroyArgs : Header {
  Executable* executable = nullptr;
};
struct LoadedExecutableDestroyArgs : Header {
  LoadedExecutable* executable = nullptr;
};
struct LoadedExecutableGetExecutableArgs : Header {
  LoadedExecutable* loaded_executable = nullptr;
  Executable* executable = nullptr;  // out
};
struct ExecutableSizeArgs : Header {  ///< NumOutputs and SizeOfGeneratedCodeInBytes.
  Executable* executable = nullptr;
  int64_t size = 0;  // out
};
struct ExecutableGetCostAnalysisArgs : Header {
  Executable* executable = nullptr;
  size_t num_properties = 0;               // out
  const NamedValue* properties = nullptr;  // out
};
struct ExecutableOptimizedProgramArgs : Header {
  Executable* executable = nullptr;
  Program* program = nullptr;  ///< With code = null only the size is filled in.
};
struct ExecutableOutputElementTypesArgs : Header {
  Executable* executable = nullptr;
  int32_t* output_types = nullptr;  // out
  size_t num_output_types = 0;      // out
};
struct ExecutableOutputDimensionsArgs : Header {
  Executable* executable = nullptr;
  size_t num_outputs = 0;             // out
  const int64_t* dims = nullptr;      // out, all outputs' dimensions one after another
  const size_t* dim_sizes = nullptr;  // out, the rank of each output
};
struct ExecutableGetCompiledMemoryStatsArgs : Header {
  Executable* executable = nullptr;
  int64_t generated_code_size_in_bytes = 0;  // out, as are all below
  int64_t argument_size_in_bytes = 0;
  int64_t output_size_in_bytes = 0;
  int64_t alias_size_in_bytes = 0;
  int64_t temp_size_in_bytes = 0;
  int64_t host_generated_code_size_in_bytes = 0;
  int64_t host_argument_size_in_bytes = 0;
  int64_t host_output_size_in_bytes = 0;
  int64_t host_alias_size_in_bytes = 0;
  int64_t host_temp_size_in_bytes = 0;
  int64_t peak_memory_in_bytes = 0;  ///< Stays 0 with plugins that do not know it.
};

struct ExecuteOptions : Header {
  void** send_callbacks = nullptr;
  void** recv_callbacks = nullptr;
  size_t num_send_ops = 0;
  size_t num_recv_ops = 0;
  int32_t launch_id = 0;
  const int64_t* non_donatable_input_indices = nullptr;
  size_t num_non_donatable_input_indices = 0;
  /// Fields that are not used here, and room for those to come: plugins insist on the struct being
  /// as long as they know it, and zero means "not given" for every one.
  uint64_t unused[16] = {};
};
struct LoadedExecutableExecuteArgs : Header {
  LoadedExecutable* executable = nullptr;
  ExecuteOptions* options = nullptr;
  Buffer* const* const* argument_lists = nullptr;  ///< [num_devices][num_args]
  size_t num_devices = 0;
  size_t num_args = 0;
  Buffer** const* output_lists = nullptr;    ///< [num_devices][outputs], filled by the plugin.
  Event** device_complete_events = nullptr;  ///< [num_devices], filled by the plugin.
  Device* execute_device = nullptr;
};

struct BufferDestroyArgs : Header {
  Buffer* buffer = nullptr;
};
struct BufferElementTypeArgs : Header {
  Buffer* buffer = nullptr;
  int32_t type = 0;  // out
};
struct BufferDimensionsArgs : Header {
  Buffer* buffer = nullptr;
  const int64_t* dims = nullptr;  // out, lives as long as the buffer
  size_t num_dims = 0;            // out
};
struct BufferToHostBufferArgs : Header {
  Buffer* source = nullptr;
  MemoryLayout* host_layout = nullptr;  ///< Null: the buffer's own layout.
  void* destination = nullptr;          ///< Null: only the size is filled in.
  size_t destination_size = 0;          // in, or out when destination is null
  Event* event = nullptr;               // out
};

}  // namespace lagom::xla::abi

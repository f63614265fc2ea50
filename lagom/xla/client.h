#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/util/primitive_type.h"
#include "lagom/xla/client_options.h"
#include "lagom/xla/compile_options.h"
#include "lagom/xla/plugin.h"

/// A small C++ face of PJRT: one client, its first device, executables and buffers.
///
/// Arguments and results are row-major for the caller: PJRT compiles every program for the default
/// layouts of its parameters and results, whatever the module's entry_computation_layout says.
///
/// Buffers and executables keep what they need of the client alive. Everything throws PjrtError
/// when the plugin reports a failure. Not thread-safe per object.
namespace lagom::xla {

namespace abi {
struct Buffer;
struct Client;
struct Device;
struct Executable;
struct LoadedExecutable;
}  // namespace abi

/// Type and dimensions of an array; bytes of host data are dense, sub-byte types unpacked.
struct ArrayType {
  PrimitiveType element_type = PrimitiveType::kInvalid;
  std::vector<int64_t> dimensions;

  /// These two throw std::invalid_argument for a negative dimension or a product past 2^63.
  int64_t num_elements() const;
  /// Bytes of the dense host array; 0 for tokens.
  int64_t size_bytes() const;
  std::string to_string() const;  ///< "f32[4,8]"

  friend bool operator==(const ArrayType&, const ArrayType&) = default;
};

/// What one compiled program needs, in bytes; 0 where the plugin does not say.
struct MemoryStats {
  int64_t argument_bytes = 0;
  int64_t output_bytes = 0;
  int64_t temp_bytes = 0;
  int64_t alias_bytes = 0;  ///< Outputs that reuse arguments.
  int64_t generated_code_bytes = 0;
  int64_t peak_bytes = 0;
};

class ClientState;

/// An array on the device.
class Buffer {
 public:
  Buffer(std::shared_ptr<const ClientState> client, abi::Buffer* buffer);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  ArrayType type() const;
  /// The values in row-major order whatever the layout on the device; empty for tokens.
  std::string to_host() const;
  /// The same into `destination`, which must have exactly type().size_bytes() bytes.
  void to_host(std::span<char> destination) const;

  abi::Buffer* handle() const { return buffer_; }

 private:
  void reset() noexcept;

  std::shared_ptr<const ClientState> client_;
  abi::Buffer* buffer_ = nullptr;
};

struct RunResult {
  std::vector<Buffer> outputs;  ///< The root's leaves, in order.
  double seconds = 0;           ///< From the call until the device is done.
};

/// A compiled program on the client's first device.
class Executable {
 public:
  Executable(std::shared_ptr<const ClientState> client, abi::LoadedExecutable* loaded);
  Executable(Executable&& other) noexcept;
  Executable& operator=(Executable&& other) noexcept;
  ~Executable();

  /// Types of the root's leaves.
  const std::vector<ArrayType>& outputs() const { return outputs_; }

  /// Runs once and waits. No input is consumed: inputs that the program aliases with its outputs
  /// (donation) are copied by the runtime instead.
  RunResult run(std::span<const Buffer> inputs) const;

  /// The optimised program as the bytes of a HloModuleProto. Throws SystemError when the plugin
  /// gives another format.
  std::string optimized_program() const;

  /// XLA's own estimates: "flops", "bytes accessed", "transcendentals"...; empty where the plugin
  /// has none (the two CPU plugins of ./run setup).
  std::map<std::string, double> cost_analysis() const;
  MemoryStats memory_stats() const;
  int64_t code_size_bytes() const;  ///< -1 or 0 where the plugin does not know.

 private:
  void reset() noexcept;

  std::shared_ptr<const ClientState> client_;
  abi::LoadedExecutable* loaded_ = nullptr;
  abi::Executable* executable_ = nullptr;
  std::vector<ArrayType> outputs_;
};

/// A connection to the plugin's devices; the first addressable device is used.
class Client {
 public:
  /// Throws PjrtError, also for an option that the plugin does not know; SystemError when the client
  /// has no device.
  explicit Client(std::shared_ptr<const Plugin> plugin, const ClientOptions& options = {});

  const Plugin& plugin() const;
  std::string platform_name() const;     ///< "cpu", "cuda", "tpu".
  std::string platform_version() const;  ///< Free text; may be empty.
  std::string device_kind() const;       ///< "cpu", "NVIDIA H100 80GB HBM3"...
  int num_devices() const;

  /// Compiles the bytes of a HloModuleProto. A flag that the plugin does not know is a PjrtError.
  Executable compile(std::string_view module, const CompileOptions& options = {}) const;

  /// Compiles; flags that the plugin does not know are left out, and their names are appended to
  /// `dropped`.
  Executable compile_dropping_unknown_flags(std::string_view module, CompileOptions options,
                                            std::vector<std::string>* dropped) const;

  /// Copies dense row-major host data to the device.
  /// Throws std::invalid_argument when the sizes disagree or PJRT has no such element type.
  Buffer buffer_from_host(const ArrayType& type, std::string_view data) const;

 private:
  std::shared_ptr<const ClientState> state_;
};

}  // namespace lagom::xla

#include "lagom/xla/client.h"

#include <array>
#include <chrono>
#include <cstring>
#include <numeric>
#include <protozero/pbf_reader.hpp>
#include <stdexcept>
#include <utility>

#include "lagom/xla/pjrt_abi.h"

namespace lagom::xla {

class ClientState {
 public:
  ClientState(std::shared_ptr<const Plugin> plugin, const ClientOptions& options)
      : plugin_(std::move(plugin)) {
    const std::vector<abi::NamedValue> values = to_named_values(options);
    abi::ClientCreateArgs create;
    create.create_options = values.data();
    create.num_options = values.size();
    plugin_->call(abi::kClientCreate, create);
    client_ = create.client;
  }
  ~ClientState() {
    abi::ClientDestroyArgs destroy;
    destroy.client = client_;
    plugin_->call_quietly(abi::kClientDestroy, destroy);
  }
  ClientState(const ClientState&) = delete;
  ClientState& operator=(const ClientState&) = delete;

  const Plugin& plugin() const { return *plugin_; }
  abi::Client* client() const { return client_; }
  abi::Device* device() const { return devices().front(); }

  std::span<abi::Device* const> devices() const {
    abi::ClientAddressableDevicesArgs args;
    args.client = client_;
    plugin_->call(abi::kClientAddressableDevices, args);
    if (args.num_devices == 0) throw SystemError("the PJRT client has no device");
    return {args.devices, args.num_devices};
  }

  std::string text(abi::Slot slot) const {
    abi::ClientStringArgs args;
    args.client = client_;
    plugin_->call(slot, args);
    return {args.text, args.text_size};
  }

  // Waits for an event that the plugin handed out, and frees it.
  void await(abi::Event* event) const {
    if (event == nullptr) return;
    struct Destroy {
      const Plugin& plugin;
      abi::EventArgs args;
      ~Destroy() { plugin.call_quietly(abi::kEventDestroy, args); }
    } destroy{*plugin_, {}};
    destroy.args.event = event;
    abi::EventArgs wait;
    wait.event = event;
    plugin_->call(abi::kEventAwait, wait);
  }

 private:
  std::shared_ptr<const Plugin> plugin_;
  abi::Client* client_ = nullptr;
};

namespace {

// PJRT numbers element types in its own order.
constexpr std::array<PrimitiveType, 32> kPjrtTypes = {PrimitiveType::kInvalid,
                                                      PrimitiveType::kPred,
                                                      PrimitiveType::kS8,
                                                      PrimitiveType::kS16,
                                                      PrimitiveType::kS32,
                                                      PrimitiveType::kS64,
                                                      PrimitiveType::kU8,
                                                      PrimitiveType::kU16,
                                                      PrimitiveType::kU32,
                                                      PrimitiveType::kU64,
                                                      PrimitiveType::kF16,
                                                      PrimitiveType::kF32,
                                                      PrimitiveType::kF64,
                                                      PrimitiveType::kBF16,
                                                      PrimitiveType::kC64,
                                                      PrimitiveType::kC128,
                                                      PrimitiveType::kF8E5M2,
                                                      PrimitiveType::kF8E4M3FN,
                                                      PrimitiveType::kF8E4M3B11FNUZ,
                                                      PrimitiveType::kF8E5M2FNUZ,
                                                      PrimitiveType::kF8E4M3FNUZ,
                                                      PrimitiveType::kS4,
                                                      PrimitiveType::kU4,
                                                      PrimitiveType::kToken,
                                                      PrimitiveType::kS2,
                                                      PrimitiveType::kU2,
                                                      PrimitiveType::kF8E4M3,
                                                      PrimitiveType::kF8E3M4,
                                                      PrimitiveType::kF8E8M0FNU,
                                                      PrimitiveType::kF4E2M1FN,
                                                      PrimitiveType::kS1,
                                                      PrimitiveType::kU1};

PrimitiveType from_pjrt(int32_t type) {
  const auto index = static_cast<size_t>(type);
  return index < kPjrtTypes.size() ? kPjrtTypes[index] : PrimitiveType::kInvalid;
}

int32_t to_pjrt(PrimitiveType type) {
  for (size_t i = 1; i < kPjrtTypes.size(); ++i) {
    if (kPjrtTypes[i] == type) return static_cast<int32_t>(i);
  }
  throw std::invalid_argument("PJRT has no arrays of element type number " +
                              std::to_string(static_cast<int>(type)));
}

std::vector<int64_t> row_major(size_t rank) {
  std::vector<int64_t> order(rank);
  std::iota(order.rbegin(), order.rend(), int64_t{0});
  return order;
}

abi::MemoryLayout tiled_layout(std::span<const int64_t> minor_to_major) {
  abi::MemoryLayout layout;
  layout.struct_size = sizeof layout;
  layout.tiled.struct_size = sizeof layout.tiled;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  return layout;
}

}  // namespace

int64_t ArrayType::num_elements() const {
  int64_t count = 1;
  for (const int64_t d : dimensions) {
    if (d < 0 || __builtin_mul_overflow(count, d, &count)) {
      throw std::invalid_argument("ArrayType: " + to_string() + " is no possible array");
    }
  }
  return count;
}

int64_t ArrayType::size_bytes() const {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(num_elements(), number_format(element_type).bytes, &bytes)) {
    throw std::invalid_argument("ArrayType: " + to_string() + " is no possible array");
  }
  return bytes;
}

std::string ArrayType::to_string() const {
  std::string text(element_type == PrimitiveType::kToken ? "token"
                                                         : number_format(element_type).name);
  text += '[';
  for (size_t i = 0; i < dimensions.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(dimensions[i]);
  }
  return text + ']';
}

// ---- Buffer ----

Buffer::Buffer(std::shared_ptr<const ClientState> client, abi::Buffer* buffer)
    : client_(std::move(client)), buffer_(buffer) {}

Buffer::Buffer(Buffer&& other) noexcept
    : client_(std::move(other.client_)), buffer_(std::exchange(other.buffer_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    reset();
    client_ = std::move(other.client_);
    buffer_ = std::exchange(other.buffer_, nullptr);
  }
  return *this;
}

Buffer::~Buffer() {
  reset();
}

void Buffer::reset() noexcept {
  if (buffer_ == nullptr) return;
  abi::BufferDestroyArgs args;
  args.buffer = std::exchange(buffer_, nullptr);
  client_->plugin().call_quietly(abi::kBufferDestroy, args);
}

ArrayType Buffer::type() const {
  abi::BufferElementTypeArgs element;
  element.buffer = buffer_;
  client_->plugin().call(abi::kBufferElementType, element);
  ArrayType type{.element_type = from_pjrt(element.type), .dimensions = {}};
  if (type.element_type == PrimitiveType::kToken) return type;
  abi::BufferDimensionsArgs dims;
  dims.buffer = buffer_;
  client_->plugin().call(abi::kBufferDimensions, dims);
  type.dimensions.assign(dims.dims, dims.dims + dims.num_dims);
  return type;
}

std::string Buffer::to_host() const {
  std::string data(static_cast<size_t>(type().size_bytes()), '\0');
  if (!data.empty()) to_host(std::span<char>(data));
  return data;
}

void Buffer::to_host(std::span<char> destination) const {
  const ArrayType array = type();
  if (static_cast<int64_t>(destination.size()) != array.size_bytes()) {
    throw std::invalid_argument("Buffer: " + array.to_string() + " has " +
                                std::to_string(array.size_bytes()) + " bytes, room for " +
                                std::to_string(destination.size()));
  }
  if (destination.empty()) return;
  const std::vector<int64_t> order = row_major(array.dimensions.size());
  abi::MemoryLayout layout = tiled_layout(order);
  abi::BufferToHostBufferArgs args;
  args.source = buffer_;
  args.host_layout = &layout;
  args.destination = destination.data();
  args.destination_size = destination.size();
  client_->plugin().call(abi::kBufferToHostBuffer, args);
  client_->await(args.event);
}

// ---- Executable ----

Executable::Executable(std::shared_ptr<const ClientState> client, abi::LoadedExecutable* loaded)
    : client_(std::move(client)), loaded_(loaded) {
  const Plugin& plugin = client_->plugin();
  try {
    abi::LoadedExecutableGetExecutableArgs get;
    get.loaded_executable = loaded_;
    plugin.call(abi::kLoadedExecutableGetExecutable, get);
    executable_ = get.executable;

    abi::ExecutableOutputElementTypesArgs types;
    types.executable = executable_;
    plugin.call(abi::kExecutableOutputElementTypes, types);
    abi::ExecutableOutputDimensionsArgs dims;
    dims.executable = executable_;
    plugin.call(abi::kExecutableOutputDimensions, dims);
    const int64_t* next = dims.dims;
    for (size_t i = 0; i < types.num_output_types; ++i) {
      const size_t rank = dims.dim_sizes[i];
      outputs_.push_back(
          {.element_type = from_pjrt(types.output_types[i]), .dimensions = {next, next + rank}});
      next += rank;
    }
  } catch (...) {
    reset();
    throw;
  }
}

Executable::Executable(Executable&& other) noexcept
    : client_(std::move(other.client_)),
      loaded_(std::exchange(other.loaded_, nullptr)),
      executable_(std::exchange(other.executable_, nullptr)),
      outputs_(std::move(other.outputs_)) {}

Executable& Executable::operator=(Executable&& other) noexcept {
  if (this != &other) {
    reset();
    client_ = std::move(other.client_);
    loaded_ = std::exchange(other.loaded_, nullptr);
    executable_ = std::exchange(other.executable_, nullptr);
    outputs_ = std::move(other.outputs_);
  }
  return *this;
}

Executable::~Executable() {
  reset();
}

void Executable::reset() noexcept {
  if (executable_ != nullptr) {
    abi::ExecutableDestroyArgs args;
    args.executable = std::exchange(executable_, nullptr);
    client_->plugin().call_quietly(abi::kExecutableDestroy, args);
  }
  if (loaded_ != nullptr) {
    abi::LoadedExecutableDestroyArgs args;
    args.executable = std::exchange(loaded_, nullptr);
    client_->plugin().call_quietly(abi::kLoadedExecutableDestroy, args);
  }
}

RunResult Executable::run(std::span<const Buffer> inputs) const {
  std::vector<abi::Buffer*> arguments;
  arguments.reserve(inputs.size());
  for (const Buffer& input : inputs) arguments.push_back(input.handle());
  std::vector<int64_t> kept(inputs.size());
  std::iota(kept.begin(), kept.end(), int64_t{0});
  std::vector<abi::Buffer*> outputs(outputs_.size(), nullptr);

  abi::ExecuteOptions options;
  options.struct_size = sizeof options;
  options.non_donatable_input_indices = kept.data();
  options.num_non_donatable_input_indices = kept.size();
  abi::Buffer* const* argument_list = arguments.data();
  abi::Buffer** output_list = outputs.data();
  abi::Event* done = nullptr;
  abi::LoadedExecutableExecuteArgs args;
  args.executable = loaded_;
  args.options = &options;
  args.argument_lists = &argument_list;
  args.num_devices = 1;
  args.num_args = arguments.size();
  args.output_lists = &output_list;
  args.device_complete_events = &done;

  RunResult result;
  result.outputs.reserve(outputs.size());
  const Plugin& plugin = client_->plugin();
  abi::EventArgs wait;
  const auto begin = std::chrono::steady_clock::now();
  plugin.call(abi::kLoadedExecutableExecute, args);
  for (abi::Buffer* output : outputs) result.outputs.emplace_back(client_, output);
  wait.event = done;
  // The clock stops before the event is freed.
  std::chrono::steady_clock::time_point end;
  try {
    plugin.call(abi::kEventAwait, wait);
    end = std::chrono::steady_clock::now();
  } catch (...) {
    plugin.call_quietly(abi::kEventDestroy, wait);
    throw;
  }
  plugin.call_quietly(abi::kEventDestroy, wait);
  result.seconds = std::chrono::duration<double>(end - begin).count();
  return result;
}

std::string Executable::optimized_program() const {
  abi::Program program;
  program.struct_size = sizeof program;
  abi::ExecutableOptimizedProgramArgs args;
  args.executable = executable_;
  args.program = &program;
  client_->plugin().call(abi::kExecutableOptimizedProgram, args);
  std::string code(program.code_size, '\0');
  program.code = code.data();
  client_->plugin().call(abi::kExecutableOptimizedProgram, args);
  const std::string_view format(program.format, program.format_size);
  if (format == "hlo") return code;
  if (format != "hlo_with_config") {
    throw SystemError("the plugin gives its optimised program as '" + std::string(format) +
                      "', expected HLO");
  }
  // A HloModuleProtoWithConfig: field 1 is the module.
  try {
    protozero::pbf_reader reader(code);
    while (reader.next()) {
      if (reader.tag() == 1) return static_cast<std::string>(reader.get_view());
      reader.skip();
    }
  } catch (const protozero::exception& e) {
    throw SystemError(std::string("the plugin's optimised program is damaged: ") + e.what());
  }
  throw SystemError("the plugin's optimised program holds no module");
}

std::map<std::string, double> Executable::cost_analysis() const {
  abi::ExecutableGetCostAnalysisArgs args;
  args.executable = executable_;
  std::map<std::string, double> properties;
  try {
    client_->plugin().call(abi::kExecutableGetCostAnalysis, args);
  } catch (const PjrtError& error) {
    if (error.code() == abi::kUnimplemented) return properties;
    throw;
  }
  for (size_t i = 0; i < args.num_properties; ++i) {
    const abi::NamedValue& value = args.properties[i];
    const std::string name(value.name, value.name_size);
    if (value.type == abi::kFloat) properties[name] = value.float_value;
    if (value.type == abi::kInt64) properties[name] = static_cast<double>(value.int64_value);
  }
  return properties;
}

MemoryStats Executable::memory_stats() const {
  abi::ExecutableGetCompiledMemoryStatsArgs args;
  args.executable = executable_;
  client_->plugin().call(abi::kExecutableGetCompiledMemoryStats, args);
  return {.argument_bytes = args.argument_size_in_bytes,
          .output_bytes = args.output_size_in_bytes,
          .temp_bytes = args.temp_size_in_bytes,
          .alias_bytes = args.alias_size_in_bytes,
          .generated_code_bytes = args.generated_code_size_in_bytes,
          .peak_bytes = args.peak_memory_in_bytes};
}

int64_t Executable::code_size_bytes() const {
  abi::ExecutableSizeArgs args;
  args.executable = executable_;
  client_->plugin().call(abi::kExecutableSizeOfGeneratedCodeInBytes, args);
  return args.size;
}

// ---- Client ----

Client::Client(std::shared_ptr<const Plugin> plugin, const ClientOptions& options)
    : state_(std::make_shared<ClientState>(std::move(plugin), options)) {
  state_->devices();
}

const Plugin& Client::plugin() const {
  return state_->plugin();
}

std::string Client::platform_name() const {
  return state_->text(abi::kClientPlatformName);
}

std::string Client::platform_version() const {
  return state_->text(abi::kClientPlatformVersion);
}

std::string Client::device_kind() const {
  abi::DeviceGetDescriptionArgs get;
  get.device = state_->device();
  state_->plugin().call(abi::kDeviceGetDescription, get);
  abi::DeviceDescriptionKindArgs kind;
  kind.description = get.description;
  state_->plugin().call(abi::kDeviceDescriptionKind, kind);
  return {kind.kind, kind.kind_size};
}

int Client::num_devices() const {
  return static_cast<int>(state_->devices().size());
}

Executable Client::compile(std::string_view module, const CompileOptions& options) const {
  constexpr std::string_view kFormat = "hlo";
  const std::string encoded = encode_compile_options(options);
  abi::Program program;
  program.struct_size = sizeof program;
  program.code = const_cast<char*>(module.data());
  program.code_size = module.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  abi::ClientCompileArgs args;
  args.client = state_->client();
  args.program = &program;
  args.compile_options = encoded.data();
  args.compile_options_size = encoded.size();
  state_->plugin().call(abi::kClientCompile, args);
  return Executable(state_, args.executable);
}

Executable Client::compile_dropping_unknown_flags(std::string_view module, CompileOptions options,
                                                  std::vector<std::string>* dropped) const {
  while (true) {
    try {
      return compile(module, options);
    } catch (const PjrtError& error) {
      const std::string name = unknown_flag(error.reason());
      if (options.flags.erase(name) == 0) throw;
      if (dropped != nullptr) dropped->push_back(name);
    }
  }
}

Buffer Client::buffer_from_host(const ArrayType& type, std::string_view data) const {
  if (static_cast<int64_t>(data.size()) != type.size_bytes()) {
    throw std::invalid_argument("Client: " + type.to_string() + " wants " +
                                std::to_string(type.size_bytes()) + " bytes, got " +
                                std::to_string(data.size()));
  }
  abi::BufferFromHostBufferArgs args;
  args.client = state_->client();
  args.data = data.data();
  args.type = to_pjrt(type.element_type);
  args.dims = type.dimensions.data();
  args.num_dims = type.dimensions.size();
  args.device = state_->device();
  state_->plugin().call(abi::kClientBufferFromHostBuffer, args);
  Buffer buffer(state_, args.buffer);
  state_->await(args.done_with_host_buffer);
  return buffer;
}

}  // namespace lagom::xla

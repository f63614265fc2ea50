#include "lagom/xla/compile_options.h"

#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <variant>

namespace lagom::xla {
namespace {

// Field numbers of CompileOptionsProto, ExecutableBuildOptionsProto, OptionOverrideProto.
constexpr int kParameterIsTupledArguments = 2;
constexpr int kExecutableBuildOptions = 3;
constexpr int kEnvOptionOverrides = 7;
constexpr int kNumReplicas = 4;
constexpr int kNumPartitions = 5;
constexpr int kStringField = 1;
constexpr int kBoolField = 2;
constexpr int kIntField = 3;
constexpr int kDoubleField = 4;

std::string encode_override(const FlagValue& value) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  if (const auto* flag = std::get_if<bool>(&value)) writer.add_bool(kBoolField, *flag);
  if (const auto* number = std::get_if<int64_t>(&value)) writer.add_int64(kIntField, *number);
  if (const auto* number = std::get_if<double>(&value)) writer.add_double(kDoubleField, *number);
  if (const auto* text = std::get_if<std::string>(&value)) writer.add_string(kStringField, *text);
  return bytes;
}

}  // namespace

std::string encode_compile_options(const CompileOptions& options) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  if (options.tuple_arguments) writer.add_bool(kParameterIsTupledArguments, true);
  std::string build;
  protozero::pbf_writer build_writer(build);
  build_writer.add_int64(kNumReplicas, 1);
  build_writer.add_int64(kNumPartitions, 1);
  writer.add_message(kExecutableBuildOptions, build);
  for (const auto& [name, value] : options.flags) {
    std::string entry;
    protozero::pbf_writer entry_writer(entry);
    entry_writer.add_string(1, name);
    entry_writer.add_message(2, encode_override(value));
    writer.add_message(kEnvOptionOverrides, entry);
  }
  return bytes;
}

std::string unknown_flag(std::string_view message) {
  constexpr std::string_view kPrefix = "No such compile option: '";
  const size_t at = message.find(kPrefix);
  if (at == std::string_view::npos) return "";
  const size_t begin = at + kPrefix.size();
  const size_t end = message.find('\'', begin);
  return end == std::string_view::npos ? "" : std::string(message.substr(begin, end - begin));
}

}  // namespace lagom::xla

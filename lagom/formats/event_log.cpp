#include "lagom/formats/event_log.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <protozero/pbf_writer.hpp>
#include <string>

#include "lagom/util/error.h"

namespace lagom::formats {
namespace {

// Field numbers of Event, SessionLog, Summary and Summary.Value.
enum : uint32_t { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
constexpr uint32_t kStatus = 1, kStart = 1;
constexpr uint32_t kValue = 1, kTag = 1, kSimpleValue = 2;

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::array<uint32_t, 256> make_crc32c_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    table[i] = crc;
  }
  return table;
}

/// TFRecord's disguise of a checksum, so that one may stand inside checked data.
uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static const std::array<uint32_t, 256> kTable = make_crc32c_table();
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 255];
  return ~crc;
}

EventLog::EventLog(const std::filesystem::path& folder, int64_t first_step) {
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  path_ = folder / ("events.out.tfevents." + std::to_string(static_cast<int64_t>(wall_time())) +
                    "." + std::to_string(::getpid()));
  out_.open(path_, std::ios::binary | std::ios::app);

  std::string version, start, session;
  protozero::pbf_writer version_event(version);
  version_event.add_double(kWallTime, wall_time());
  version_event.add_string(kFileVersion, "brain.Event:2");
  write_record(version);
  protozero::pbf_writer(session).add_enum(kStatus, kStart);
  protozero::pbf_writer start_event(start);
  start_event.add_double(kWallTime, wall_time());
  start_event.add_int64(kStep, first_step);
  start_event.add_message(kSessionLog, session);
  write_record(start);
}

void EventLog::add(int64_t step, std::span<const Scalar> scalars) {
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(kWallTime, wall_time());
  writer.add_int64(kStep, step);
  {
    protozero::pbf_writer summary(writer, kSummary);
    for (const Scalar& scalar : scalars) {
      protozero::pbf_writer value(summary, kValue);
      value.add_string(kTag, scalar.name.data(), scalar.name.size());
      value.add_float(kSimpleValue, static_cast<float>(scalar.value));
    }
  }
  write_record(event);
}

void EventLog::write_record(std::string_view event) {
  const std::string length = bytes_of(static_cast<uint64_t>(event.size()));
  out_ << length << bytes_of(masked_crc32c(length)) << event << bytes_of(masked_crc32c(event));
  out_.flush();
  if (!out_) throw SystemError(path_.string() + ": cannot be written");
}

}  // namespace lagom::formats

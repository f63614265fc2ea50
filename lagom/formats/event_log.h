#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <span>
#include <string_view>

/// TensorBoard's event files: TFRecords of `Event` messages (tensorflow/core/util/event.proto).
namespace lagom::formats {

/// A named number of a step.
struct Scalar {
  std::string_view name;
  double value = 0;
};

class EventLog {
 public:
  /// Begins a file `events.out.tfevents.SECONDS.PROCESS` in the folder, which is created. What
  /// earlier files hold of `first_step` and later is superseded by it. Throws SystemError.
  EventLog(const std::filesystem::path& folder, int64_t first_step);

  /// Appends the scalars of a step, flushed. Throws SystemError when they cannot be written.
  void add(int64_t step, std::span<const Scalar> scalars);

 private:
  void write_record(std::string_view event);

  std::filesystem::path path_;
  std::ofstream out_;
};

/// CRC-32C (Castagnoli), the checksum of TFRecords.
uint32_t crc32c(std::string_view bytes);

}  // namespace lagom::formats

#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/measure/types.h"

namespace lagom::tune {

/// One kernel measured in one configuration on one device.
struct KernelRecord {
  std::string signature;      ///< Of the cut-out module.
  std::string configuration;  ///< Text form, on the cut-out; "" is the default against itself.
  std::string opcode;         ///< For people who read the file.
  double default_seconds = 0;
  std::optional<double> seconds;  ///< Absent when it failed.
  measure::Ratio ratio;
  double compile_seconds = 0;
  measure::FailureKind failure = measure::FailureKind::kNone;
  std::string error;
  std::vector<float> node;  ///< describe_node of the kernel; empty in old files.
};

/// Measurements that outlive a run: a folder with one file of JSON lines per device.
///
/// Lines are appended whole under a lock, so several processes may share a folder; a last line torn
/// by a kill is skipped when read. Failures are kept too, except stops: they would only be measured
/// again.
class Database {
 public:
  /// `device` tells apart what must not be mixed: platform, its version, the CPUs used. An empty
  /// folder keeps everything in memory only. Throws SystemError when the folder cannot be made.
  Database(std::filesystem::path folder, std::string_view device);
  ~Database();
  Database(Database&&) noexcept;

  std::optional<KernelRecord> find(std::string_view signature,
                                   std::string_view configuration) const;
  void add(const KernelRecord& record);

  size_t size() const;
  std::vector<const KernelRecord*> records() const;
  /// Lines of the file that could not be read.
  size_t num_skipped() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What files of a folder hold, of every device: each file's device and its records. Lines that
/// cannot be read are skipped. Throws SystemError when there is no such folder, FormatError when it
/// holds no .jsonl.
struct DeviceRecords {
  std::string device;
  std::vector<KernelRecord> records;
};
std::vector<DeviceRecords> read_databases(const std::filesystem::path& folder);
/// Writes such a file whole; its name should end in .jsonl. Throws SystemError.
void write_database_file(const std::filesystem::path& path, const DeviceRecords& records);

}  // namespace lagom::tune

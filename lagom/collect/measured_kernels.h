#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lagom/hlo/module.h"
#include "lagom/tune/database.h"

namespace lagom::collect {

/// A kernel of a measured data set (measured_file.h), with the rows that are the default or one
/// form alone.
struct MeasuredKernel {
  std::string device;
  std::vector<std::string> programs;
  hlo::Module module;
  std::vector<tune::KernelRecord> records;  ///< The default's, then the forms'.
};

/// Calls `visit` with each kernel below the folder, in the order of paths; files of whole programs
/// are passed over. Throws SystemError and FormatError, the latter also when there is none.
void read_measured_kernels(const std::filesystem::path& folder,
                           const std::function<void(MeasuredKernel)>& visit);

/// What a measured data set says of forms, as a database of kernels: what `lagom tune --from`
/// takes. Throws as the other, and FormatError for kernels of several devices.
tune::DeviceRecords measured_forms(const std::filesystem::path& folder);

}  // namespace lagom::collect

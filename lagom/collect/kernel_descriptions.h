#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

namespace lagom::collect {

/// Calls `visit` with each .json below the folder that describes a kernel of a measured data set
/// (measured_file.h), in the order of paths; files of whole programs, which have no HLO, are passed
/// over unless asked for. `progress` hears of each path before; returning false stops. Returns
/// false when it did. Throws SystemError, and FormatError for what is no description, also where
/// `visit` finds that out.
bool for_each_kernel_description(
    const std::filesystem::path& folder,
    const std::function<bool(const std::filesystem::path&)>& progress,
    const std::function<void(const std::filesystem::path&, nlohmann::ordered_json)>& visit,
    bool with_programs = false);

/// FormatError: there is none below the folder.
[[noreturn]] void throw_no_kernels(const std::filesystem::path& folder);

}  // namespace lagom::collect

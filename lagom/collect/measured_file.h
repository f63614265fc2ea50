#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lagom/collect/row_log.h"
#include "lagom/hlo/module.h"

namespace lagom::collect {

/// What stands beside the rows of a program or kernel.
struct MeasuredProgram {
  std::vector<std::string> programs;  ///< Where it comes from: all that have this kernel.
  std::string signature;              ///< Hash of the module.
  std::string device;                 ///< Platform, versions, CPUs.
  std::string strategy;
  double default_seconds = 0;
  double noise_floor = 0;
  double load_average = 0;
  std::string hlo;  ///< The module's text, for kernels: enough to measure them on another device.
};

/// Writes STEM.npz, a graph as TpuGraphs has them with a row per measured configuration, and
/// STEM.json: origin, device, noise floor, the configurations as text, failures with their reasons.
///
/// config_runtime and config_runtime_normalizers are the medians of configuration and default, run
/// in turn, in ns. Arrays beyond TpuGraphs': node_feat_v2 and
/// node_opcode_v2 (what feature set v2 adds), node_config_form, node_config_barrier, config_flags
/// (configuration_features.h), config_ratio float32 [c, 2], the ends of the ratio's interval.
/// Throws std::invalid_argument without any measured row, SystemError when it cannot be written.
void write_measured(const std::filesystem::path& stem, const hlo::Module& module,
                    const MeasuredProgram& program, const std::vector<Row>& rows);

/// Where the rows of a file that write_measured made were measured, as its STEM.json says; empty
/// when there is none or it does not say so.
std::string measured_device(const std::filesystem::path& npz);

}  // namespace lagom::collect

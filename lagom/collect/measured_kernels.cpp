#include "lagom/collect/measured_kernels.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lagom/formats/array.h"
#include "lagom/formats/npz.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/rewrite/configuration.h"
#include "lagom/tune/kernel_features.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"

namespace lagom::collect {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using rewrite::Configuration;

constexpr const char* kNode = "node";  // as rewrite::cut_out names it

bool is_default_or_one_form(const Configuration& configuration) {
  if (!configuration.flags.empty() || configuration.decisions.size() > 1) return false;
  return configuration.is_default() ||
         configuration.decisions[0].kind == rewrite::DecisionKind::kForm;
}

MeasuredKernel read_kernel(const fs::path& path, const json& j) {
  MeasuredKernel kernel;
  kernel.device = j.at("device").get<std::string>();
  kernel.programs = j.at("programs").get<std::vector<std::string>>();
  kernel.module = hlo::read_hlo_text(j.at("hlo").get<std::string>(), path.string());
  const hlo::Instruction* node = kernel.module.entry()->find(kNode);
  if (node == nullptr) throw FormatError(path.string(), "hlo", "expected an instruction 'node'");

  const auto configurations = j.at("configurations").get<std::vector<std::string>>();
  const formats::NpzReader arrays(fs::path(path).replace_extension(".npz"));
  const auto runtimes = formats::values_as<double>(arrays.read("config_runtime"));
  const auto defaults = formats::values_as<double>(arrays.read("config_runtime_normalizers"));
  const auto ratios = formats::values_as<double>(arrays.read("config_ratio"));
  if (runtimes.size() != configurations.size() || defaults.size() != runtimes.size() ||
      ratios.size() != 2 * runtimes.size()) {
    throw FormatError(path.string(), "configurations",
                      "expected as many as the npz has rows, " + std::to_string(runtimes.size()) +
                          ", found " + std::to_string(configurations.size()));
  }
  const std::vector<float> description = tune::describe_node(kernel.module, kNode);
  for (size_t i = 0; i < configurations.size(); ++i) {
    if (!is_default_or_one_form(Configuration::from_string(configurations[i], path.string()))) {
      continue;
    }
    kernel.records.push_back({.signature = j.at("signature").get<std::string>(),
                              .configuration = configurations[i],
                              .opcode = std::string(hlo::opcode_name(node->opcode)),
                              .default_seconds = defaults[i] * 1e-9,
                              .seconds = runtimes[i] * 1e-9,
                              .ratio = {.median = runtimes[i] / defaults[i],
                                        .low = ratios[2 * i],
                                        .high = ratios[2 * i + 1]},
                              .error = {},
                              .node = description});
  }
  std::stable_partition(kernel.records.begin(), kernel.records.end(),
                        [](const auto& record) { return record.configuration.empty(); });
  return kernel;
}

}  // namespace

void read_measured_kernels(const fs::path& folder,
                           const std::function<void(MeasuredKernel)>& visit) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  if (error) throw SystemError(folder.string() + ": cannot be read: " + error.message());
  std::sort(paths.begin(), paths.end());
  bool found = false;
  for (const fs::path& path : paths) {
    MeasuredKernel kernel;
    try {
      const json j = json::parse(read_file(path));
      if (!j.is_object() || !j.contains("hlo")) continue;
      kernel = read_kernel(path, j);
    } catch (const json::exception& e) {
      throw FormatError(path.string(), "",
                        std::string("is no description of a kernel: ") + e.what());
    }
    found = true;
    visit(std::move(kernel));
  }
  if (!found) {
    throw FormatError(folder.string(), "",
                      "expected measured kernels (.npz and .json, as lagom collect writes them), "
                      "found none");
  }
}

tune::DeviceRecords measured_forms(const fs::path& folder) {
  tune::DeviceRecords all;
  read_measured_kernels(folder, [&](MeasuredKernel kernel) {
    if (all.device.empty()) all.device = kernel.device;
    if (kernel.device != all.device) {
      throw FormatError(
          folder.string(), "",
          "expected kernels of one device, found '" + all.device + "' and '" + kernel.device + "'");
    }
    std::move(kernel.records.begin(), kernel.records.end(), std::back_inserter(all.records));
  });
  return all;
}

}  // namespace lagom::collect

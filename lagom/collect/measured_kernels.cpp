#include "lagom/collect/measured_kernels.h"

#include <algorithm>

#include "lagom/collect/kernel_descriptions.h"
#include "lagom/formats/array.h"
#include "lagom/formats/npz.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/rewrite/configuration.h"
#include "lagom/tune/kernel_features.h"
#include "lagom/util/error.h"

namespace lagom::collect {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;
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
  bool found = false;
  for_each_kernel_description(folder, {}, [&](const fs::path& path, const json& j) {
    found = true;
    visit(read_kernel(path, j));
  });
  if (!found) throw_no_kernels(folder);
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

#include "cli/inspect_arrays.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/common.h"
#include "lagom/formats/npz.h"
#include "lagom/formats/safetensors.h"
#include "lagom/util/file.h"

namespace lagom::cli {
namespace {

using nlohmann::ordered_json;

ordered_json describe(const std::string& name, const formats::NpyHeader& header) {
  return {{"name", name},
          {"dtype", formats::numpy_type_name(header.element_type)},
          {"shape", header.shape}};
}

void add_statistics(ordered_json& entry, const formats::Array& array) {
  const formats::ArrayStatistics s = formats::statistics_of(array);
  entry["min"] = s.min;
  entry["max"] = s.max;
  entry["sum"] = s.sum;
}

ordered_json inspect_safetensors(const std::string& path, bool stats) {
  const formats::SafetensorsFile file(path);
  ordered_json arrays = ordered_json::array();
  for (const formats::SafetensorsEntry& entry : file.entries()) {
    arrays.push_back({{"name", entry.name},
                      {"dtype", number_format(entry.element_type).name},
                      {"shape", entry.shape}});
    if (stats) {
      formats::Array array{.element_type = entry.element_type, .shape = entry.shape, .data = {}};
      array.data.assign(entry.data.begin(), entry.data.end());
      add_statistics(arrays.back(), array);
    }
  }
  return {{"file", path},
          {"kind", "safetensors"},
          {"metadata", file.metadata()},
          {"arrays", std::move(arrays)}};
}

}  // namespace

bool is_array_file(const std::string& path) {
  const std::string bytes = first_bytes(path);
  return formats::is_npy(bytes) || bytes.starts_with("PK\x03\x04") ||
         bytes.starts_with("PK\x05\x06") || formats::is_safetensors(bytes);
}

ordered_json inspect_arrays(const std::string& path, bool stats) {
  const std::string bytes = first_bytes(path);
  if (formats::is_safetensors(bytes)) return inspect_safetensors(path, stats);
  ordered_json arrays = ordered_json::array();
  const bool is_npy = formats::is_npy(bytes);
  if (is_npy) {
    const std::string all = read_file(path);
    arrays.push_back(describe("", formats::read_npy_header(all, path, "")));
    if (stats) add_statistics(arrays.back(), formats::read_npy(all, path));
  } else {
    const formats::NpzReader file(path);
    for (const std::string& name : file.names()) {
      arrays.push_back(describe(name, file.header(name)));
      if (stats) add_statistics(arrays.back(), file.read(name));
    }
  }
  return {{"file", path}, {"kind", is_npy ? "npy" : "npz"}, {"arrays", std::move(arrays)}};
}

void print_arrays(const ordered_json& inspection) {
  std::printf("%s: %s, %zu array%s\n", inspection["file"].get<std::string>().c_str(),
              inspection["kind"].get<std::string>().c_str(), inspection["arrays"].size(),
              inspection["arrays"].size() == 1 ? "" : "s");
  for (const auto& array : inspection["arrays"]) {
    std::string shape;
    for (const auto& size : array["shape"]) {
      shape += (shape.empty() ? "" : " x ") + std::to_string(size.get<int64_t>());
    }
    std::printf("  %-28s %-10s %s", array["name"].get<std::string>().c_str(),
                array["dtype"].get<std::string>().c_str(),
                shape.empty() ? "scalar" : shape.c_str());
    if (array.contains("sum")) {
      std::printf("   min %.9g  max %.9g  sum %.17g", array["min"].get<double>(),
                  array["max"].get<double>(), array["sum"].get<double>());
    }
    std::printf("\n");
  }
  if (!inspection.contains("metadata")) return;
  for (const auto& [name, value] : inspection["metadata"].items()) {
    std::printf("  %s:\n    ", name.c_str());
    for (const char c : value.get<std::string>()) {
      std::putchar(c);
      if (c == '\n') std::printf("    ");
    }
    std::printf("\n");
  }
}

}  // namespace lagom::cli

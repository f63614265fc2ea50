#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lagom::cli {

/// True for npy, npz and safetensors files, by their first bytes.
bool is_array_file(const std::string& path);

/// {"file", "kind", "arrays": [{"name", "dtype", "shape"}]}, with `stats` also "min", "max" and
/// "sum" of each, in double; of safetensors files also "metadata".
nlohmann::ordered_json inspect_arrays(const std::string& path, bool stats);

/// The same for people.
void print_arrays(const nlohmann::ordered_json& inspection);

}  // namespace lagom::cli

#pragma once

#include <string_view>
#include <vector>

#include "lagom/tensor/safetensors.h"

namespace torch::nn {
class Module;
}

namespace lagom::train {

/// The module's parameters and buffers under their names, each behind `prefix`; they share memory
/// with the module.
std::vector<tensor::NamedTensor> module_tensors(const torch::nn::Module& module,
                                                std::string_view prefix = "");

/// Copies a file's tensors into the module's. `path` names the file in errors. Throws FormatError
/// for a tensor that is missing or of another shape, and for one behind a non-empty `prefix` that
/// the module has not: the file then is of another architecture.
void load_module(torch::nn::Module& module, const tensor::TensorFile& file, std::string_view path,
                 std::string_view prefix = "");

}  // namespace lagom::train

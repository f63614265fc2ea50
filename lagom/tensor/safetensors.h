#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lagom/formats/safetensors.h"

/// Tensors from and to safetensors files.
namespace lagom::tensor {

using NamedTensor = std::pair<std::string, at::Tensor>;

/// A file's tensors, in its order.
struct TensorFile {
  std::vector<NamedTensor> tensors;
  formats::SafetensorsMetadata metadata;

  /// Undefined when there is none of that name.
  at::Tensor find(std::string_view name) const;
};

/// Maps the file: a value is read when it is used, and its tensors keep the file open. Those pages
/// cannot be written: clone a tensor before changing it. Throws as formats::SafetensorsFile, and
/// FormatError for a dtype that tensors have not.
TensorFile load_tensors(const std::filesystem::path& path);

/// Writes dense CPU tensors (others are copied first). Throws as formats::write_safetensors.
void save_tensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                  const formats::SafetensorsMetadata& metadata);

}  // namespace lagom::tensor

#include "lagom/tensor/safetensors.h"

#include <ATen/Functions.h>

#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "lagom/util/error.h"

namespace lagom::tensor {
namespace {

constexpr std::array<std::pair<PrimitiveType, at::ScalarType>, 13> kTypes = {{
    {PrimitiveType::kPred, at::kBool},
    {PrimitiveType::kU8, at::kByte},
    {PrimitiveType::kS8, at::kChar},
    {PrimitiveType::kS16, at::kShort},
    {PrimitiveType::kS32, at::kInt},
    {PrimitiveType::kS64, at::kLong},
    {PrimitiveType::kF16, at::kHalf},
    {PrimitiveType::kBF16, at::kBFloat16},
    {PrimitiveType::kF32, at::kFloat},
    {PrimitiveType::kF64, at::kDouble},
    {PrimitiveType::kF8E5M2, at::kFloat8_e5m2},
    {PrimitiveType::kF8E4M3FN, at::kFloat8_e4m3fn},
    {PrimitiveType::kC64, at::kComplexFloat},
}};

at::ScalarType scalar_type_of(const formats::SafetensorsFile& file,
                              const formats::SafetensorsEntry& entry) {
  for (const auto& [type, scalar_type] : kTypes) {
    if (type == entry.element_type) return scalar_type;
  }
  throw FormatError(file.path(), "tensor '" + entry.name + "'",
                    "no tensors of " + std::string(number_format(entry.element_type).name));
}

PrimitiveType primitive_type_of(const at::Tensor& tensor) {
  for (const auto& [type, scalar_type] : kTypes) {
    if (scalar_type == tensor.scalar_type()) return type;
  }
  throw std::invalid_argument("safetensors: no dtype for " + tensor.toString());
}

}  // namespace

at::Tensor TensorFile::find(std::string_view name) const {
  for (const auto& [known, tensor] : tensors) {
    if (known == name) return tensor;
  }
  return {};
}

TensorFile load_tensors(const std::filesystem::path& path) {
  const auto file = std::make_shared<const formats::SafetensorsFile>(path);
  TensorFile loaded;
  loaded.metadata = file->metadata();
  for (const formats::SafetensorsEntry& entry : file->entries()) {
    const at::ScalarType type = scalar_type_of(*file, entry);
    const auto options = at::TensorOptions().dtype(type);
    const bool is_aligned =
        reinterpret_cast<uintptr_t>(entry.data.data()) % c10::elementSize(type) == 0;
    at::Tensor values;
    if (is_aligned && !entry.data.empty()) {
      values = at::from_blob(
          const_cast<char*>(entry.data.data()), entry.shape,
          [file](void*) { /* the file lives as long as its tensors */ }, options);
    } else {
      values = at::empty(entry.shape, options);
      if (!entry.data.empty()) {
        std::memcpy(values.data_ptr(), entry.data.data(), entry.data.size());
      }
    }
    loaded.tensors.emplace_back(entry.name, std::move(values));
  }
  return loaded;
}

void save_tensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                  const formats::SafetensorsMetadata& metadata) {
  std::vector<at::Tensor> contiguous;
  std::vector<formats::SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    contiguous.push_back(tensor.detach().cpu().contiguous());
    const at::Tensor& values = contiguous.back();
    entries.push_back({name,
                       primitive_type_of(values),
                       values.sizes().vec(),
                       {static_cast<const char*>(values.const_data_ptr()), values.nbytes()}});
  }
  formats::write_safetensors(path, entries, metadata);
}

}  // namespace lagom::tensor

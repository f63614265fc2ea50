#include "lagom/train/checkpoint.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <set>
#include <sstream>
#include <string>

#include "lagom/util/error.h"

namespace lagom::train {
namespace {

std::string shape_text(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

}  // namespace

std::vector<tensor::NamedTensor> module_tensors(const torch::nn::Module& module,
                                                std::string_view prefix) {
  std::vector<tensor::NamedTensor> tensors;
  for (const auto& item : module.named_parameters()) {
    tensors.emplace_back(std::string(prefix) + item.key(), item.value());
  }
  for (const auto& item : module.named_buffers()) {
    tensors.emplace_back(std::string(prefix) + item.key(), item.value());
  }
  return tensors;
}

void load_module(torch::nn::Module& module, const tensor::TensorFile& file, std::string_view path,
                 std::string_view prefix) {
  const at::NoGradGuard no_gradients;
  const std::vector<tensor::NamedTensor> wanted = module_tensors(module, prefix);
  std::set<std::string_view> names;
  // Everything is checked before anything is changed.
  for (const auto& [name, to] : wanted) {
    names.insert(name);
    const at::Tensor from = file.find(name);
    if (!from.defined()) throw FormatError(path, "", "has no tensor '" + name + "'");
    if (from.sizes() != to.sizes()) {
      throw FormatError(path, "tensor '" + name + "'",
                        "expected shape " + shape_text(to) + ", found " + shape_text(from));
    }
  }
  if (!prefix.empty()) {
    for (const auto& [name, from] : file.tensors) {
      if (std::string_view(name).starts_with(prefix) && !names.contains(name)) {
        throw FormatError(path, "tensor '" + name + "'", "the model has no such parameter");
      }
    }
  }
  for (const auto& [name, to] : wanted) to.copy_(file.find(name));
}

}  // namespace lagom::train

#include "lagom/tensor/parameters.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

namespace lagom::tensor {

ParameterStore::ParameterStore(uint64_t seed, at::ScalarType dtype)
    : dtype_(dtype), generator_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

at::Tensor ParameterStore::add(const std::string& name, at::Tensor value) {
  for (const NamedTensor& other : all_) {
    TORCH_CHECK_VALUE(other.first != name, "parameter ", name, " is there twice");
  }
  // Drawn in float whatever the dtype: a double model for a check has the float model's values.
  value = value.to(dtype_).requires_grad_();
  all_.push_back({name, value});
  return value;
}

at::Tensor ParameterStore::uniform(const std::string& name, at::IntArrayRef sizes, double bound) {
  return add(name, at::empty(sizes).uniform_(-bound, bound, generator_));
}

at::Tensor ParameterStore::normal(const std::string& name, at::IntArrayRef sizes,
                                  double deviation) {
  return add(name, at::empty(sizes).normal_(0, deviation, generator_));
}

at::Tensor ParameterStore::constant(const std::string& name, at::IntArrayRef sizes, double value) {
  return add(name, at::full(sizes, value));
}

int64_t ParameterStore::num_values() const {
  int64_t count = 0;
  for (const auto& [name, value] : all_) count += value.numel();
  return count;
}

}  // namespace lagom::tensor

#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lagom/tensor/safetensors.h"

namespace lagom::tensor {

/// Makes a model's parameters, leaves that require gradients, in a fixed order from one seed, and
/// keeps a handle of each.
class ParameterStore {
 public:
  explicit ParameterStore(uint64_t seed, at::ScalarType dtype = at::kFloat);

  /// Values in [-bound, bound). Names are joined from parts with '.'; throws c10::ValueError for
  /// one that is taken.
  at::Tensor uniform(const std::string& name, at::IntArrayRef sizes, double bound);
  at::Tensor normal(const std::string& name, at::IntArrayRef sizes, double deviation);
  at::Tensor constant(const std::string& name, at::IntArrayRef sizes, double value);

  const std::vector<NamedTensor>& all() const { return all_; }
  int64_t num_values() const;
  at::ScalarType dtype() const { return dtype_; }

 private:
  at::Tensor add(const std::string& name, at::Tensor value);

  at::ScalarType dtype_;
  at::Generator generator_;
  std::vector<NamedTensor> all_;
};

}  // namespace lagom::tensor

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lagom/tensor/safetensors.h"

namespace lagom::train {

/// Parameters that are updated by one rule.
struct ParameterGroup {
  std::string name;                             ///< Of the group, in checkpoints.
  std::vector<tensor::NamedTensor> parameters;  ///< Leaf tensors of one dtype.
  double learning_rate_scale = 1;
  double weight_decay = 0;
  /// Groups of one clip set share a gradient norm. A set's clipping leaves the others alone.
  std::string clip_set = "all";
};

/// Parameters and their gradients as slices of flat buffers, a pair of buffers for each group, so
/// that an optimizer's step, a norm, an average are each one pass over memory.
class FlatParameters {
 public:
  struct Group {
    ParameterGroup options;
    at::Tensor values;     ///< [P], where the parameters now live.
    at::Tensor gradients;  ///< [P], where autograd adds up.
  };

  /// Moves the parameters' values into the buffers: modules go on using their tensors. Throws
  /// c10::ValueError for a parameter that is in two groups, needs no gradient, or has another
  /// dtype than its group.
  explicit FlatParameters(std::vector<ParameterGroup> groups);

  const std::vector<Group>& groups() const { return groups_; }
  int64_t num_parameters() const;

  /// Sets all gradients to zero, in place.
  void zero_gradients();

 private:
  std::vector<Group> groups_;
};

/// Sum of squares in double, the same for any number of threads.
double sum_of_squares(const at::Tensor& flat);

}  // namespace lagom::train

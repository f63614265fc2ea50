#include "lagom/train/flat_parameters.h"

#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <set>

namespace lagom::train {
namespace {

FlatParameters::Group flatten(ParameterGroup options) {
  FlatParameters::Group group;
  int64_t size = 0;
  for (const auto& [name, parameter] : options.parameters) {
    TORCH_CHECK_VALUE(parameter.is_leaf() && parameter.requires_grad(), "parameter '", name,
                      "' is no leaf that needs a gradient");
    TORCH_CHECK_VALUE(parameter.scalar_type() == options.parameters[0].second.scalar_type(),
                      "parameter '", name, "' is ", parameter.scalar_type(), ", its group ",
                      options.parameters[0].second.scalar_type());
    size += parameter.numel();
  }
  const at::TensorOptions type = options.parameters.empty()
                                     ? at::TensorOptions(at::kFloat)
                                     : options.parameters[0].second.options().requires_grad(false);
  group.values = at::empty({size}, type);
  group.gradients = at::zeros({size}, type);
  int64_t begin = 0;
  for (auto& [name, parameter] : options.parameters) {
    const int64_t count = parameter.numel();
    const at::Tensor values = group.values.narrow(0, begin, count).view(parameter.sizes());
    values.copy_(parameter.detach());
    parameter.set_data(values);
    parameter.mutable_grad() = group.gradients.narrow(0, begin, count).view(parameter.sizes());
    begin += count;
  }
  group.options = std::move(options);
  return group;
}

}  // namespace

FlatParameters::FlatParameters(std::vector<ParameterGroup> groups) {
  std::set<const void*> seen;
  for (const ParameterGroup& group : groups) {
    for (const auto& [name, parameter] : group.parameters) {
      TORCH_CHECK_VALUE(seen.insert(parameter.unsafeGetTensorImpl()).second, "parameter '", name,
                        "' is given twice");
    }
  }
  for (ParameterGroup& group : groups) groups_.push_back(flatten(std::move(group)));
}

int64_t FlatParameters::num_parameters() const {
  int64_t count = 0;
  for (const Group& group : groups_) count += group.values.numel();
  return count;
}

void FlatParameters::zero_gradients() {
  for (Group& group : groups_) group.gradients.zero_();
}

double sum_of_squares(const at::Tensor& flat) {
  // Blocks of a fixed size, added up in order: threads share out blocks, not the sum.
  constexpr int64_t kBlock = 1 << 15;
  const int64_t size = flat.numel();
  const int64_t num_blocks = (size + kBlock - 1) / kBlock;
  std::vector<double> sums(static_cast<size_t>(num_blocks));
  AT_DISPATCH_FLOATING_TYPES(flat.scalar_type(), "sum_of_squares", [&] {
    const scalar_t* values = flat.const_data_ptr<scalar_t>();
    at::parallel_for(0, num_blocks, 1, [&](int64_t first, int64_t last) {
      for (int64_t block = first; block < last; ++block) {
        // Independent sums let the compiler use vectors without reordering anything.
        double lanes[8] = {};
        const int64_t end = std::min(size, (block + 1) * kBlock);
        for (int64_t i = block * kBlock; i < end; ++i) {
          const auto value = static_cast<double>(values[i]);
          lanes[i % 8] += value * value;
        }
        double sum = 0;
        for (const double lane : lanes) sum += lane;
        sums[static_cast<size_t>(block)] = sum;
      }
    });
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace lagom::train

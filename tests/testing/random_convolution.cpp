#include "tests/testing/random_convolution.h"

#include <algorithm>
#include <numeric>

#include "lagom/hlo/shape_inference.h"

namespace lagom::testing {
namespace {

int64_t draw(std::mt19937& generator, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(generator);
}

// Mostly 1, sometimes up to `high`.
int64_t draw_dilation(std::mt19937& generator, int64_t high) {
  return draw(generator, 0, 2) == 0 ? draw(generator, 1, high) : 1;
}

hlo::Dims random_places(std::mt19937& generator, size_t rank) {
  hlo::Dims places(rank);
  std::iota(places.begin(), places.end(), 0);
  std::shuffle(places.begin(), places.end(), generator);
  return places;
}

Values random_values(std::mt19937& generator, const hlo::Dims& dims) {
  std::normal_distribution<double> normal;
  Values values(static_cast<size_t>(hlo::checked_product(dims).value()));
  for (double& value : values) value = normal(generator);
  return values;
}

hlo::WindowDim random_window_dim(std::mt19937& generator, int64_t input_size) {
  hlo::WindowDim dim;
  while (true) {
    dim.size = draw(generator, 1, 4);
    dim.stride = draw_dilation(generator, 3);
    dim.window_dilation = draw_dilation(generator, 3);
    dim.base_dilation = draw_dilation(generator, 3);
    dim.pad_low = draw(generator, -1, 4);
    dim.pad_high = draw(generator, -1, 4);
    dim.reversal = draw(generator, 0, 3) == 0;
    if (hlo::window_output_size(input_size, dim) > 0) return dim;
  }
}

}  // namespace

ConvolutionCase make_convolution(std::mt19937& generator, hlo::ElementType type,
                                 hlo::Dims input_dims, hlo::Dims kernel_dims,
                                 hlo::ConvolutionSpec spec) {
  ConvolutionCase result;
  result.module = std::make_unique<hlo::Module>("convolution");
  hlo::Computation* const entry =
      result.module->add_computation(std::make_unique<hlo::Computation>("main"));
  result.module->set_entry(entry);
  hlo::NameTable names(*result.module);
  hlo::Builder builder(*result.module, *entry, names);
  hlo::Instruction* const input =
      builder.parameter(0, hlo::Shape::array(type, input_dims), "input");
  hlo::Instruction* const kernel =
      builder.parameter(1, hlo::Shape::array(type, kernel_dims), "kernel");
  result.convolution = builder.convolution(input, kernel, std::move(spec));
  entry->set_root(result.convolution);
  result.arguments = {random_values(generator, input_dims), random_values(generator, kernel_dims)};
  return result;
}

ConvolutionCase random_convolution(std::mt19937& generator, ConvolutionKind kind,
                                   hlo::ElementType type) {
  const auto spatial = static_cast<size_t>(draw(generator, 1, 3));
  const int64_t batch = draw(generator, 1, 3);
  const int64_t multiplier = draw(generator, 1, 3);
  int64_t input_features = draw(generator, 1, 4);
  int64_t kernel_inputs = input_features;
  int64_t kernel_outputs = draw(generator, 1, 4);
  int64_t input_batch = batch;
  hlo::ConvolutionSpec spec;
  if (kind == ConvolutionKind::kDepthwise) {
    spec.feature_group_count = input_features;
    kernel_inputs = 1;
    kernel_outputs = input_features * multiplier;
  } else if (kind == ConvolutionKind::kDepthwiseWeightGradient) {
    input_batch = draw(generator, 2, 4);
    spec.batch_group_count = input_batch;
    kernel_outputs = input_batch * multiplier;
  }

  const hlo::Dims in = random_places(generator, spatial + 2);
  const hlo::Dims k = random_places(generator, spatial + 2);
  const hlo::Dims out = random_places(generator, spatial + 2);
  hlo::Dims input_dims(spatial + 2), kernel_dims(spatial + 2);
  spec.dims.input_batch = in[0];
  spec.dims.input_feature = in[1];
  spec.dims.kernel_output_feature = k[0];
  spec.dims.kernel_input_feature = k[1];
  spec.dims.output_batch = out[0];
  spec.dims.output_feature = out[1];
  input_dims[in[0]] = input_batch;
  input_dims[in[1]] = input_features;
  kernel_dims[k[0]] = kernel_outputs;
  kernel_dims[k[1]] = kernel_inputs;
  for (size_t s = 0; s < spatial; ++s) {
    const int64_t size = draw(generator, 1, spatial == 3 ? 4 : 7);
    const hlo::WindowDim dim = random_window_dim(generator, size);
    spec.dims.input_spatial.push_back(in[s + 2]);
    spec.dims.kernel_spatial.push_back(k[s + 2]);
    spec.dims.output_spatial.push_back(out[s + 2]);
    input_dims[in[s + 2]] = size;
    kernel_dims[k[s + 2]] = dim.size;
    spec.window.push_back(dim);
  }
  return make_convolution(generator, type, input_dims, kernel_dims, std::move(spec));
}

}  // namespace lagom::testing

#include "tests/testing/reference_convolution.h"

#include "tests/testing/indices.h"

namespace lagom::testing {

hlo::Values reference_convolution(const hlo::Instruction& instruction, const hlo::Values& input,
                                  const hlo::Values& kernel) {
  const hlo::ConvolutionDims& dims = *instruction.attributes.convolution;
  const hlo::Window& window = instruction.attributes.window;
  const hlo::Dims& in_dims = instruction.operand(0).shape.dimensions;
  const hlo::Dims& k_dims = instruction.operand(1).shape.dimensions;
  const hlo::Dims& out_dims = instruction.shape.dimensions;
  const int64_t group_inputs = k_dims[dims.kernel_input_feature];
  const int64_t out_features = out_dims[dims.output_feature];
  const int64_t per_feature_group = out_features / instruction.attributes.feature_group_count;
  const int64_t per_batch_group = out_features / instruction.attributes.batch_group_count;
  hlo::Dims window_dims;
  for (const hlo::WindowDim& dim : window) window_dims.push_back(dim.size);

  hlo::Values result;
  for_each_index(out_dims, [&](const hlo::Dims& out) {
    const int64_t feature = out[dims.output_feature];
    hlo::Dims in(in_dims.size()), k(k_dims.size());
    in[dims.input_batch] =
        feature / per_batch_group * out_dims[dims.output_batch] + out[dims.output_batch];
    k[dims.kernel_output_feature] = feature;
    double sum = 0;
    for (int64_t i = 0; i < group_inputs; ++i) {
      in[dims.input_feature] = feature / per_feature_group * group_inputs + i;
      k[dims.kernel_input_feature] = i;
      for_each_index(window_dims, [&](const hlo::Dims& tap) {
        for (size_t s = 0; s < window.size(); ++s) {
          const hlo::WindowDim& dim = window[s];
          const int64_t position =
              out[dims.output_spatial[s]] * dim.stride + tap[s] * dim.window_dilation - dim.pad_low;
          const int64_t size = in_dims[dims.input_spatial[s]];
          if (position < 0 || position % dim.base_dilation != 0) return;
          if (position / dim.base_dilation >= size) return;
          in[dims.input_spatial[s]] = position / dim.base_dilation;
          k[dims.kernel_spatial[s]] = dim.reversal ? dim.size - 1 - tap[s] : tap[s];
        }
        sum += input[linear_index(in_dims, in)] * kernel[linear_index(k_dims, k)];
      });
    }
    result.push_back(sum);
  });
  return result;
}

}  // namespace lagom::testing

#include "lagom/hlo/shape_inference.h"
#include "tests/testing/random_nodes.h"

namespace lagom::testing {
namespace {

using hlo::Dims;
using hlo::Instruction;

enum class Kind { kPlain, kPointwise, kDepthwise, kDepthwiseWeightGradient, kGrouped, kTransposed };

// Mostly 1, sometimes up to `high`.
int64_t draw_dilation(Choices& choices, int64_t high) {
  return choices.integer(0, 2) == 2 ? choices.integer(1, high) : 1;
}

// 0 first, so that shrinking takes the padding away; -1 cuts an element off.
int64_t draw_pad(Choices& choices) {
  const int64_t pad = choices.integer(0, 5);
  return pad == 5 ? -1 : pad;
}

// XLA's CPU backend of one of the two plugins reads past the input of some such convolutions: a
// kernel of one element on an input moved to the left. There is nothing to compare with then.
bool is_misread_by_xla(const hlo::WindowDim& dim) {
  return dim.size == 1 && dim.pad_low < 0 && dim.pad_low + dim.pad_high == 0;
}

hlo::WindowDim draw_window_dim(Choices& choices, Kind kind, int64_t input_size) {
  while (true) {
    hlo::WindowDim dim;
    if (kind != Kind::kPointwise) dim.size = choices.integer(1, 4);
    dim.stride = kind == Kind::kTransposed ? 1 : draw_dilation(choices, 3);
    dim.window_dilation = kind == Kind::kTransposed ? 1 : draw_dilation(choices, 3);
    dim.base_dilation =
        kind == Kind::kTransposed ? choices.integer(2, 3) : draw_dilation(choices, 3);
    dim.pad_low = draw_pad(choices);
    dim.pad_high = draw_pad(choices);
    dim.reversal = choices.rarely(4);
    if (is_misread_by_xla(dim)) continue;
    if (hlo::window_output_size(input_size, dim) > 0) return dim;
  }
}

RandomNode make(Choices& choices, Kind kind) {
  NodeMaker maker(choices);
  const auto spatial = static_cast<size_t>(choices.integer(1, 3));
  // Rules leave empty arrays alone: that is tried too, but seldom.
  int64_t batch = choices.rarely(40) ? 0 : choices.integer(1, 3);
  int64_t inputs = choices.integer(1, 4);
  int64_t kernel_inputs = inputs;
  int64_t outputs = choices.integer(1, 4);
  hlo::ConvolutionSpec spec;
  switch (kind) {
    case Kind::kDepthwise:
      spec.feature_group_count = inputs;
      kernel_inputs = 1;
      outputs = inputs * choices.integer(1, 3);
      break;
    case Kind::kDepthwiseWeightGradient:
      batch = choices.integer(2, 4);
      spec.batch_group_count = batch;
      outputs = batch * choices.integer(1, 2);
      break;
    case Kind::kGrouped: {
      const int64_t groups = choices.integer(2, 3);
      if (choices.flip()) {
        spec.batch_group_count = groups;
        batch = groups * choices.integer(1, 2);
      } else {
        spec.feature_group_count = groups;
        inputs = groups * kernel_inputs;
      }
      outputs *= groups;
      break;
    }
    default:
      break;
  }

  const auto rank = static_cast<int64_t>(spatial) + 2;
  const Dims in = maker.permutation(rank), k = maker.permutation(rank),
             out = maker.permutation(rank);
  Dims input_dims(rank), kernel_dims(rank);
  spec.dims.input_batch = in[0];
  spec.dims.input_feature = in[1];
  spec.dims.kernel_output_feature = k[0];
  spec.dims.kernel_input_feature = k[1];
  spec.dims.output_batch = out[0];
  spec.dims.output_feature = out[1];
  input_dims[in[0]] = batch;
  input_dims[in[1]] = inputs;
  kernel_dims[k[0]] = outputs;
  kernel_dims[k[1]] = kernel_inputs;
  for (size_t s = 0; s < spatial; ++s) {
    const int64_t size = choices.rarely(60) ? 0 : choices.integer(1, spatial == 3 ? 4 : 7);
    const hlo::WindowDim dim = draw_window_dim(choices, kind, size);
    spec.dims.input_spatial.push_back(in[s + 2]);
    spec.dims.kernel_spatial.push_back(k[s + 2]);
    spec.dims.output_spatial.push_back(out[s + 2]);
    input_dims[in[s + 2]] = size;
    kernel_dims[k[s + 2]] = dim.size;
    spec.window.push_back(dim);
  }
  const hlo::ElementType type = maker.float_type();
  Instruction* const input = maker.parameter(type, input_dims, "input");
  Instruction* const kernel = maker.parameter(type, kernel_dims, "kernel");
  // Narrow operands may give a wider result.
  const hlo::ElementType result = choices.rarely(4) ? hlo::ElementType::kF32 : type;
  Instruction* const convolution =
      maker.builder.convolution(input, kernel, std::move(spec), result);
  maker.maybe_odd_layout(convolution);
  return maker.finish(convolution);
}

NodeFamily family(const char* name, Kind kind) {
  return {.name = name, .make = [kind](Choices& choices) { return make(choices, kind); }};
}

}  // namespace

RandomNode make_convolution(Choices& choices, hlo::ElementType type, Dims input_dims,
                            Dims kernel_dims, hlo::ConvolutionSpec spec) {
  NodeMaker maker(choices);
  Instruction* const input = maker.parameter(type, std::move(input_dims), "input");
  Instruction* const kernel = maker.parameter(type, std::move(kernel_dims), "kernel");
  return maker.finish(maker.builder.convolution(input, kernel, std::move(spec)));
}

std::vector<NodeFamily> convolution_families() {
  return {family("convolution", Kind::kPlain),
          family("pointwise convolution", Kind::kPointwise),
          family("depthwise convolution", Kind::kDepthwise),
          family("depthwise weight gradient", Kind::kDepthwiseWeightGradient),
          family("grouped convolution", Kind::kGrouped),
          family("transposed convolution", Kind::kTransposed)};
}

}  // namespace lagom::testing

#include <algorithm>
#include <cmath>

#include "tests/testing/random_nodes.h"

namespace lagom::testing {
namespace {

using hlo::Dims;
using hlo::ElementType;
using hlo::Instruction;
using hlo::Opcode;

// A vector along the features, or a scalar, spread over the array. Between 0.5 and 2, so that
// neither products nor quotients lose digits.
Instruction* draw_operand(NodeMaker& maker, ElementType type, const Dims& dims,
                          const Dims& feature_dims) {
  Dims places = maker.choices.rarely(5) ? Dims{} : feature_dims;
  Dims sizes;
  for (int64_t d : places) sizes.push_back(dims[static_cast<size_t>(d)]);
  std::mt19937 generator(static_cast<uint32_t>(maker.choices.integer(0, 1 << 20)));
  std::uniform_real_distribution<double> positive(0.5, 2);
  hlo::Values values(static_cast<size_t>(hlo::checked_product(sizes).value()));
  for (double& value : values) value = positive(generator);
  Instruction* const vector = maker.parameter(type, sizes, std::move(values), "v");
  return maker.builder.broadcast(vector, dims, places);
}

// (x - mean) * scale + shift, and other chains of such steps.
Instruction* draw_chain(NodeMaker& maker, Instruction* x, const Dims& feature_dims,
                        int64_t num_steps) {
  static const std::vector<Opcode> kOpcodes = {Opcode::kMultiply, Opcode::kAdd, Opcode::kSubtract,
                                               Opcode::kDivide};
  for (int64_t step = 0; step < num_steps; ++step) {
    const Opcode opcode = maker.choices.element(kOpcodes);
    Instruction* const operand =
        draw_operand(maker, x->shape.element_type, x->shape.dimensions, feature_dims);
    x = opcode != Opcode::kDivide && maker.choices.flip()
            ? maker.builder.binary(opcode, operand, x)
            : maker.builder.binary(opcode, x, operand);
  }
  return x;
}

// Every step multiplies what is there by 2 at most (a quotient by 0.5 included) and adds 2.
double chain_magnitude(double x, int64_t num_steps) {
  for (int64_t step = 0; step < num_steps; ++step) x = 2 * x + 2;
  return x;
}

Dims draw_features(NodeMaker& maker, int64_t rank) {
  Dims features;
  for (int64_t d = 0; d < rank; ++d) {
    if (maker.choices.rarely(3)) features.push_back(d);
  }
  if (features.empty()) features.push_back(rank - 1);
  return features;
}

RandomNode make_normalization(Choices& choices) {
  NodeMaker maker(choices);
  const int64_t rank = choices.integer(1, 4);
  Dims dims;
  for (int64_t d = 0; d < rank; ++d) dims.push_back(choices.integer(1, 5));
  const ElementType type = choices.rarely(5) ? maker.float_type() : ElementType::kF32;
  Instruction* const x = maker.parameter(type, dims);
  const int64_t num_steps = choices.integer(1, 5);
  Instruction* const node = draw_chain(maker, x, draw_features(maker, rank), num_steps);
  maker.result.terms = 2 * static_cast<double>(num_steps);
  maker.result.magnitude = chain_magnitude(5, num_steps);
  return maker.finish(node);
}

RandomNode make_scaled_dot(Choices& choices) {
  NodeMaker maker(choices);
  const int64_t depth = choices.integer(1, 6);
  const Dims lhs = {choices.integer(1, 4), choices.integer(1, 4), depth};
  hlo::DotDims dims;
  dims.lhs_contracting = {2};
  dims.rhs_contracting = {choices.integer(0, 1)};
  Dims rhs = {choices.integer(2, 5), choices.integer(2, 5)};
  rhs[static_cast<size_t>(dims.rhs_contracting[0])] = depth;
  Instruction* const product =
      maker.builder.dot(maker.parameter(ElementType::kF32, lhs, "lhs"),
                        maker.parameter(ElementType::kF32, rhs, "rhs"), dims);
  static const std::vector<Dims> kFeatures = {{2}, {2}, {0}, {0, 1}, {1, 2}};
  const int64_t num_steps = choices.integer(1, 3);
  Instruction* const node = draw_chain(maker, product, choices.element(kFeatures), num_steps);
  maker.result.terms = static_cast<double>(depth + 2 * num_steps);
  maker.result.magnitude = chain_magnitude(16 * static_cast<double>(depth), num_steps);
  return maker.finish(node);
}

RandomNode make_scaled_convolution(Choices& choices) {
  NodeMaker maker(choices);
  const int64_t groups = choices.rarely(3) ? 2 : 1;
  const int64_t inputs = choices.integer(1, 3), outputs = groups * choices.integer(1, 3);
  hlo::ConvolutionSpec spec;
  spec.window.assign(1, {.size = choices.integer(1, 3), .pad_low = 1, .pad_high = 1});
  spec.feature_group_count = groups;
  spec.dims = {.input_batch = 0,
               .input_feature = 2,
               .input_spatial = {1},
               .kernel_input_feature = 1,
               .kernel_output_feature = 2,
               .kernel_spatial = {0},
               .output_batch = 0,
               .output_feature = 2,
               .output_spatial = {1}};
  const int64_t taps = spec.window[0].size;
  Instruction* const product = maker.builder.convolution(
      maker.parameter(ElementType::kF32, {choices.integer(1, 2), 4, groups * inputs}, "input"),
      maker.parameter(ElementType::kF32, {taps, inputs, outputs}, "kernel"), spec);
  static const std::vector<Dims> kFeatures = {{2}, {2}, {2}, {1}};
  const int64_t num_steps = choices.integer(1, 4);
  Instruction* const node = draw_chain(maker, product, choices.element(kFeatures), num_steps);
  maker.result.terms = static_cast<double>(taps * inputs + 2 * num_steps);
  maker.result.magnitude = chain_magnitude(16 * static_cast<double>(taps * inputs), num_steps);
  return maker.finish(node);
}

}  // namespace

std::vector<NodeFamily> affine_families() {
  return {{.name = "normalization", .make = make_normalization},
          {.name = "scaled dot", .make = make_scaled_dot},
          {.name = "scaled convolution", .make = make_scaled_convolution}};
}

}  // namespace lagom::testing

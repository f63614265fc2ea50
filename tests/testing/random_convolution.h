#pragma once

#include <memory>
#include <random>

#include "lagom/hlo/builder.h"
#include "lagom/hlo/module.h"
#include "tests/testing/evaluator.h"

namespace lagom::testing {

/// Kinds of convolution that the generator draws.
enum class ConvolutionKind { kPlain, kDepthwise, kDepthwiseWeightGradient };

/// A module whose entry is one convolution of two parameters, and values for these.
struct ConvolutionCase {
  std::unique_ptr<hlo::Module> module;
  hlo::Instruction* convolution = nullptr;
  std::vector<Values> arguments;
};

/// Draws labels, 1 to 3 spatial dimensions, sizes, strides, paddings (negative too), dilations and
/// reversal; every output has at least one position.
ConvolutionCase random_convolution(std::mt19937& generator, ConvolutionKind kind,
                                   hlo::ElementType type = hlo::ElementType::kF32);

/// A convolution of two parameters of these dimensions, with random values.
ConvolutionCase make_convolution(std::mt19937& generator, hlo::ElementType type,
                                 hlo::Dims input_dims, hlo::Dims kernel_dims,
                                 hlo::ConvolutionSpec spec);

}  // namespace lagom::testing

#include "tests/testing/rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lagom::testing {
namespace {

double product(const hlo::Dims& sizes) {
  double result = 1;
  for (int64_t size : sizes) result *= static_cast<double>(size);
  return result;
}

double window_elements(const hlo::Window& window) {
  double result = 1;
  for (const hlo::WindowDim& dim : window) result *= static_cast<double>(dim.size);
  return result;
}

}  // namespace

double unit_roundoff(hlo::ElementType type) {
  const NumberFormat& format = number_format(type);
  const bool rounds = format.is_float() || format.is_complex();
  return rounds ? std::ldexp(1.0, -format.significand_bits) : 0;
}

double summed_terms(const hlo::Instruction& i) {
  using enum hlo::Opcode;
  switch (i.opcode) {
    case kDot: {
      double terms = 1;
      for (int64_t d : i.attributes.dot->lhs_contracting) {
        terms *= static_cast<double>(i.operand(0).shape.dimensions[d]);
      }
      return std::max(terms, 1.0);
    }
    case kConvolution: {
      const hlo::Dims& kernel = i.operand(1).shape.dimensions;
      const auto outputs =
          static_cast<double>(kernel[i.attributes.convolution->kernel_output_feature]);
      return std::max(product(kernel) / std::max(outputs, 1.0), 1.0);
    }
    case kReduce: {
      double terms = 1;
      for (int64_t d : i.attributes.dimensions) {
        terms *= static_cast<double>(i.operand(0).shape.dimensions[d]);
      }
      return std::max(terms, 1.0);
    }
    case kReduceWindow:
    case kSelectAndScatter:
      return window_elements(i.attributes.window);
    case kFft:
      return product(i.rare().fft_length);
    case kScatter:
      // All updates might meet in one place.
      return std::max(1.0, product(i.operands.back()->shape.dimensions));
    default:
      return 1;
  }
}

double summed_terms(const hlo::Module& module) {
  double terms = 0;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      const bool computes = instruction->opcode != hlo::Opcode::kParameter &&
                            instruction->opcode != hlo::Opcode::kConstant;
      if (computes) terms += summed_terms(*instruction);
    }
  }
  return std::max(terms, 1.0);
}

double RoundingBound::allowed() const {
  return unit * magnitude * (4 + 4 * std::sqrt(terms));
}

std::string describe_error(const hlo::Values& expected, const hlo::Values& actual,
                           const RoundingBound& bound) {
  if (expected.size() != actual.size()) {
    return "has " + std::to_string(actual.size()) + " values, expected " +
           std::to_string(expected.size());
  }
  const double allowed = bound.allowed();
  double worst = -1;
  size_t where = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == actual[i] || (std::isnan(expected[i]) && std::isnan(actual[i]))) continue;
    double error = std::fabs(expected[i] - actual[i]);
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    if (error > worst) {
      worst = error;
      where = i;
    }
  }
  if (worst < 0 || worst <= allowed) return "";
  return "element " + std::to_string(where) + " is " + std::to_string(actual[where]) +
         ", expected " + std::to_string(expected[where]) + " +- " + std::to_string(allowed) + " (" +
         std::to_string(worst / std::max(allowed, 1e-300)) + " times that)";
}

double largest_magnitude(const hlo::Values& numbers) {
  double largest = 0;
  for (double number : numbers) {
    if (std::isfinite(number)) largest = std::max(largest, std::fabs(number));
  }
  return largest;
}

std::vector<hlo::Values> absolute(std::vector<hlo::Values> arguments) {
  for (hlo::Values& numbers : arguments) {
    for (double& number : numbers) number = std::fabs(number);
  }
  return arguments;
}

}  // namespace lagom::testing

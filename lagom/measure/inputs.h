#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/util/primitive_type.h"

/// Healthy inputs for programs whose real ones are not at hand.
///
/// Inputs decide both time and correctness: activations of a deep net that fade into denormals make
/// arithmetic slow, and ones that blow up make equal programs give different outputs. So an input
/// is drawn by the role that its parameter plays.
namespace lagom::measure {

enum class InputRole {
  kZeros,
  kActivation,  ///< normal(0, 1)
  kWeight,      ///< normal(0, 2 / fan_in), which keeps activations at their size
  kPositive,    ///< uniform in [0.5, 1.5]: variances, scales, step sizes
  kIndex,       ///< a whole number, uniform in [int_low, int_high]
  kPred,        ///< true or false with equal chance
};

std::string_view input_role_name(InputRole role);  ///< "activation", "weight"...
/// Throws std::invalid_argument for an unknown name.
InputRole input_role_from_name(std::string_view name);

/// One parameter of a program. Arrays are row-major.
struct InputSpec {
  PrimitiveType element_type = PrimitiveType::kF32;
  std::vector<int64_t> dimensions;
  InputRole role = InputRole::kActivation;
  double fan_in = 1;    ///< Of kWeight: how many products are summed into one output.
  double scale = 1;     ///< Every value is multiplied by this (not integers and predicates).
  int64_t int_low = 0;  ///< Range of kIndex, both ends included.
  int64_t int_high = 0;

  /// Throw std::invalid_argument when the size passes 2^63 bytes or is negative.
  int64_t num_elements() const;
  int64_t size_bytes() const;

  friend bool operator==(const InputSpec&, const InputSpec&) = default;
};

/// How inputs are drawn. Element i of input j depends on (seed, i, j) alone.
struct InputDraw {
  uint64_t seed = 1;
  /// Each float is multiplied by 1 - p or 1 + p, with p the larger of this and one rounding step of
  /// its type. 0: no change. Integers and predicates never change.
  double perturbation = 0;
};

/// Values of input number `index`, dense and row-major, sub-byte types unpacked.
///
/// Whatever the role, predicates get true and false (all false for kZeros), and integers get the
/// range of kIndex. 400 MB of f32 take about half a second.
std::string make_input(const InputSpec& spec, size_t index, const InputDraw& draw);

/// The same into memory of exactly spec.size_bytes() bytes.
void fill_input(const InputSpec& spec, size_t index, const InputDraw& draw, std::span<char> out);

}  // namespace lagom::measure

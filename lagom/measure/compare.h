#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lagom/util/primitive_type.h"

/// Whether two programs give the same results, and what their outputs look like.
namespace lagom::measure {

/// One output of a candidate beside the default's.
struct OutputComparison {
  PrimitiveType element_type = PrimitiveType::kInvalid;
  int64_t count = 0;                ///< Values; a complex element has two.
  double max_abs_difference = 0;    ///< Over values that are finite on both sides.
  double max_abs_reference = 0;     ///< Of the finite values of the reference.
  int64_t worst_index = -1;         ///< Where max_abs_difference was found.
  int64_t mismatches = 0;           ///< Values that are not equal (NaN equals NaN).
  int64_t nan_mismatches = 0;       ///< NaN on one side only.
  int64_t infinity_mismatches = 0;  ///< An infinity on one side only, or of the other sign.

  /// max_abs_difference over max_abs_reference; 0 when they are equal, infinite when only the
  /// reference is all zero.
  double relative_error() const;
  double mismatch_share() const;
  /// The relative error of floats and complex values, the share of mismatches of others.
  double difference() const;
};

/// Compares two arrays of raw values. Throws std::invalid_argument when the sizes differ.
OutputComparison compare_output(PrimitiveType type, std::string_view reference,
                                std::string_view candidate);

/// The largest relative error that is ever allowed: a program whose outputs move by more under a
/// change of one millionth cannot be compared.
inline constexpr double kLargestTolerance = 0.05;

/// How far one output of a candidate may be from the default's.
struct Tolerance {
  double relative_error = 0;  ///< Of floats and complex values.
  double mismatch_share = 0;  ///< Of integers and predicates.
};

/// The tolerance that fits an output's type and the program itself.
///
/// `sensitivity` compares the default's output with what the default gives when every float input
/// changes by one millionth: a candidate whose sums are ordered otherwise moves by about as much.
/// Floats: at least a floor by type (f64 1e-9, f32 1e-5, f16 and bf16 four rounding steps, f8 two),
/// at most kLargestTolerance. Integers and predicates: exact, unless the small change altered some
/// too (an argmax between near equals); then four times that share.
Tolerance output_tolerance(PrimitiveType type, const OutputComparison& sensitivity);

/// "" when the comparison is within the tolerance, else what is wrong: "differs by 0.31 (relative
/// 0.12, allowed 1e-05) at element 17".
std::string judge_output(const OutputComparison& comparison, const Tolerance& tolerance);

/// What is in an output.
struct OutputStatistics {
  int64_t count = 0;  ///< Values; a complex element has two.
  double min = 0;     ///< Of the finite values, as are max, mean and max_abs.
  double max = 0;
  double mean = 0;
  double max_abs = 0;
  int64_t num_nan = 0;
  int64_t num_infinite = 0;
  int64_t num_denormal = 0;
  int64_t num_zero = 0;
  uint64_t hash = 0;  ///< Of the raw bytes.
};

OutputStatistics output_statistics(PrimitiveType type, std::string_view values);

}  // namespace lagom::measure

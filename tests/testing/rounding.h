#pragma once

#include <string>

#include "lagom/hlo/evaluator.h"
#include "lagom/hlo/module.h"

/// How far a result computed in an element type may be from the same computation in double.
namespace lagom::testing {

/// Largest relative error of rounding to the type: 2^-24 for f32, 2^-8 for bf16; 0 for types
/// without a fraction.
double unit_roundoff(hlo::ElementType type);

/// How many products or values the instruction sums into one output value; called computations are
/// not looked into. 1 for what sums nothing.
double summed_terms(const hlo::Instruction& instruction);
/// Of all instructions together, called computations included: errors of one sum go into the next.
double summed_terms(const hlo::Module& module);

/// A bound on rounding errors.
///
/// Sums of `terms` values whose absolute values add up to `magnitude`, added in any order with
/// rounding errors that are independent: each partial sum errs by at most u * magnitude, so the
/// total stays within a few standard deviations u * magnitude * sqrt(terms). Elementary functions
/// are allowed a few units of their own.
struct RoundingBound {
  double unit = 0;  ///< u: of the coarsest type that values are kept in.
  double terms = 1;
  double magnitude = 0;  ///< Of the array's largest value, at least.

  double allowed() const;
};

/// "" when every value is within the bound (NaN where NaN is expected, infinities equal), otherwise
/// the worst: "element 17 is 0.31, expected 0.30 +- 1e-06".
std::string describe_error(const hlo::Values& expected, const hlo::Values& actual,
                           const RoundingBound& bound);

double largest_magnitude(const hlo::Values& numbers);

/// The arguments with their signs taken off, to find magnitudes of sums of products.
std::vector<hlo::Values> absolute(std::vector<hlo::Values> arguments);

}  // namespace lagom::testing

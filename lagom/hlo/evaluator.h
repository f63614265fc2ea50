#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lagom/hlo/module.h"

/// The value of HLO in double precision: the reference that rewrites are proven against.
///
/// Every value is kept as doubles in row-major order, whatever its layout. Floating values are not
/// rounded to their element types (a convert from f32 to bf16 changes nothing; reduce-precision and
/// bitcast-convert do round). Integers wrap to their width as XLA's do, a convert from float to
/// integer truncates and saturates (NaN gives 0), and integer division by zero gives -1 (all bits
/// set), a remainder by zero the dividend. 64-bit integers lose bits past 2^53.
namespace lagom::hlo {

/// The numbers of one array, row-major; 0 and 1 for pred. A complex array has all its real parts,
/// then all its imaginary ones.
using Values = std::vector<double>;

/// An array's numbers, or a tuple of values. Copies are cheap: numbers never change and are shared.
class Value {
 public:
  Value() = default;
  Value(Values numbers);                         // NOLINT: an array is a value
  Value(std::initializer_list<double> numbers);  // NOLINT
  static Value tuple(std::vector<Value> elements);

  bool is_tuple() const { return numbers_ == nullptr; }
  /// Throws std::invalid_argument for a tuple.
  const Values& numbers() const&;
  Values numbers() && { return std::as_const(*this).numbers(); }
  /// Elements of a tuple; empty for an array.
  const std::vector<Value>& elements() const& { return elements_; }
  std::vector<Value> elements() && { return std::move(elements_); }

 private:
  std::shared_ptr<const Values> numbers_;
  std::vector<Value> elements_;
};

struct EvaluatorOptions {
  /// Elementary steps (elements made, products summed, calls of a reducer) before the evaluation is
  /// given up. A second makes about 5e9 products of dots and convolutions, 5e8 elements of others,
  /// or 5e7 calls of a reducer that is more than one operation.
  double max_work = 1e11;
  int64_t max_elements = int64_t{1} << 28;  ///< Of one array: 2 GiB.
};

/// The evaluation took more work or memory than its options allow.
class EvaluatorLimitError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The value of a computation's root for these arguments, one per parameter number. The module must
/// hold together (`verify`).
///
/// Knows every operation on arrays with static shapes and without side effects but batch-norm-*,
/// cholesky, triangular-solve, scan, ragged-dot and random numbers; complex numbers only where they
/// are passed on and in complex, real, imag and fft. Custom calls are unknown, but for
/// `LayoutConstraint`, which is its operand. Throws
/// std::invalid_argument naming the instruction and its opcode for what it does not know and for
/// arguments that do not fit, EvaluatorLimitError past a limit.
Value evaluate(const Computation& computation, const std::vector<Value>& arguments,
               const EvaluatorOptions& options = {});

/// The same for one instruction of a computation, with what it needs.
Value evaluate(const Instruction& instruction, const std::vector<Value>& arguments,
               const EvaluatorOptions& options = {});

}  // namespace lagom::hlo

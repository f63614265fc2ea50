#pragma once

// What the sources of the evaluator share. Private to lagom/hlo.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "lagom/hlo/evaluator.h"
#include "lagom/hlo/module.h"

namespace lagom::hlo::evaluation {

inline constexpr size_t kMaxRank = 64;

/// Throws std::invalid_argument naming the instruction, its opcode and what is wrong.
[[noreturn]] void fail(const Instruction& instruction, const std::string& what);

/// What to compute for one root, operands first, and which values nobody needs after each step.
struct Plan {
  struct Step {
    const Instruction* instruction = nullptr;
    std::vector<size_t> operands;   ///< Steps that make them.
    std::vector<size_t> last_uses;  ///< Steps whose values this one is the last to read.
  };
  std::vector<Step> steps;  ///< The root's is the last.
};

/// One evaluation: limits, work done so far, plans of the computations.
class Context {
 public:
  explicit Context(const EvaluatorOptions& options) : options_(options) {}

  Value run(const Computation& computation, std::span<const Value> arguments);
  Value run(const Plan& plan, std::span<const Value> arguments);
  /// Shapes are checked while the plan is made. Throws std::invalid_argument.
  static Plan make_plan(const Instruction& root);

  /// Counts elementary steps. Throws EvaluatorLimitError past the limit.
  void charge(const Instruction& instruction, double work);
  /// Room for an array of this shape, all zero, counted as work.
  Values allocate(const Instruction& instruction, const Shape& shape);
  Values allocate(const Instruction& instruction) {
    return allocate(instruction, instruction.shape);
  }

 private:
  Value compute(const Instruction& instruction, std::span<const Value> operands,
                std::span<const Value> arguments);

  EvaluatorOptions options_;
  double work_ = 0;
  int depth_ = 0;
  std::unordered_map<const Computation*, std::unique_ptr<Plan>> plans_;
};

using Operands = std::span<const Value>;

// By topic, each in a source of its own. All return the instruction's value.
Value elementwise(Context& context, const Instruction& i, Operands operands);
bool is_elementwise(Opcode opcode);
Value map(Context& context, const Instruction& i, Operands operands);
Value bitcast_convert(Context& context, const Instruction& i, Operands operands);

/// complex, real, imag.
Value complex_parts(const Instruction& i, Operands operands);
Value fft(Context& context, const Instruction& i, Operands operands);

Value iota(Context& context, const Instruction& i);
Value broadcast(Context& context, const Instruction& i, Operands operands);
Value transpose(Context& context, const Instruction& i, Operands operands);
Value slice(Context& context, const Instruction& i, Operands operands);
Value reverse(Context& context, const Instruction& i, Operands operands);
Value pad(Context& context, const Instruction& i, Operands operands);
Value concatenate(Context& context, const Instruction& i, Operands operands);

Value dynamic_slice(Context& context, const Instruction& i, Operands operands);
Value dynamic_update_slice(Context& context, const Instruction& i, Operands operands);
Value gather(Context& context, const Instruction& i, Operands operands);
Value scatter(Context& context, const Instruction& i, Operands operands);
Value sort(Context& context, const Instruction& i, Operands operands);
Value top_k(Context& context, const Instruction& i, Operands operands);

Value dot(Context& context, const Instruction& i, Operands operands);
Value convolution(Context& context, const Instruction& i, Operands operands);

Value reduce(Context& context, const Instruction& i, Operands operands);
Value reduce_window(Context& context, const Instruction& i, Operands operands);
Value select_and_scatter(Context& context, const Instruction& i, Operands operands);

/// How an element type stores whole numbers; floats ignore it.
struct NumberType {
  int bits = 0;
  bool is_signed = false;

  static NumberType of(ElementType type) {
    return {.bits = type == ElementType::kPred ? 1 : element_bits(type),
            .is_signed = is_signed_integer(type)};
  }
};

/// A computation on scalars, flattened so that calling it for every element is cheap.
class ScalarFunction {
 public:
  /// `caller`, which calls with so many numbers and wants so many back, is named in errors. The
  /// computation must outlive this.
  ScalarFunction(Context& context, const Instruction& caller, const Computation& computation,
                 size_t num_arguments, size_t num_results = 1);

  /// One result, or a tuple's elements; valid until the next call.
  std::span<const double> operator()(std::span<const double> arguments);

  /// The opcode of a computation that applies one operation to its two parameters in order.
  /// kParameter for others.
  Opcode binary_opcode() const { return binary_opcode_; }
  /// Direction of the comparison when that opcode is kCompare and the order is the usual one.
  const std::string& direction() const { return direction_; }
  ElementType element_type() const { return element_type_; }  ///< Of the first parameter.

 private:
  using Unary = double (*)(double, NumberType);
  using Binary = double (*)(double, double, NumberType);
  enum class Kind { kUnary, kBinary, kSelect, kClamp };
  struct Step {
    Kind kind;
    Unary unary = nullptr;
    Binary binary = nullptr;
    NumberType type;
    std::array<size_t, 3> from{};
    size_t to = 0;
  };
  bool flatten(const Computation& computation);
  void find_binary_opcode(const Computation& computation);

  Context& context_;
  const Computation& computation_;
  size_t num_arguments_;
  bool flat_ = false;
  std::vector<double> slots_;  ///< Arguments, constants, results of steps.
  std::vector<Step> steps_;
  std::vector<size_t> roots_;
  std::vector<double> results_;
  Opcode binary_opcode_ = Opcode::kParameter;
  std::string direction_;
  ElementType element_type_ = ElementType::kInvalid;
};

/// Elements between neighbours along each dimension of a row-major array.
Dims row_major_strides(const Dims& dims);

/// Walks N arrays at once: calls row(offsets) for every index of all dimensions but the last, with
/// the offset of its first element in each array; once for a scalar, never when a dimension is 0.
template <size_t N, typename Row>
void for_each_row(const Dims& dims, const std::array<const Dims*, N>& strides,
                  std::array<int64_t, N> offsets, Row&& row) {
  const size_t outer = dims.empty() ? 0 : dims.size() - 1;
  for (int64_t d : dims) {
    if (d == 0) return;
  }
  std::array<int64_t, kMaxRank> index;
  std::fill_n(index.begin(), outer, 0);
  while (true) {
    row(offsets);
    size_t d = outer;
    while (d > 0) {
      --d;
      for (size_t a = 0; a < N; ++a) offsets[a] += (*strides[a])[d];
      if (++index[d] < dims[d]) break;
      for (size_t a = 0; a < N; ++a) offsets[a] -= (*strides[a])[d] * dims[d];
      index[d] = 0;
      if (d == 0) return;
    }
    if (outer == 0) return;
  }
}

/// Copies a box of elements from one array to another.
void copy_box(const Dims& dims, const double* from, const Dims& from_strides, double* to,
              const Dims& to_strides);

}  // namespace lagom::hlo::evaluation

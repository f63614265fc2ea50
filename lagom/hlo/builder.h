#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "lagom/hlo/edit.h"
#include "lagom/hlo/module.h"

namespace lagom::hlo {

/// Window, labels and groups of a convolution; the defaults are one group.
struct ConvolutionSpec {
  Window window;
  ConvolutionDims dims;
  int64_t feature_group_count = 1, batch_group_count = 1;
};

/// Makes instructions of one computation, with inferred shapes and fresh names.
///
/// Appending, each instruction is in the computation at once. Inserting, instructions are kept
/// aside until `commit` puts them in front of the chosen position; without it they are dropped with
/// the builder, so that an emission that fails leaves the computation as it was.
///
/// Steps that would do nothing (a reshape to the same dimensions, a transpose in order, a convert
/// to the same type, a pad by nothing, a concatenation of one...) return their operand. Every
/// method throws std::invalid_argument, from `infer_shape`, when the operands do not fit.
///
/// Results get row-major layouts when the computation's own shapes have layouts (or when it is
/// empty), as XLA's exporters write them, and none otherwise. Parameters, constants and custom
/// calls keep the shape they are given.
class Builder {
 public:
  /// Appends to `computation`. The table must know all names of the module and outlive the builder.
  Builder(Module& module, Computation& computation, NameTable& names);
  /// Inserts in front of `position`.
  Builder(Module& module, Computation& computation, NameTable& names, const Instruction* position);

  /// New instructions copy this one's metadata (op_name, source line); null stops that.
  void set_origin(const Instruction* origin) { origin_ = origin; }
  /// Puts what was made in front of the position. Does nothing when appending.
  void commit();
  /// Number of instructions made so far.
  size_t num_made() const { return num_made_; }

  Instruction* parameter(int64_t number, Shape shape, std::string_view name = "");
  Instruction* constant(Literal literal);
  Instruction* constant(ElementType type, double value);
  Instruction* iota(Shape shape, int64_t dimension);

  Instruction* unary(Opcode opcode, Instruction* x);
  Instruction* binary(Opcode opcode, Instruction* lhs, Instruction* rhs);
  Instruction* add(Instruction* lhs, Instruction* rhs) { return binary(Opcode::kAdd, lhs, rhs); }
  Instruction* multiply(Instruction* lhs, Instruction* rhs) {
    return binary(Opcode::kMultiply, lhs, rhs);
  }
  /// direction: EQ NE GE GT LE LT.
  Instruction* compare(Instruction* lhs, Instruction* rhs, std::string_view direction);
  Instruction* select(Instruction* predicate, Instruction* on_true, Instruction* on_false);
  Instruction* convert(Instruction* x, ElementType type);

  /// Dimension i of x becomes dimension `dims[i]` of the result.
  Instruction* broadcast(Instruction* x, Dims result_dims, Dims dims);
  /// x: scalar.
  Instruction* broadcast_scalar(Instruction* x, Dims result_dims);
  /// An array of one value.
  Instruction* full(ElementType type, Dims dims, double value);
  Instruction* reshape(Instruction* x, Dims dims);
  /// Dimension i of the result is dimension `permutation[i]` of x.
  Instruction* transpose(Instruction* x, Dims permutation);
  Instruction* slice(Instruction* x, std::vector<SliceDim> slice);
  Instruction* pad(Instruction* x, Instruction* value, std::vector<PadDim> padding);
  /// Pads with zeros of x's element type.
  Instruction* pad_zero(Instruction* x, std::vector<PadDim> padding);
  Instruction* concatenate(std::vector<Instruction*> parts, int64_t dimension);
  Instruction* reverse(Instruction* x, Dims dims);
  Instruction* dynamic_slice(Instruction* x, std::vector<Instruction*> starts, Dims sizes);

  /// Result dimensions: batch, then lhs's free ones, then rhs's. `type` kInvalid: the operands'.
  Instruction* dot(Instruction* lhs, Instruction* rhs, DotDims dims,
                   ElementType type = ElementType::kInvalid);
  Instruction* convolution(Instruction* input, Instruction* kernel, ConvolutionSpec spec,
                           ElementType type = ElementType::kInvalid);
  /// Sums over `dims`, starting from 0, in x's element type.
  Instruction* reduce_sum(Instruction* x, Dims dims);
  /// One array and one scalar `init`; `reducer` takes two scalars.
  Instruction* reduce_window(Instruction* x, Instruction* init, Window window,
                             Computation* reducer);

  Instruction* tuple(std::vector<Instruction*> elements);
  Instruction* get_tuple_element(Instruction* tuple, int64_t index);
  Instruction* call(Computation* callee, std::vector<Instruction*> operands);
  /// Keeps the compiler from moving or fusing work across it.
  Instruction* optimization_barrier(Instruction* x);
  /// The custom call `LayoutConstraint`: x and its value must lie in this order in memory.
  Instruction* layout_constraint(Instruction* x, Dims minor_to_major);

  /// The computation `type opcode(type, type)` on scalars: one that the module has in front of this
  /// one, or a new one.
  Computation* scalar_computation(Opcode opcode, ElementType type);

  /// Any other instruction: opcode, operands, called computations and attributes are set by the
  /// caller, who also sets in `shape` what `infer_shape` asks for. Shape, metadata and name
  /// (`name`, or the opcode's, made fresh) are filled in here.
  Instruction* add_instruction(std::unique_ptr<Instruction> instruction);

 private:
  std::unique_ptr<Instruction> make(Opcode opcode, std::vector<Instruction*> operands);

  Module& module_;
  Computation& computation_;
  NameTable& names_;
  const Instruction* position_ = nullptr;
  const Instruction* origin_ = nullptr;
  bool with_layouts_ = true;
  size_t num_made_ = 0;
  std::vector<std::unique_ptr<Instruction>> pending_;
};

}  // namespace lagom::hlo

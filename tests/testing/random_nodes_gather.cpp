#include <limits>
#include <memory>

#include "tests/testing/random_nodes.h"

namespace lagom::testing {
namespace {

using hlo::Builder;
using hlo::Dims;
using hlo::ElementType;
using hlo::Instruction;
using hlo::Opcode;
using hlo::Shape;

Instruction* whole_number(Builder& b, ElementType type, const Dims& dims, int64_t value) {
  return b.broadcast_scalar(b.constant(type, static_cast<double>(value)), dims);
}

Instruction* clamp(Builder& b, Instruction* low, Instruction* x, Instruction* high) {
  auto made = std::make_unique<Instruction>();
  made->opcode = Opcode::kClamp;
  made->operands = {low, x, high};
  return b.add_instruction(std::move(made));
}

// x < 0 ? x + n : x, as indexing from the end is written; in a computation of its own when wanted.
Instruction* wrap_negative(NodeMaker& maker, Instruction* x, int64_t n) {
  Builder& b = maker.builder;
  const Dims dims = x->shape.dimensions;
  const ElementType type = x->shape.element_type;
  Instruction* const is_negative = b.compare(x, whole_number(b, type, dims, 0), "LT");
  Instruction* const wrapped = b.add(x, whole_number(b, type, dims, n));
  if (maker.choices.flip()) return b.select(is_negative, wrapped, x);
  auto made = std::make_unique<hlo::Computation>(maker.names.fresh("where"));
  Builder inner(maker.result.module, *made, maker.names);
  Instruction* const predicate = inner.parameter(0, is_negative->shape);
  Instruction* const on_true = inner.parameter(1, wrapped->shape);
  Instruction* const on_false = inner.parameter(2, x->shape);
  made->set_root(inner.select(predicate, on_true, on_false));
  hlo::Computation* const where =
      maker.result.module.add_computation_before(maker.result.entry, std::move(made));
  return b.call(where, {is_negative, wrapped, x});
}

// Indices into n rows, [count]: some certain to be valid, some not.
Instruction* draw_indices(NodeMaker& maker, int64_t count, int64_t n) {
  Builder& b = maker.builder;
  const ElementType type = maker.choices.rarely(4) ? ElementType::kS64 : ElementType::kS32;
  const Dims dims = {count};
  Instruction* const x = maker.whole_parameter(type, dims, -12, 12, "indices");
  Instruction* const rows = whole_number(b, type, dims, n);
  switch (maker.choices.integer(0, 4)) {
    case 0:
      return clamp(b, b.constant(type, 0), x, b.constant(type, static_cast<double>(n - 1)));
    case 1:
      return wrap_negative(maker, b.binary(Opcode::kRemainder, x, rows), n);
    case 2: {
      Instruction* const line = b.iota(Shape::array(type, dims, {0}), 0);
      return b.binary(Opcode::kRemainder, line, rows);
    }
    case 3:
      return b.binary(Opcode::kMinimum,
                      b.binary(Opcode::kMaximum, x, whole_number(b, type, dims, 0)),
                      whole_number(b, type, dims, n - maker.choices.integer(0, 1)));
    default:
      return wrap_negative(maker, x, n);
  }
}

// table[indices] with NaN where an index is out of bounds.
RandomNode make_masked_gather(Choices& choices) {
  NodeMaker maker(choices);
  Builder& b = maker.builder;
  const int64_t n = choices.integer(1, 8), width = choices.integer(1, 4);
  const int64_t count = choices.integer(1, 5);
  Instruction* const table = maker.parameter(maker.float_type(), {n, width}, "table");
  Instruction* const flat = draw_indices(maker, count, n);
  Instruction* const indices = b.reshape(flat, {count, 1});
  const ElementType type = indices->shape.element_type;

  Instruction* const in_bounds =
      b.binary(Opcode::kAnd, b.compare(indices, whole_number(b, type, {count, 1}, 0), "GE"),
               b.compare(indices, whole_number(b, type, {count, 1}, n - 1), "LE"));
  auto all = std::make_unique<Instruction>();
  all->opcode = Opcode::kReduce;
  all->operands = {in_bounds, b.constant(ElementType::kPred, 1)};
  all->attributes.dimensions = {1};
  all->called = {b.scalar_computation(Opcode::kAnd, ElementType::kPred)};
  Instruction* const mask = b.broadcast(b.add_instruction(std::move(all)), {count, width}, {0});

  auto gather = std::make_unique<Instruction>();
  gather->opcode = Opcode::kGather;
  gather->operands = {table, indices};
  gather->attributes.gather = hlo::GatherDims{.offset_dims = {1},
                                              .collapsed_slice_dims = {0},
                                              .start_index_map = {0},
                                              .index_vector_dim = 1,
                                              .operand_batching_dims = {},
                                              .start_indices_batching_dims = {},
                                              .slice_sizes = {1, width}};
  Instruction* const gathered = b.add_instruction(std::move(gather));
  Instruction* const fill =
      b.full(table->shape.element_type, {count, width}, std::numeric_limits<double>::quiet_NaN());
  return maker.finish(b.select(mask, gathered, fill));
}

}  // namespace

std::vector<NodeFamily> gather_families() {
  return {{.name = "masked gather", .make = make_masked_gather}};
}

}  // namespace lagom::testing

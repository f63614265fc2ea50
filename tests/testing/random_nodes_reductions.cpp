#include <cmath>
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

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

RandomNode make_reduction(Choices& choices) {
  NodeMaker maker(choices);
  const int64_t rank = choices.integer(1, 4);
  Dims dims, reduced;
  for (int64_t d = 0; d < rank; ++d) {
    dims.push_back(choices.rarely(60) ? 0 : choices.integer(1, 6));
    if (choices.flip()) reduced.push_back(d);
  }
  const ElementType type = maker.float_type();
  const bool sums = !choices.rarely(6);
  Builder& b = maker.builder;
  auto node = std::make_unique<Instruction>();
  node->opcode = Opcode::kReduce;
  Instruction* const x = maker.parameter(type, dims);
  // Not a constant, but the value that changes nothing all the same: XLA may use it any number of
  // times.
  Instruction* const init =
      choices.rarely(3) ? maker.parameter(type, {}, hlo::Values{0}, "init") : b.constant(type, 0);
  node->operands = {x, init};
  node->attributes.dimensions = reduced;
  node->called = {b.scalar_computation(sums ? Opcode::kAdd : Opcode::kMaximum, type)};
  return maker.finish(b.add_instruction(std::move(node)));
}

// How a comparator of (value, index) pairs is written.
enum class Style {
  kSelects,      // value a when better or NaN; index a when so, or when equal and in front
  kNegated,      // value b unless a is better or NaN; with the sides of comparisons swapped
  kIgnoresNaN,   // a NaN never wins: another operation
  kLastOfEqual,  // of equals the one behind: another operation
};

hlo::Computation* make_comparator(NodeMaker& maker, Style style, bool largest, ElementType type,
                                  ElementType index_type) {
  auto made = std::make_unique<hlo::Computation>(maker.names.fresh("comparator"));
  Builder b(maker.result.module, *made, maker.names);
  Instruction* const value_a = b.parameter(0, Shape::scalar(type));
  Instruction* const index_a = b.parameter(1, Shape::scalar(index_type));
  Instruction* const value_b = b.parameter(2, Shape::scalar(type));
  Instruction* const index_b = b.parameter(3, Shape::scalar(index_type));
  const bool negated = style == Style::kNegated;
  Instruction* better = negated ? b.compare(value_b, value_a, largest ? "LT" : "GT")
                                : b.compare(value_a, value_b, largest ? "GT" : "LT");
  if (hlo::is_floating(type) && style != Style::kIgnoresNaN) {
    better = b.binary(Opcode::kOr, better, b.compare(value_a, value_a, "NE"));
  }
  Instruction* const in_front =
      b.compare(index_a, index_b, style == Style::kLastOfEqual ? "GT" : "LT");
  Instruction* const tie = b.binary(Opcode::kAnd, b.compare(value_a, value_b, "EQ"), in_front);
  Instruction* const first = b.binary(Opcode::kOr, better, tie);
  if (negated) {
    Instruction* const value = b.select(b.unary(Opcode::kNot, better), value_b, value_a);
    made->set_root(b.tuple({value, b.select(b.unary(Opcode::kNot, first), index_b, index_a)}));
  } else {
    made->set_root(
        b.tuple({b.select(better, value_a, value_b), b.select(first, index_a, index_b)}));
  }
  return maker.result.module.add_computation_before(maker.result.entry, std::move(made));
}

// What every value beats.
double weakest(ElementType type, bool largest) {
  if (hlo::is_floating(type)) return largest ? -kInfinity : kInfinity;
  if (type == ElementType::kPred) return largest ? 0 : 1;
  if (type == ElementType::kU8) return largest ? 0 : 255;
  return largest ? -2147483648.0 : 2147483647.0;
}

hlo::Values draw_values(Choices& choices, ElementType type, int64_t count) {
  std::mt19937 generator(static_cast<uint32_t>(choices.integer(0, 1 << 20)));
  const bool is_signed = type != ElementType::kPred && type != ElementType::kU8;
  std::uniform_int_distribution<int> whole(is_signed ? -2 : 0, type == ElementType::kPred ? 1 : 3);
  hlo::Values values;
  for (int64_t i = 0; i < count; ++i) values.push_back(whole(generator));
  if (!hlo::is_floating(type)) return values;
  const int64_t special = choices.integer(0, 3);  // None, some infinities, only these, some NaNs.
  for (double& value : values) {
    const bool hit = special == 2 || whole(generator) == 0;
    if (special == 3 && hit) value = kNaN;
    if ((special == 1 || special == 2) && hit) value = value > 0 ? kInfinity : -kInfinity;
  }
  return values;
}

RandomNode make_arg_reduction(Choices& choices) {
  static const std::vector<ElementType> kTypes = {ElementType::kF32,  ElementType::kF32,
                                                  ElementType::kS32,  ElementType::kBF16,
                                                  ElementType::kPred, ElementType::kU8};
  static const std::vector<Style> kStyles = {Style::kSelects,    Style::kSelects,
                                             Style::kNegated,    Style::kNegated,
                                             Style::kIgnoresNaN, Style::kLastOfEqual};
  NodeMaker maker(choices);
  Builder& b = maker.builder;
  const int64_t rank = choices.integer(1, 3);
  Dims dims;
  int64_t count = 1;
  for (int64_t d = 0; d < rank; ++d) {
    dims.push_back(choices.rarely(60) ? 0 : choices.integer(1, 7));
    count *= dims.back();
  }
  const int64_t dimension = choices.integer(0, rank - 1);
  const ElementType type = choices.element(kTypes);
  const ElementType index_type = choices.rarely(4) ? ElementType::kU32 : ElementType::kS32;
  const bool largest = choices.flip();

  Instruction* const x = maker.parameter(type, dims, draw_values(choices, type, count));
  const Shape shape = Shape::array(index_type, dims, hlo::row_major(rank));
  Instruction* indices;
  if (choices.flip()) {
    indices = b.iota(shape, dimension);
  } else {
    const Shape line = Shape::array(index_type, {dims[static_cast<size_t>(dimension)]}, {0});
    indices = b.broadcast(b.iota(line, 0), dims, {dimension});
  }
  auto node = std::make_unique<Instruction>();
  node->opcode = Opcode::kReduce;
  node->operands = {x, indices, b.constant(type, weakest(type, largest)),
                    b.constant(index_type, 0)};
  node->attributes.dimensions = {dimension};
  node->called = {make_comparator(maker, choices.element(kStyles), largest, type, index_type)};
  return maker.finish(b.add_instruction(std::move(node)));
}

}  // namespace

std::vector<NodeFamily> reduction_families() {
  return {{.name = "reduction", .make = make_reduction},
          {.name = "arg reduction", .make = make_arg_reduction}};
}

}  // namespace lagom::testing

#include <limits>

#include "lagom/hlo/shape_inference.h"
#include "tests/testing/random_nodes.h"

namespace lagom::testing {
namespace {

using hlo::Dims;
using hlo::ElementType;
using hlo::Instruction;
using hlo::Opcode;

struct WindowCase {
  Dims input, output;
  hlo::Window window;
};

// 0 first, so that shrinking takes the padding away; -1 cuts an element off.
int64_t draw_pad(Choices& choices, int64_t largest) {
  const int64_t pad = choices.integer(0, largest + 1);
  return pad > largest ? -1 : pad;
}

WindowCase draw_window(Choices& choices, bool dilated) {
  const int64_t rank = choices.integer(1, 4);
  while (true) {
    WindowCase result;
    for (int64_t d = 0; d < rank; ++d) {
      hlo::WindowDim dim;
      dim.size = choices.integer(1, 3);
      dim.stride = choices.integer(1, 3);
      dim.pad_low = draw_pad(choices, dilated ? 3 : dim.size - 1);
      dim.pad_high = draw_pad(choices, dilated ? 3 : dim.size - 1);
      if (dilated) dim.window_dilation = choices.integer(1, 2);
      if (dilated) dim.base_dilation = choices.integer(1, 2);
      result.input.push_back(choices.integer(1, 6));
      result.window.push_back(dim);
      result.output.push_back(hlo::window_output_size(result.input.back(), dim));
    }
    // Rules leave empty arrays alone: that is tried too, but seldom.
    if (hlo::checked_product(result.output) != 0 || choices.rarely(60)) return result;
  }
}

RandomNode make_pool(Choices& choices) {
  struct Reducer {
    Opcode opcode;
    double init;
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static const std::vector<Reducer> kReducers = {
      {Opcode::kMaximum, -kInfinity}, {Opcode::kMinimum, kInfinity}, {Opcode::kAdd, 0}};
  NodeMaker maker(choices);
  const WindowCase drawn = draw_window(choices, /*dilated=*/true);
  const Reducer& reducer = choices.element(kReducers);
  const ElementType type = maker.float_type();
  Instruction* const x = maker.parameter(type, drawn.input);
  Instruction* const pool =
      maker.builder.reduce_window(x, maker.builder.constant(type, reducer.init), drawn.window,
                                  maker.builder.scalar_computation(reducer.opcode, type));
  maker.maybe_odd_layout(pool);
  return maker.finish(pool);
}

RandomNode make_pool_gradient(Choices& choices) {
  NodeMaker maker(choices);
  const WindowCase drawn = draw_window(choices, /*dilated=*/false);
  const ElementType type = maker.float_type();
  auto select = std::make_unique<hlo::Computation>("select");
  hlo::Builder inner(maker.result.module, *select, maker.names);
  Instruction* const a = inner.parameter(0, hlo::Shape::scalar(type), "a");
  Instruction* const b = inner.parameter(1, hlo::Shape::scalar(type), "b");
  select->set_root(inner.compare(a, b, "GE"));

  auto gradient = std::make_unique<Instruction>();
  gradient->opcode = Opcode::kSelectAndScatter;
  // Small whole numbers make windows of equal elements. The evaluator and the forms pick the first
  // of them, as XLA's CPU backend mostly does: but not where a window as long as its dimension is
  // padded on one side, which it takes for a running maximum.
  const bool has_ties = choices.flip();
  maker.result.xla_may_differ = has_ties || type != ElementType::kF32;
  gradient->operands = {has_ties ? maker.whole_parameter(type, drawn.input, -3, 3)
                                 : maker.parameter(type, drawn.input),
                        maker.parameter(type, drawn.output), maker.builder.constant(type, 0)};
  gradient->attributes.window = drawn.window;
  gradient->called = {
      maker.result.module.add_computation_before(maker.result.entry, std::move(select)),
      maker.builder.scalar_computation(Opcode::kAdd, type)};
  Instruction* const node = maker.builder.add_instruction(std::move(gradient));
  maker.maybe_odd_layout(node);
  return maker.finish(node);
}

}  // namespace

std::vector<NodeFamily> pooling_families() {
  return {{.name = "pool", .make = make_pool},
          {.name = "max pool gradient", .make = make_pool_gradient}};
}

}  // namespace lagom::testing

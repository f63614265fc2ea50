#include <algorithm>

#include "tests/testing/random_nodes.h"

namespace lagom::testing {
namespace {

using hlo::Dims;
using hlo::ElementType;
using hlo::Instruction;

// One side of a dot: its dimensions and which of them are batched and contracted.
struct Side {
  Dims dims, batch, contracting;
};

Dims draw_sizes(Choices& choices, int64_t count, int64_t largest) {
  Dims sizes;
  for (int64_t i = 0; i < count; ++i) sizes.push_back(choices.integer(1, largest));
  return sizes;
}

// Puts the three kinds of dimensions in any order.
Side arrange(NodeMaker& maker, const Dims& batch, const Dims& free, const Dims& contracting) {
  const auto rank = static_cast<int64_t>(batch.size() + free.size() + contracting.size());
  const Dims places = maker.permutation(rank);
  Side side;
  side.dims.resize(static_cast<size_t>(rank));
  size_t next = 0;
  const auto put = [&](const Dims& sizes, Dims* chosen) {
    for (int64_t size : sizes) {
      const int64_t place = places[next++];
      side.dims[static_cast<size_t>(place)] = size;
      if (chosen != nullptr) chosen->push_back(place);
    }
  };
  put(batch, &side.batch);
  put(contracting, &side.contracting);
  put(free, nullptr);
  return side;
}

hlo::DotDims dot_dims(const Side& lhs, const Side& rhs) {
  hlo::DotDims dims;
  dims.lhs_batch = lhs.batch;
  dims.rhs_batch = rhs.batch;
  dims.lhs_contracting = lhs.contracting;
  dims.rhs_contracting = rhs.contracting;
  return dims;
}

RandomNode make_dot(Choices& choices) {
  NodeMaker maker(choices);
  Dims batch = draw_sizes(choices, choices.integer(0, 2), 3);
  if (!batch.empty() && choices.rarely(40)) batch[0] = 0;
  const Dims contracting = draw_sizes(choices, choices.integer(0, 2), 4);
  const Side lhs =
      arrange(maker, batch, draw_sizes(choices, choices.integer(0, 2), 5), contracting);
  const Side rhs =
      arrange(maker, batch, draw_sizes(choices, choices.integer(0, 2), 5), contracting);
  const ElementType type = maker.float_type();
  // Narrow operands may give a wider result.
  const ElementType result = choices.rarely(4) ? ElementType::kF32 : type;
  Instruction* const left = maker.parameter(type, lhs.dims, "lhs");
  Instruction* const right = maker.parameter(type, rhs.dims, "rhs");
  return maker.finish(maker.builder.dot(left, right, dot_dims(lhs, rhs), result));
}

// A few rows against a matrix with the contracted dimension anywhere.
RandomNode make_matrix_product(Choices& choices) {
  NodeMaker maker(choices);
  const Dims depth = draw_sizes(choices, 1, 12);
  const Side lhs = arrange(maker, {}, draw_sizes(choices, 1, 20), depth);
  const Side rhs = arrange(maker, {}, draw_sizes(choices, 1, 20), depth);
  const ElementType type = maker.float_type();
  Instruction* const left = maker.parameter(type, lhs.dims, "lhs");
  Instruction* const right = maker.parameter(type, rhs.dims, "rhs");
  return maker.finish(maker.builder.dot(left, right, dot_dims(lhs, rhs)));
}

// Dots that share a side, between others that do not.
RandomNode make_sibling_dots(Choices& choices) {
  NodeMaker maker(choices);
  const bool share_lhs = choices.flip();
  const Dims batch = draw_sizes(choices, choices.integer(0, 1), 2);
  const Dims contracting = draw_sizes(choices, choices.integer(1, 2), 4);
  const Side shared_side =
      arrange(maker, batch, draw_sizes(choices, choices.integer(0, 2), 4), contracting);
  Dims free = draw_sizes(choices, choices.integer(1, 2), 4);
  Side own_side = arrange(maker, batch, free, contracting);
  // The first dimension that is neither batched nor contracted is where siblings may differ.
  size_t merged = 0;
  const auto holds = [](const Dims& dims, size_t d) {
    return std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
  };
  while (holds(own_side.batch, merged) || holds(own_side.contracting, merged)) ++merged;

  const ElementType type = maker.float_type();
  Instruction* const shared = maker.parameter(type, shared_side.dims, "shared");
  Instruction* const other = maker.parameter(type, shared_side.dims, "other");
  std::vector<Instruction*> weights, dots;
  const int64_t count = choices.integer(2, 4);
  for (int64_t i = 0; i < count; ++i) {
    own_side.dims[merged] = choices.integer(1, 4);
    weights.push_back(maker.parameter(type, own_side.dims, "weights"));
  }
  const hlo::DotDims dims =
      share_lhs ? dot_dims(shared_side, own_side) : dot_dims(own_side, shared_side);
  for (int64_t i = 0; i < count; ++i) {
    Instruction* const input = i > 0 && choices.rarely(4) ? other : shared;
    Instruction* const own = weights[static_cast<size_t>(i)];
    dots.push_back(maker.builder.dot(share_lhs ? input : own, share_lhs ? own : input, dims));
  }
  maker.result.entry->set_root(maker.builder.tuple(dots));
  return maker.finish(dots[0]);
}

}  // namespace

std::vector<NodeFamily> dot_families() {
  return {{.name = "dot", .make = make_dot},
          {.name = "matrix product", .make = make_matrix_product},
          {.name = "sibling dots", .make = make_sibling_dots}};
}

}  // namespace lagom::testing

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>

#include "lagom/hlo/shape_inference.h"
#include "lagom/rewrite/convolution_view.h"
#include "lagom/rewrite/patterns.h"
#include "lagom/rewrite/rules.h"

namespace lagom::rewrite {
namespace {

using hlo::Builder;
using hlo::Dims;
using hlo::ElementType;
using hlo::Instruction;
using hlo::Opcode;
using hlo::WindowDim;

constexpr int64_t kMaxTaps = 64;

// The value that changes nothing; nullopt for other operations.
std::optional<double> identity_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAdd:
      return 0;
    case Opcode::kMaximum:
      return -std::numeric_limits<double>::infinity();
    case Opcode::kMinimum:
      return std::numeric_limits<double>::infinity();
    default:
      return std::nullopt;
  }
}

bool has_few_taps(const hlo::Window& window) {
  int64_t taps = 1;
  for (const WindowDim& dim : window) {
    if (dim.size > kMaxTaps || (taps *= dim.size) > kMaxTaps) return false;
  }
  return taps > 1;
}

std::vector<std::vector<int64_t>> window_taps(const hlo::Window& window) {
  std::vector<TapRange> ranges;
  for (const WindowDim& dim : window) ranges.push_back({.first = 0, .last = dim.size - 1});
  return tap_lists(ranges);
}

// x with the padding that the window reaches, so that every tap is a slice of it.
Instruction* pad_for_window(Builder& builder, Instruction* x, const hlo::Window& window,
                            const Dims& output, double value) {
  std::vector<hlo::PadDim> padding(window.size());
  for (size_t d = 0; d < window.size(); ++d) {
    const WindowDim& dim = window[d];
    const int64_t wanted = (output[d] - 1) * dim.stride + (dim.size - 1) * dim.window_dilation + 1;
    padding[d] = {
        .low = dim.pad_low,
        .high = wanted - dim.pad_low - hlo::dilated_size(x->shape.dimensions[d], dim.base_dilation),
        .interior = dim.base_dilation - 1};
  }
  const bool nothing = std::all_of(padding.begin(), padding.end(),
                                   [](const hlo::PadDim& pad) { return pad == hlo::PadDim{}; });
  if (nothing) return x;
  return builder.pad(x, builder.constant(x->shape.element_type, value), std::move(padding));
}

Instruction* slice_window_tap(Builder& builder, Instruction* padded, const hlo::Window& window,
                              const Dims& output, const std::vector<int64_t>& tap) {
  std::vector<hlo::SliceDim> slice(window.size());
  for (size_t d = 0; d < window.size(); ++d) {
    const int64_t start = tap[d] * window[d].window_dilation;
    slice[d] = {.start = start,
                .limit = start + (output[d] - 1) * window[d].stride + 1,
                .stride = window[d].stride};
  }
  return builder.slice(padded, std::move(slice));
}

// The operation of a window that combines one floating array from the value that changes nothing;
// nullopt for other instructions.
std::optional<Opcode> pooled_opcode(const Instruction& instruction) {
  if (instruction.opcode != Opcode::kReduceWindow || instruction.operands.size() != 2 ||
      is_sharded(instruction) || !is_static_array(instruction.shape, hlo::is_floating) ||
      !is_static_array(instruction.operand(0).shape, hlo::is_floating) ||
      instruction.operand(0).shape.element_type != instruction.shape.element_type) {
    return std::nullopt;
  }
  const Instruction* reducer = binary_root(*instruction.called[0]);
  const auto init = constant_value(instruction.operand(1));
  if (reducer == nullptr || !init || init != identity_of(reducer->opcode)) return std::nullopt;
  return reducer->opcode;
}

// The window over x as the operation over shifted slices.
Instruction* pool_by_slices(Builder& builder, Opcode opcode, Instruction* x,
                            const hlo::Window& window, const Dims& output) {
  Instruction* const padded =
      pad_for_window(builder, x, window, output, identity_of(opcode).value());
  Instruction* result = nullptr;
  for_each_combination(window_taps(window), [&](const std::vector<int64_t>& tap) {
    Instruction* const slice = slice_window_tap(builder, padded, window, output, tap);
    result = result == nullptr ? slice : builder.binary(opcode, result, slice);
  });
  return result;
}

// Sums are kept in f32; a maximum is one of the values and needs no more room.
ElementType pooled_type(Opcode opcode, ElementType type) {
  return opcode == Opcode::kAdd ? at_least_f32(type) : type;
}

class PoolSlices : public Rule {
 public:
  std::string_view name() const override { return "pool_slices"; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    return pooled_opcode(instruction) && has_few_taps(instruction.attributes.window);
  }

  bool is_promising(const Instruction&) const override { return true; }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    if (!matches(instruction)) throw std::invalid_argument("pool_slices: does not match");
    const Opcode opcode = *pooled_opcode(instruction);
    const ElementType type = instruction.shape.element_type;
    Instruction* const x = builder.convert(instruction.operands[0], pooled_type(opcode, type));
    return builder.convert(pool_by_slices(builder, opcode, x, instruction.attributes.window,
                                          instruction.shape.dimensions),
                           type);
  }
};

class PoolSeparable : public Rule {
 public:
  std::string_view name() const override { return "pool_separable"; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    if (!pooled_opcode(instruction)) return false;
    int64_t taps = 0, pooled = 0;
    for (const WindowDim& dim : instruction.attributes.window) {
      if (dim.size > kMaxTaps) return false;
      if (dim.size > 1) ++pooled;
      if (dim.size > 1) taps += dim.size;
    }
    return pooled > 1 && taps <= kMaxTaps;
  }

  bool is_promising(const Instruction&) const override { return true; }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    if (!matches(instruction)) throw std::invalid_argument("pool_separable: does not match");
    const Opcode opcode = *pooled_opcode(instruction);
    const ElementType type = instruction.shape.element_type;
    const hlo::Window& window = instruction.attributes.window;
    Instruction* x = builder.convert(instruction.operands[0], pooled_type(opcode, type));
    for (size_t d = 0; d < window.size(); ++d) {
      hlo::Window line(window.size());
      line[d] = window[d];
      Dims dims = x->shape.dimensions;
      dims[d] = instruction.shape.dimensions[d];
      x = pool_by_slices(builder, opcode, x, line, dims);
    }
    return builder.convert(x, type);
  }
};

class MaxPoolGradientSlices : public Rule {
 public:
  std::string_view name() const override { return "max_pool_gradient_slices"; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    if (instruction.opcode != Opcode::kSelectAndScatter || is_sharded(instruction) ||
        !is_static_array(instruction.shape, hlo::is_floating) ||
        !is_static_array(instruction.operand(1).shape, hlo::is_floating) ||
        instruction.operand(1).shape.element_type != instruction.shape.element_type ||
        !has_few_taps(instruction.attributes.window)) {
      return false;
    }
    for (const WindowDim& dim : instruction.attributes.window) {
      if (dim.base_dilation != 1 || dim.window_dilation != 1) return false;
    }
    const Instruction* select = binary_root(*instruction.called[0]);
    const Instruction* scatter = binary_root(*instruction.called[1]);
    return select != nullptr && select->opcode == Opcode::kCompare &&
           select->attributes.comparison_direction == "GE" && scatter != nullptr &&
           scatter->opcode == Opcode::kAdd && constant_value(instruction.operand(2)) == 0.0;
  }

  bool is_promising(const Instruction&) const override { return true; }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    if (!matches(instruction)) {
      throw std::invalid_argument("max_pool_gradient_slices: does not match");
    }
    const hlo::Window& window = instruction.attributes.window;
    const Dims& positions = instruction.operand(1).shape.dimensions;
    const ElementType type = at_least_f32(instruction.shape.element_type);
    Instruction* const padded = pad_for_window(builder, instruction.operands[0], window, positions,
                                               -std::numeric_limits<double>::infinity());
    std::vector<Instruction*> slices;
    Instruction* largest = nullptr;
    for_each_combination(window_taps(window), [&](const std::vector<int64_t>& tap) {
      slices.push_back(slice_window_tap(builder, padded, window, positions, tap));
      largest = largest == nullptr ? slices.back()
                                   : builder.binary(Opcode::kMaximum, largest, slices.back());
    });

    // Of equal elements the first takes the gradient.
    Instruction* const source = builder.convert(instruction.operands[1], type);
    Instruction* const zero = builder.full(type, positions, 0);
    Instruction* found = nullptr;
    Instruction* sum = nullptr;
    size_t next = 0;
    for_each_combination(window_taps(window), [&](const std::vector<int64_t>& tap) {
      Instruction* hit = builder.compare(slices[next++], largest, "EQ");
      if (found != nullptr) {
        Instruction* const open = builder.unary(Opcode::kNot, found);
        found = builder.binary(Opcode::kOr, found, hit);
        hit = builder.binary(Opcode::kAnd, hit, open);
      } else {
        found = hit;
      }
      Instruction* const placed =
          builder.pad_zero(builder.select(hit, source, zero), placement(instruction, tap));
      sum = sum == nullptr ? placed : builder.add(sum, placed);
    });
    return builder.convert(sum, instruction.shape.element_type);
  }

 private:
  // The tap of window position o is the element o * stride + tap - pad_low of the base.
  static std::vector<hlo::PadDim> placement(const Instruction& instruction,
                                            const std::vector<int64_t>& tap) {
    const hlo::Window& window = instruction.attributes.window;
    std::vector<hlo::PadDim> padding(window.size());
    for (size_t d = 0; d < window.size(); ++d) {
      const int64_t low = tap[d] - window[d].pad_low;
      const int64_t extent =
          hlo::dilated_size(instruction.operand(1).shape.dimensions[d], window[d].stride);
      padding[d] = {.low = low,
                    .high = instruction.shape.dimensions[d] - low - extent,
                    .interior = window[d].stride - 1};
    }
    return padding;
  }
};

}  // namespace

const Rule& pool_slices_rule() {
  static const PoolSlices kRule;
  return kRule;
}

const Rule& pool_separable_rule() {
  static const PoolSeparable kRule;
  return kRule;
}

const Rule& max_pool_gradient_slices_rule() {
  static const MaxPoolGradientSlices kRule;
  return kRule;
}

}  // namespace lagom::rewrite

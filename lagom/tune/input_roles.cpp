#include "lagom/tune/input_roles.h"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <unordered_map>

namespace lagom::tune {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Opcode;
using measure::InputRole;
using measure::InputSpec;

/// What the uses of one parameter say about it.
struct Hints {
  double fan_in = 0;  ///< Of the largest convolution or dot that it is a weight of.
  bool positive = false;
  bool data = false;                   ///< The sliding side of a convolution.
  std::optional<int64_t> index_limit;  ///< Largest index that is valid everywhere.

  void limit_index(int64_t limit) {
    index_limit = std::min(index_limit.value_or(limit), std::max<int64_t>(limit, 0));
  }
};

int64_t dimension(const hlo::Shape& shape, int64_t d) {
  return d >= 0 && d < shape.rank() ? shape.dimensions[static_cast<size_t>(d)] : 1;
}

/// Follows one value forward through the program.
class UseWalker {
 public:
  explicit UseWalker(const hlo::Module& module) {
    for (const auto& computation : module.computations()) {
      users_.emplace(computation.get(), hlo::UserIndex(*computation));
    }
  }

  Hints walk(const Computation& computation, const Instruction& value, int64_t tuple_index = -1) {
    hints_ = Hints{};
    seen_.clear();
    visit(computation, value, {.tuple_index = tuple_index});
    return hints_;
  }

 private:
  struct State {
    int64_t tuple_index = -1;  ///< The value is this element of a tuple; -1: the array itself.
    int arithmetic = 0;        ///< Element-wise operations passed: then only signs are followed.
    int depth = 0;
  };

  void visit(const Computation& computation, const Instruction& value, State state) {
    constexpr int kMaxDepth = 200;
    constexpr size_t kMaxVisits = 4000;
    if (state.depth > kMaxDepth || seen_.size() > kMaxVisits) return;
    if (!seen_.emplace(&value, state.tuple_index, state.arithmetic > 0).second) return;
    ++state.depth;
    for (const Instruction* user : users_.at(&computation).of(&value)) {
      for (size_t i = 0; i < user->operands.size(); ++i) {
        if (user->operands[i] == &value) use(computation, *user, static_cast<int64_t>(i), state);
      }
    }
  }

  void use(const Computation& computation, const Instruction& user, int64_t operand, State state) {
    if (state.tuple_index >= 0) return use_tuple(computation, user, operand, state);
    switch (user.opcode) {
      case Opcode::kTuple: {
        State inner = state;
        inner.tuple_index = operand;
        return visit(computation, user, inner);
      }
      case Opcode::kCall:
      case Opcode::kFusion:
      case Opcode::kMap:
      case Opcode::kConditional:
        return enter(user, operand, state);
      case Opcode::kReshape:
      case Opcode::kTranspose:
      case Opcode::kConvert:
      case Opcode::kCopy:
      case Opcode::kBitcast:
      case Opcode::kBroadcast:
      case Opcode::kSlice:
      case Opcode::kReverse:
      case Opcode::kConcatenate:
      case Opcode::kOptimizationBarrier:
      case Opcode::kReducePrecision:
        return visit(computation, user, state);
      case Opcode::kPad:
        if (operand == 0) visit(computation, user, state);
        return;
      case Opcode::kGather:
        return use_gather(computation, user, operand, state);
      case Opcode::kScatter:
        return use_scatter(user, operand);
      case Opcode::kDynamicSlice:
        if (operand == 0) return visit(computation, user, state);
        return hints_.limit_index(dimension(user.operand(0).shape, operand - 1) -
                                  dimension(user.shape, operand - 1));
      case Opcode::kDynamicUpdateSlice:
        if (operand < 2) return visit(computation, user, state);
        return hints_.limit_index(dimension(user.shape, operand - 2) -
                                  dimension(user.operand(1).shape, operand - 2));
      case Opcode::kConvolution:
        if (state.arithmetic > 0) return;
        return use_convolution(user, operand);
      case Opcode::kDot:
        if (state.arithmetic > 0) return;
        return use_dot(user, operand);
      case Opcode::kSqrt:
      case Opcode::kRsqrt:
      case Opcode::kLog:
      case Opcode::kCbrt:
        hints_.positive = true;
        return;
      case Opcode::kPower:
        if (operand == 0) hints_.positive = true;
        return;
      case Opcode::kDivide:
        if (operand == 1) {
          hints_.positive = true;
          return;
        }
        return arithmetic(computation, user, state);
      case Opcode::kBatchNormInference:
      case Opcode::kBatchNormGrad:
      case Opcode::kBatchNormTraining:
        if (operand == 1 || operand == 4) hints_.positive = true;
        return;
      case Opcode::kCompare:
        return use_compare(user, operand);
      case Opcode::kMultiply:
        if (user.operands[0] == user.operands[1]) return;  // a square has no sign
        return arithmetic(computation, user, state);
      case Opcode::kAdd:
      case Opcode::kMaximum:
      case Opcode::kMinimum:
      case Opcode::kSelect:
      case Opcode::kClamp:
      case Opcode::kSubtract:
        return arithmetic(computation, user, state);
      default:
        return;
    }
  }

  /// Beyond arithmetic the value is another one: only where its sign matters is still followed.
  void arithmetic(const Computation& computation, const Instruction& user, State state) {
    constexpr int kMaxArithmetic = 8;
    if (++state.arithmetic <= kMaxArithmetic) visit(computation, user, state);
  }

  /// The value is an operand of a call: follow the callee's parameter.
  void enter(const Instruction& user, int64_t operand, State state) {
    if (user.opcode == Opcode::kConditional) {
      const size_t branch = static_cast<size_t>(operand) - 1;  // operand 0 is the predicate
      if (operand > 0 && branch < user.called.size()) {
        enter_computation(*user.called[branch], 0, state);
      }
      return;
    }
    if (!user.called.empty()) enter_computation(*user.called[0], operand, state);
  }

  void enter_computation(const Computation& callee, int64_t number, State state) {
    for (const auto& i : callee.instructions()) {
      if (i->opcode == Opcode::kParameter && i->attributes.parameter_number == number) {
        return visit(callee, *i, state);
      }
    }
  }

  void use_tuple(const Computation& computation, const Instruction& user, int64_t operand,
                 State state) {
    switch (user.opcode) {
      case Opcode::kGetTupleElement:
        if (user.attributes.tuple_index == state.tuple_index) {
          State inner = state;
          inner.tuple_index = -1;
          visit(computation, user, inner);
        }
        return;
      case Opcode::kWhile:
        for (const Computation* callee : user.called) enter_computation(*callee, 0, state);
        return;
      case Opcode::kOptimizationBarrier:
        return visit(computation, user, state);
      case Opcode::kCall:
      case Opcode::kFusion:
      case Opcode::kConditional:
        return enter(user, operand, state);
      default:
        return;
    }
  }

  void use_gather(const Computation& computation, const Instruction& user, int64_t operand,
                  State state) {
    if (operand == 0) return visit(computation, user, state);
    const hlo::GatherDims& g = *user.attributes.gather;
    for (const int64_t d : g.start_index_map) {
      const int64_t slice = d < static_cast<int64_t>(g.slice_sizes.size())
                                ? g.slice_sizes[static_cast<size_t>(d)]
                                : 1;
      hints_.limit_index(dimension(user.operand(0).shape, d) - slice);
    }
  }

  void use_scatter(const Instruction& user, int64_t operand) {
    const auto num_inputs = (static_cast<int64_t>(user.operands.size()) - 1) / 2;
    if (operand != num_inputs) return;
    for (const int64_t d : user.attributes.scatter->scatter_dims_to_operand_dims) {
      hints_.limit_index(dimension(user.operand(0).shape, d) - 1);
    }
  }

  void use_convolution(const Instruction& user, int64_t operand) {
    if (operand == 0) {
      hints_.data = true;
      return;
    }
    const hlo::Shape& kernel = user.operand(1).shape;
    double fan_in =
        static_cast<double>(dimension(kernel, user.attributes.convolution->kernel_input_feature));
    for (const hlo::WindowDim& w : user.attributes.window) fan_in *= static_cast<double>(w.size);
    hints_.fan_in = std::max(hints_.fan_in, fan_in);
  }

  void use_dot(const Instruction& user, int64_t operand) {
    if (operand > 1) return;
    const hlo::DotDims& d = *user.attributes.dot;
    const hlo::Dims& contracting = operand == 0 ? d.lhs_contracting : d.rhs_contracting;
    double fan_in = 1;
    for (const int64_t c : contracting) {
      fan_in *= static_cast<double>(dimension(user.operand(static_cast<size_t>(operand)).shape, c));
    }
    hints_.fan_in = std::max(hints_.fan_in, fan_in);
  }

  /// A comparison with an iota makes a one-hot: labels up to its length are valid.
  void use_compare(const Instruction& user, int64_t operand) {
    const Instruction* other = user.operands[static_cast<size_t>(1 - operand)];
    while (other->opcode == Opcode::kBroadcast || other->opcode == Opcode::kReshape ||
           other->opcode == Opcode::kConvert) {
      other = other->operands[0];
    }
    if (other->opcode == Opcode::kIota && user.attributes.comparison_direction == "EQ" &&
        !other->attributes.dimensions.empty()) {
      hints_.limit_index(dimension(other->shape, other->attributes.dimensions[0]) - 1);
    }
  }

  std::unordered_map<const Computation*, hlo::UserIndex> users_;
  std::set<std::tuple<const Instruction*, int64_t, bool>> seen_;
  Hints hints_;
};

/// One non-unit dimension at most: a vector however it is written, [1,1,1,C] included.
bool is_vector_like(const hlo::Shape& shape) {
  return std::count_if(shape.dimensions.begin(), shape.dimensions.end(),
                       [](int64_t d) { return d != 1; }) <= 1;
}

InputSpec make_spec(const hlo::Shape& shape, const Hints& hints) {
  if (!shape.is_array() || shape.is_dynamic()) {
    throw std::invalid_argument("a parameter has shape " + shape.to_string() +
                                "; inputs can only be made for static arrays");
  }
  InputSpec spec;
  spec.element_type = shape.element_type;
  spec.dimensions = shape.dimensions;
  if (shape.element_type == hlo::ElementType::kPred) {
    spec.role = InputRole::kPred;
  } else if (hlo::is_integer(shape.element_type)) {
    spec.role = InputRole::kIndex;
    spec.int_low = hints.index_limit ? 0 : 1;
    spec.int_high = hints.index_limit.value_or(1);
  } else if (hints.positive) {
    spec.role = InputRole::kPositive;
  } else if (hints.fan_in > 0 && !hints.data) {
    spec.role = InputRole::kWeight;
    spec.fan_in = hints.fan_in;
  } else if (is_vector_like(shape) && !hints.data) {
    spec.role = InputRole::kPositive;
  }
  return spec;
}

}  // namespace

bool has_tuple_argument(const hlo::Module& module) {
  const auto parameters = module.entry()->parameters();
  return parameters.size() == 1 && parameters[0] != nullptr && parameters[0]->shape.is_tuple();
}

std::vector<InputSpec> input_specs(const hlo::Module& module) {
  const Computation& entry = *module.entry();
  UseWalker walker(module);
  std::vector<InputSpec> specs;
  if (has_tuple_argument(module)) {
    const Instruction& tuple = *entry.parameters()[0];
    for (size_t i = 0; i < tuple.shape.tuple_shapes.size(); ++i) {
      specs.push_back(make_spec(tuple.shape.tuple_shapes[i],
                                walker.walk(entry, tuple, static_cast<int64_t>(i))));
    }
    return specs;
  }
  for (const Instruction* parameter : entry.parameters()) {
    specs.push_back(make_spec(parameter->shape, walker.walk(entry, *parameter)));
  }
  return specs;
}

std::vector<std::vector<InputSpec>> input_variants(const std::vector<InputSpec>& specs) {
  std::vector<std::vector<InputSpec>> variants{specs};
  const auto variant = [&](auto&& change) {
    std::vector<InputSpec> changed = specs;
    for (InputSpec& spec : changed) change(spec);
    if (std::find(variants.begin(), variants.end(), changed) == variants.end()) {
      variants.push_back(std::move(changed));
    }
  };
  variant([](InputSpec& spec) {
    if (spec.role == InputRole::kWeight) spec.scale = 0.5;
  });
  variant([](InputSpec& spec) {
    if (spec.role == InputRole::kWeight) spec.scale = 0.5;
    if (spec.role == InputRole::kActivation) spec.scale = 0.1;
  });
  variant([](InputSpec& spec) {
    if (spec.role == InputRole::kIndex) spec.role = InputRole::kZeros;
  });
  variant([](InputSpec& spec) {
    if (spec.role == InputRole::kActivation) spec.role = InputRole::kPositive;
  });
  return variants;
}

}  // namespace lagom::tune

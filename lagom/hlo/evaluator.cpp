#include "lagom/hlo/evaluator.h"

#include <algorithm>
#include <cmath>

#include "lagom/hlo/evaluator_detail.h"
#include "lagom/hlo/shape_inference.h"

namespace lagom::hlo {

Value::Value(Values numbers) : numbers_(std::make_shared<const Values>(std::move(numbers))) {}
Value::Value(std::initializer_list<double> numbers) : Value(Values(numbers)) {}

Value Value::tuple(std::vector<Value> elements) {
  Value value;
  value.elements_ = std::move(elements);
  return value;
}

const Values& Value::numbers() const& {
  if (is_tuple()) throw std::invalid_argument("Value: a tuple has no numbers of its own");
  return *numbers_;
}

namespace evaluation {

void fail(const Instruction& instruction, const std::string& what) {
  throw std::invalid_argument("evaluate: '" + instruction.name + "' (" +
                              std::string(opcode_name(instruction.opcode)) + "): " + what);
}

namespace {

constexpr int kMaxDepth = 200;

// Numbers of an array: complex ones have two each.
int64_t num_numbers(const Shape& shape) {
  return shape.num_elements() * (is_complex(shape.element_type) ? 2 : 1);
}

bool fits(const Value& value, const Shape& shape) {
  if (shape.is_tuple()) {
    return value.is_tuple() && value.elements().size() == shape.tuple_shapes.size() &&
           std::equal(value.elements().begin(), value.elements().end(), shape.tuple_shapes.begin(),
                      fits);
  }
  return !value.is_tuple() && static_cast<int64_t>(value.numbers().size()) == num_numbers(shape);
}

bool is_known_shape(const Shape& shape) {
  if (shape.is_tuple()) {
    return std::all_of(shape.tuple_shapes.begin(), shape.tuple_shapes.end(), is_known_shape);
  }
  return shape.is_array() && !shape.is_dynamic() && shape.dimensions.size() <= kMaxRank;
}

// Operations that know complex arrays: they pass them on, or are about them.
bool takes_complex(Opcode opcode) {
  switch (opcode) {
    case Opcode::kParameter:
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kCall:
    case Opcode::kFusion:
    case Opcode::kWhile:
    case Opcode::kConditional:
    case Opcode::kCopy:
    case Opcode::kReshape:
    case Opcode::kOptimizationBarrier:
    case Opcode::kComplex:
    case Opcode::kReal:
    case Opcode::kImag:
    case Opcode::kFft:
      return true;
    default:
      return false;
  }
}

void check(const Instruction& i) {
  if (!is_known_shape(i.shape)) fail(i, "no evaluation of values of shape " + i.shape.to_string());
  bool has_complex = is_complex(i.shape.element_type);
  for (const Instruction* operand : i.operands) {
    has_complex |= is_complex(operand->shape.element_type);
  }
  if (has_complex && !takes_complex(i.opcode)) fail(i, "no evaluation of complex numbers here");
  Shape inferred;
  try {
    inferred = infer_shape(i);
  } catch (const std::invalid_argument& e) {
    fail(i, e.what());
  }
  if (!same_dimensions(inferred, i.shape)) {
    fail(i, "has shape " + i.shape.to_string(false) + ", expected " + inferred.to_string(false));
  }
}

}  // namespace

Plan Context::make_plan(const Instruction& root) {
  Plan plan;
  std::unordered_map<const Instruction*, size_t> step_of;
  // Operands first, without recursion: programs are thousands of instructions deep.
  std::vector<std::pair<const Instruction*, size_t>> stack = {{&root, 0}};
  while (!stack.empty()) {
    auto& [instruction, next] = stack.back();
    if (next == 0 && step_of.contains(instruction)) {
      stack.pop_back();
    } else if (next < instruction->operands.size()) {
      stack.emplace_back(instruction->operands[next++], 0);
    } else {
      check(*instruction);
      Plan::Step step{.instruction = instruction, .operands = {}, .last_uses = {}};
      for (const Instruction* operand : instruction->operands) {
        step.operands.push_back(step_of.at(operand));
      }
      step_of.emplace(instruction, plan.steps.size());
      plan.steps.push_back(std::move(step));
      stack.pop_back();
    }
  }
  std::vector<bool> is_read_later(plan.steps.size(), false);
  for (size_t s = plan.steps.size(); s-- > 0;) {
    for (size_t operand : plan.steps[s].operands) {
      if (!is_read_later[operand]) plan.steps[s].last_uses.push_back(operand);
      is_read_later[operand] = true;
    }
  }
  return plan;
}

Value Context::run(const Computation& computation, std::span<const Value> arguments) {
  std::unique_ptr<Plan>& plan = plans_[&computation];
  if (!plan) plan = std::make_unique<Plan>(make_plan(*computation.root()));
  return run(*plan, arguments);
}

Value Context::run(const Plan& plan, std::span<const Value> arguments) {
  if (depth_ > kMaxDepth) throw std::invalid_argument("evaluate: calls are nested too deeply");
  ++depth_;
  std::vector<Value> values(plan.steps.size());
  std::vector<Value> operands;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Plan::Step& step = plan.steps[s];
    operands.clear();
    for (size_t operand : step.operands) operands.push_back(values[operand]);
    for (size_t operand : step.last_uses) values[operand] = {};
    values[s] = compute(*step.instruction, operands, arguments);
  }
  --depth_;
  return std::move(values.back());
}

void Context::charge(const Instruction& instruction, double work) {
  work_ += work;
  if (work_ > options_.max_work) {
    throw EvaluatorLimitError(
        "evaluate: '" + instruction.name + "' (" + std::string(opcode_name(instruction.opcode)) +
        "): more work than the limit of " + std::to_string(options_.max_work) + " steps");
  }
}

Values Context::allocate(const Instruction& instruction, const Shape& shape) {
  const int64_t n = shape.num_elements();
  if (n > options_.max_elements) {
    throw EvaluatorLimitError("evaluate: '" + instruction.name + "': an array of " +
                              std::to_string(n) + " elements passes the limit of " +
                              std::to_string(options_.max_elements));
  }
  charge(instruction, static_cast<double>(n) + 1);
  return Values(static_cast<size_t>(n));
}

namespace {

Value constant_value(Context& context, const Instruction& i, const Literal& literal) {
  if (literal.shape.is_tuple()) {
    std::vector<Value> elements;
    for (const Literal& element : literal.elements) {
      elements.push_back(constant_value(context, i, element));
    }
    return Value::tuple(std::move(elements));
  }
  if (literal.elided) fail(i, "its values were left out of the text");
  context.charge(i, static_cast<double>(literal.shape.num_elements()));
  return literal.row_major_values();
}

Value while_loop(Context& context, const Instruction& i, Value state) {
  while (true) {
    context.charge(i, 1);
    if (context.run(*i.called[1], std::span(&state, 1)).numbers().at(0) == 0) return state;
    state = context.run(*i.called[0], std::span(&state, 1));
  }
}

Value conditional(Context& context, const Instruction& i, Operands operands) {
  const double selector = operands[0].numbers().at(0);
  const auto last = static_cast<double>(i.called.size() - 1);
  double branch = selector;
  if (i.operand(0).shape.element_type == ElementType::kPred) {
    branch = selector != 0 ? 0 : 1;
  } else if (!(selector >= 0 && selector <= last)) {
    branch = last;
  }
  const auto b = static_cast<size_t>(branch);
  return context.run(*i.called.at(b), operands.subspan(b + 1, 1));
}

}  // namespace

Value Context::compute(const Instruction& i, std::span<const Value> operands,
                       std::span<const Value> arguments) {
  switch (i.opcode) {
    case Opcode::kParameter: {
      const auto number = static_cast<size_t>(i.attributes.parameter_number);
      if (number >= arguments.size()) {
        fail(i, "there are only " + std::to_string(arguments.size()) + " arguments");
      }
      if (!fits(arguments[number], i.shape)) {
        fail(i, "the argument does not fit shape " + i.shape.to_string(false));
      }
      return arguments[number];
    }
    case Opcode::kConstant:
      return constant_value(*this, i, *i.literal);
    case Opcode::kTuple:
      return Value::tuple({operands.begin(), operands.end()});
    case Opcode::kGetTupleElement:
      return operands[0].elements().at(static_cast<size_t>(i.attributes.tuple_index));
    case Opcode::kBitcast:
      if (i.shape.element_type != i.operand(0).shape.element_type ||
          i.shape.minor_to_major() != row_major(i.shape.rank()) ||
          i.operand(0).shape.minor_to_major() != row_major(i.operand(0).shape.rank())) {
        fail(i, "only a row-major one of the same type is known");
      }
      return operands[0];
    case Opcode::kCopy:
    case Opcode::kReshape:
    case Opcode::kOptimizationBarrier:
      return operands[0];
    case Opcode::kCustomCall:
      if (i.rare().custom_call_target == "LayoutConstraint") return operands[0];
      fail(i, "custom call '" + i.rare().custom_call_target + "' is unknown");
    case Opcode::kGetDimensionSize:
      return {static_cast<double>(
          i.operand(0).shape.dimensions.at(static_cast<size_t>(i.attributes.dimensions.at(0))))};
    case Opcode::kCall:
    case Opcode::kFusion:
      return run(*i.called[0], operands);
    case Opcode::kWhile:
      return while_loop(*this, i, operands[0]);
    case Opcode::kConditional:
      return conditional(*this, i, operands);
    case Opcode::kMap:
      return map(*this, i, operands);
    case Opcode::kBitcastConvert:
      return bitcast_convert(*this, i, operands);
    case Opcode::kComplex:
    case Opcode::kReal:
    case Opcode::kImag:
      return complex_parts(i, operands);
    case Opcode::kFft:
      return fft(*this, i, operands);
    case Opcode::kIota:
      return iota(*this, i);
    case Opcode::kBroadcast:
      return broadcast(*this, i, operands);
    case Opcode::kTranspose:
      return transpose(*this, i, operands);
    case Opcode::kSlice:
      return slice(*this, i, operands);
    case Opcode::kReverse:
      return reverse(*this, i, operands);
    case Opcode::kPad:
      return pad(*this, i, operands);
    case Opcode::kConcatenate:
      return concatenate(*this, i, operands);
    case Opcode::kDynamicSlice:
      return dynamic_slice(*this, i, operands);
    case Opcode::kDynamicUpdateSlice:
      return dynamic_update_slice(*this, i, operands);
    case Opcode::kGather:
      return gather(*this, i, operands);
    case Opcode::kScatter:
      return scatter(*this, i, operands);
    case Opcode::kSort:
      return sort(*this, i, operands);
    case Opcode::kTopK:
      return top_k(*this, i, operands);
    case Opcode::kDot:
      return dot(*this, i, operands);
    case Opcode::kConvolution:
      return convolution(*this, i, operands);
    case Opcode::kReduce:
      return reduce(*this, i, operands);
    case Opcode::kReduceWindow:
      return reduce_window(*this, i, operands);
    case Opcode::kSelectAndScatter:
      return select_and_scatter(*this, i, operands);
    default:
      if (is_elementwise(i.opcode)) return elementwise(*this, i, operands);
      fail(i, "no evaluation of this operation");
  }
}

}  // namespace evaluation

Value evaluate(const Instruction& instruction, const std::vector<Value>& arguments,
               const EvaluatorOptions& options) {
  evaluation::Context context(options);
  return context.run(evaluation::Context::make_plan(instruction), arguments);
}

Value evaluate(const Computation& computation, const std::vector<Value>& arguments,
               const EvaluatorOptions& options) {
  return evaluate(*computation.root(), arguments, options);
}

}  // namespace lagom::hlo

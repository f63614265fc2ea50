#include <algorithm>
#include <cmath>

#include "lagom/hlo/evaluator_detail.h"
#include "lagom/hlo/evaluator_operations.h"

namespace lagom::hlo::evaluation {
namespace {

Value unary(Context& context, const Instruction& i, const Values& x) {
  const ElementType from = i.operand(0).shape.element_type;
  // The operand's type decides for whole numbers, but a convert makes ones of the result's.
  const NumberType type =
      NumberType::of(i.opcode == Opcode::kConvert ? i.shape.element_type : from);
  Values result = context.allocate(i);
  const bool known = visit_unary(i.opcode, from, i.shape.element_type, [&](auto function) {
    for (size_t n = 0; n < result.size(); ++n) result[n] = function(x[n], type);
  });
  if (!known) fail(i, "no evaluation of this operation");
  return result;
}

Value binary(Context& context, const Instruction& i, const Values& x, const Values& y) {
  const NumberType type = NumberType::of(i.operand(0).shape.element_type);
  Values result = context.allocate(i);
  const bool known = visit_binary_instruction(i, [&](auto function) {
    for (size_t n = 0; n < result.size(); ++n) result[n] = function(x[n], y[n], type);
  });
  if (!known) fail(i, "no evaluation of this operation");
  return result;
}

Value select(Context& context, const Instruction& i, Operands operands) {
  const Values& predicate = operands[0].numbers();
  if (i.operand(0).shape.is_scalar()) return operands[predicate[0] != 0 ? 1 : 2];
  const Values& on_true = operands[1].numbers();
  const Values& on_false = operands[2].numbers();
  Values result = context.allocate(i);
  for (size_t n = 0; n < result.size(); ++n) {
    result[n] = predicate[n] != 0 ? on_true[n] : on_false[n];
  }
  return result;
}

double clamped(double low, double x, double high) {
  return smaller(larger(x, low), high);
}

Value clamp(Context& context, const Instruction& i, Operands operands) {
  const Values& low = operands[0].numbers();
  const Values& x = operands[1].numbers();
  const Values& high = operands[2].numbers();
  const size_t low_step = i.operand(0).shape.is_scalar() ? 0 : 1;
  const size_t high_step = i.operand(2).shape.is_scalar() ? 0 : 1;
  Values result = context.allocate(i);
  for (size_t n = 0; n < result.size(); ++n) {
    result[n] = clamped(low[n * low_step], x[n], high[n * high_step]);
  }
  return result;
}

// To the nearest number with so many bits of exponent and mantissa, ties to even; small ones go to
// zero.
double reduced(double value, int64_t exponent_bits, int64_t mantissa_bits) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  const auto places = static_cast<int>(mantissa_bits) + 1;
  const double rounded =
      std::ldexp(std::nearbyint(std::ldexp(fraction, places)), exponent - places);
  const auto bias = static_cast<int>((int64_t{1} << (exponent_bits - 1)) - 1);
  if (std::fabs(rounded) >= std::ldexp(1.0, bias + 1)) return std::copysign(INFINITY, value);
  if (std::fabs(rounded) < std::ldexp(1.0, 1 - bias)) return std::copysign(0.0, value);
  return rounded;
}

Value reduce_precision(Context& context, const Instruction& i, const Values& x) {
  const RareAttributes& rare = i.rare();
  if (rare.exponent_bits < 1 || rare.exponent_bits > 11 || rare.mantissa_bits < 0 ||
      rare.mantissa_bits > 52) {
    fail(i, "so many bits of exponent and mantissa are no part of a double");
  }
  Values result = context.allocate(i);
  for (size_t n = 0; n < result.size(); ++n) {
    result[n] = reduced(x[n], rare.exponent_bits, rare.mantissa_bits);
  }
  return result;
}

}  // namespace

bool is_elementwise(Opcode opcode) {
  return is_elementwise_unary(opcode) || is_elementwise_binary(opcode) ||
         opcode == Opcode::kSelect || opcode == Opcode::kClamp;
}

Value elementwise(Context& context, const Instruction& i, Operands operands) {
  switch (i.opcode) {
    case Opcode::kSelect:
      return select(context, i, operands);
    case Opcode::kClamp:
      return clamp(context, i, operands);
    case Opcode::kReducePrecision:
      return reduce_precision(context, i, operands[0].numbers());
    default:
      break;
  }
  return operands.size() == 1 ? unary(context, i, operands[0].numbers())
                              : binary(context, i, operands[0].numbers(), operands[1].numbers());
}

Value map(Context& context, const Instruction& i, Operands operands) {
  ScalarFunction function(context, i, *i.called[0], operands.size());
  Values result = context.allocate(i);
  std::vector<double> arguments(operands.size());
  for (size_t n = 0; n < result.size(); ++n) {
    for (size_t o = 0; o < operands.size(); ++o) arguments[o] = operands[o].numbers()[n];
    result[n] = function(arguments)[0];
  }
  return result;
}

Value bitcast_convert(Context& context, const Instruction& i, Operands operands) {
  const ElementType from = i.operand(0).shape.element_type;
  const ElementType to = i.shape.element_type;
  if (element_bits(from) < 8 || element_bits(to) < 8) fail(i, "types below a byte are unknown");
  const Values& x = operands[0].numbers();
  const auto from_bytes = static_cast<size_t>(element_bytes(from));
  const auto to_bytes = static_cast<size_t>(element_bytes(to));
  Values result = context.allocate(i);
  std::string bytes(x.size() * from_bytes, '\0');
  for (size_t n = 0; n < x.size(); ++n) encode_number(from, x[n], bytes.data() + n * from_bytes);
  for (size_t n = 0; n < result.size(); ++n) {
    result[n] = decode_number(to, bytes.data() + n * to_bytes);
  }
  return result;
}

ScalarFunction::ScalarFunction(Context& context, const Instruction& caller,
                               const Computation& computation, size_t num_arguments,
                               size_t num_results)
    : context_(context), computation_(computation), num_arguments_(num_arguments) {
  const std::vector<Instruction*> parameters = computation.parameters();
  const Shape& root = computation.root()->shape;
  bool fits = parameters.size() == num_arguments &&
              (root.is_tuple() ? root.tuple_shapes.size() : 1) == num_results;
  for (const Instruction* parameter : parameters) fits &= parameter->shape.is_scalar();
  if (!fits) {
    fail(caller, "'" + computation.name() + "' does not take " + std::to_string(num_arguments) +
                     " scalars to " + std::to_string(num_results));
  }
  if (num_arguments_ > 0) element_type_ = parameters[0]->shape.element_type;
  find_binary_opcode(computation);
  flat_ = flatten(computation);
}

void ScalarFunction::find_binary_opcode(const Computation& computation) {
  const Instruction& root = *computation.root();
  if (num_arguments_ != 2 || !is_elementwise_binary(root.opcode)) return;
  for (size_t o = 0; o < 2; ++o) {
    if (root.operand(o).opcode != Opcode::kParameter ||
        root.operand(o).attributes.parameter_number != static_cast<int64_t>(o)) {
      return;
    }
  }
  binary_opcode_ = root.opcode;
  if (root.attributes.comparison_type != "TOTALORDER") {
    direction_ = root.attributes.comparison_direction;
  }
}

bool ScalarFunction::flatten(const Computation& computation) {
  slots_.assign(num_arguments_, 0);
  std::unordered_map<const Instruction*, size_t> slot_of;
  const auto add_slot = [&](const Instruction& i, double value = 0) {
    slot_of[&i] = slots_.size();
    slots_.push_back(value);
    return slots_.size() - 1;
  };
  for (const Plan::Step& planned : Context::make_plan(*computation.root()).steps) {
    const Instruction& i = *planned.instruction;
    if (i.opcode == Opcode::kTuple && &i == computation.root()) {
      for (const Instruction* element : i.operands) roots_.push_back(slot_of.at(element));
      break;
    }
    if (!i.shape.is_scalar()) return false;
    Step step;
    step.type = NumberType::of(i.opcode == Opcode::kConvert || i.operands.empty()
                                   ? i.shape.element_type
                                   : i.operand(0).shape.element_type);
    for (size_t o = 0; o < i.operands.size() && o < step.from.size(); ++o) {
      step.from[o] = slot_of.at(i.operands[o]);
    }
    if (i.opcode == Opcode::kParameter) {
      slot_of[&i] = static_cast<size_t>(i.attributes.parameter_number);
      continue;
    }
    if (i.opcode == Opcode::kConstant && !i.literal->elided) {
      add_slot(i, i.literal->value_at(0));
      continue;
    }
    bool known = true;
    if (i.opcode == Opcode::kSelect) {
      step.kind = Kind::kSelect;
    } else if (i.opcode == Opcode::kClamp) {
      step.kind = Kind::kClamp;
    } else if (is_elementwise_unary(i.opcode)) {
      step.kind = Kind::kUnary;
      known = visit_unary(i.opcode, i.operand(0).shape.element_type, i.shape.element_type,
                          [&](auto function) { step.unary = function; });
    } else if (is_elementwise_binary(i.opcode)) {
      step.kind = Kind::kBinary;
      known = visit_binary_instruction(i, [&](auto function) { step.binary = function; });
    } else {
      known = false;
    }
    if (!known) return false;
    step.to = add_slot(i);
    steps_.push_back(step);
  }
  if (roots_.empty()) roots_.push_back(slot_of.at(computation.root()));
  results_.resize(roots_.size());
  return true;
}

std::span<const double> ScalarFunction::operator()(std::span<const double> arguments) {
  if (!flat_) {
    std::vector<Value> values;
    for (double argument : arguments) values.push_back(Values{argument});
    const Value result = context_.run(computation_, values);
    results_.clear();
    if (!result.is_tuple()) results_ = result.numbers();
    for (const Value& element : result.elements()) results_.push_back(element.numbers().at(0));
    return results_;
  }
  std::copy(arguments.begin(), arguments.end(), slots_.begin());
  for (const Step& step : steps_) {
    const double a = slots_[step.from[0]];
    const double b = slots_[step.from[1]];
    switch (step.kind) {
      case Kind::kUnary:
        slots_[step.to] = step.unary(a, step.type);
        break;
      case Kind::kBinary:
        slots_[step.to] = step.binary(a, b, step.type);
        break;
      case Kind::kSelect:
        slots_[step.to] = a != 0 ? b : slots_[step.from[2]];
        break;
      case Kind::kClamp:
        slots_[step.to] = clamped(a, b, slots_[step.from[2]]);
        break;
    }
  }
  for (size_t r = 0; r < roots_.size(); ++r) results_[r] = slots_[roots_[r]];
  return results_;
}

}  // namespace lagom::hlo::evaluation

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "lagom/hlo/cost_analysis.h"

namespace lagom::hlo {
namespace {

std::optional<int64_t> known_trip_count(const std::string& backend_config) {
  if (backend_config.find("known_trip_count") == std::string::npos) return std::nullopt;
  const auto config = nlohmann::json::parse(backend_config, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object() || !config.contains("known_trip_count")) return std::nullopt;
  const auto& count = config["known_trip_count"];
  if (!count.is_object() || !count.contains("n")) return std::nullopt;
  // Protobuf's JSON form writes 64-bit integers as strings.
  if (count["n"].is_number_integer()) return count["n"].get<int64_t>();
  if (!count["n"].is_string()) return std::nullopt;
  try {
    return std::stoll(count["n"].get<std::string>());
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

const Instruction* skip_copies(const Instruction* instruction) {
  while (instruction->opcode == Opcode::kCopy || instruction->opcode == Opcode::kBitcast) {
    instruction = instruction->operands[0];
  }
  return instruction;
}

std::optional<double> scalar_constant(const Instruction* instruction) {
  instruction = skip_copies(instruction);
  if (instruction->opcode != Opcode::kConstant || !instruction->literal ||
      !instruction->shape.is_scalar() || instruction->literal->data.empty()) {
    return std::nullopt;
  }
  return instruction->literal->value_at(0);
}

// Index of the loop state's element that the instruction reads, of the computation's parameter.
std::optional<int64_t> state_element(const Instruction* instruction) {
  instruction = skip_copies(instruction);
  if (instruction->opcode != Opcode::kGetTupleElement ||
      instruction->operands[0]->opcode != Opcode::kParameter) {
    return std::nullopt;
  }
  return instruction->attributes.tuple_index;
}

// Element of a tuple made by a `tuple` instruction.
const Instruction* tuple_element(const Instruction* tuple, int64_t index) {
  if (tuple->opcode != Opcode::kTuple || index < 0 ||
      index >= static_cast<int64_t>(tuple->operands.size())) {
    return nullptr;
  }
  return tuple->operands[static_cast<size_t>(index)];
}

class CountedLoop {
 public:
  explicit CountedLoop(const Instruction& loop)
      : initial_(loop.operands[0]), body_root_(loop.called[0]->root()) {}

  std::optional<int64_t> trip_count(const Instruction* condition) const {
    if (condition->opcode != Opcode::kCompare) return std::nullopt;
    std::string direction = condition->attributes.comparison_direction;
    const Instruction* counter = condition->operands[0];
    const Instruction* bound = condition->operands[1];
    if (!state_element(counter) || !step_of(*state_element(counter))) {
      std::swap(counter, bound);
      direction = mirrored(direction);
    }
    const auto index = state_element(counter);
    if (!index) return std::nullopt;
    const auto start = initial_value(*index);
    const auto step = step_of(*index);
    const auto limit = invariant_value(bound);
    if (!start || !step || !limit) return std::nullopt;
    return count(*start, *step, *limit, direction);
  }

 private:
  static std::string mirrored(const std::string& direction) {
    if (direction == "LT") return "GT";
    if (direction == "GT") return "LT";
    if (direction == "LE") return "GE";
    if (direction == "GE") return "LE";
    return direction;
  }

  std::optional<double> initial_value(int64_t index) const {
    const Instruction* element = tuple_element(initial_, index);
    return element == nullptr ? std::nullopt : scalar_constant(element);
  }

  // What the body adds to the element in each iteration.
  std::optional<double> step_of(int64_t index) const {
    const Instruction* next = tuple_element(body_root_, index);
    if (next == nullptr) return std::nullopt;
    next = skip_copies(next);
    if (next->opcode != Opcode::kAdd && next->opcode != Opcode::kSubtract) return std::nullopt;
    const double sign = next->opcode == Opcode::kAdd ? 1 : -1;
    if (state_element(next->operands[0]) == index) {
      const auto step = scalar_constant(next->operands[1]);
      return step ? std::optional<double>(sign * *step) : std::nullopt;
    }
    if (next->opcode == Opcode::kAdd && state_element(next->operands[1]) == index) {
      return scalar_constant(next->operands[0]);
    }
    return std::nullopt;
  }

  // A constant, or an element that the body hands on as it is and that starts as a constant.
  std::optional<double> invariant_value(const Instruction* bound) const {
    if (const auto value = scalar_constant(bound)) return value;
    const auto index = state_element(bound);
    if (!index) return std::nullopt;
    const Instruction* next = tuple_element(body_root_, *index);
    if (next == nullptr || state_element(next) != index) return std::nullopt;
    return initial_value(*index);
  }

  static std::optional<int64_t> count(double start, double step, double limit,
                                      const std::string& direction) {
    if (step == 0) return std::nullopt;
    const double distance = (limit - start) / step;
    if (direction == "NE") {
      return distance >= 0 && distance == std::floor(distance)
                 ? std::optional<int64_t>(static_cast<int64_t>(distance))
                 : std::nullopt;
    }
    const bool upwards = direction == "LT" || direction == "LE";
    if (!upwards && direction != "GT" && direction != "GE") return std::nullopt;
    if (upwards != (step > 0)) return std::nullopt;
    const bool inclusive = direction == "LE" || direction == "GE";
    const double iterations = inclusive ? std::floor(distance) + 1 : std::ceil(distance);
    constexpr double kLimit = 9e15;
    if (!(iterations < kLimit)) return std::nullopt;
    return static_cast<int64_t>(std::max(iterations, 0.0));
  }

  const Instruction* initial_;
  const Instruction* body_root_;
};

}  // namespace

std::optional<int64_t> trip_count(const Instruction& loop) {
  if (loop.opcode != Opcode::kWhile || loop.called.size() != 2 || loop.operands.size() != 1) {
    return std::nullopt;
  }
  if (const auto known = known_trip_count(loop.rare().backend_config)) return known;
  return CountedLoop(loop).trip_count(loop.called[1]->root());
}

}  // namespace lagom::hlo

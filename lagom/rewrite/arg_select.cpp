#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <unordered_map>

#include "lagom/rewrite/patterns.h"
#include "lagom/rewrite/rules.h"

// The index of the largest or smallest value: a reduction of pairs (value, index) by a comparator.
namespace lagom::rewrite {
namespace {

using hlo::Builder;
using hlo::Dims;
using hlo::ElementType;
using hlo::Instruction;
using hlo::Opcode;

// ---- What a comparator computes

// A comparator's parameters are (value a, index a, value b, index b). When it is made of
// comparisons, logic and selections only, what it gives depends on how the values and the indices
// compare and on nothing else, so trying every such case is a proof.
struct Pairs {
  double value_a, index_a, value_b, index_b;
};

class Comparator {
 public:
  explicit Comparator(const Pairs& pairs)
      : parameters_{pairs.value_a, pairs.index_a, pairs.value_b, pairs.index_b} {}

  // {value, index}, or nullopt for a computation of another kind.
  std::optional<std::array<double, 2>> run(const hlo::Computation& computation) {
    for (const auto& instruction : computation.instructions()) {
      if (instruction->opcode == Opcode::kTuple && instruction.get() == computation.root()) break;
      const auto result = compute(*instruction);
      if (!result) return std::nullopt;
      terms_[instruction.get()] = *result;
    }
    const Instruction* const root = computation.root();
    if (root->opcode != Opcode::kTuple || root->operands.size() != 2) return std::nullopt;
    const Term value = terms_.at(root->operands[0]), index = terms_.at(root->operands[1]);
    if (value.kind != Kind::kValue || index.kind != Kind::kIndex) return std::nullopt;
    return std::array<double, 2>{value.number, index.number};
  }

 private:
  enum class Kind { kValue, kIndex, kLogic };
  struct Term {
    Kind kind;
    double number;
  };

  std::optional<Term> compute(const Instruction& i) const {
    switch (i.opcode) {
      case Opcode::kParameter: {
        const auto number = static_cast<size_t>(i.attributes.parameter_number);
        if (number >= parameters_.size()) return std::nullopt;
        return Term{number % 2 == 0 ? Kind::kValue : Kind::kIndex, parameters_[number]};
      }
      case Opcode::kCompare:
        return compare(i);
      case Opcode::kAnd:
      case Opcode::kOr: {
        const Term a = terms_.at(i.operands[0]), b = terms_.at(i.operands[1]);
        if (a.kind != Kind::kLogic || b.kind != Kind::kLogic) return std::nullopt;
        const bool both = i.opcode == Opcode::kAnd;
        return Term{Kind::kLogic,
                    both ? std::min(a.number, b.number) : std::max(a.number, b.number)};
      }
      case Opcode::kNot: {
        const Term a = terms_.at(i.operands[0]);
        if (a.kind != Kind::kLogic) return std::nullopt;
        return Term{Kind::kLogic, 1 - a.number};
      }
      case Opcode::kSelect: {
        const Term predicate = terms_.at(i.operands[0]);
        const Term a = terms_.at(i.operands[1]), b = terms_.at(i.operands[2]);
        if (predicate.kind != Kind::kLogic || a.kind != b.kind) return std::nullopt;
        return predicate.number != 0 ? a : b;
      }
      default:
        return std::nullopt;
    }
  }

  std::optional<Term> compare(const Instruction& i) const {
    const Term a = terms_.at(i.operands[0]), b = terms_.at(i.operands[1]);
    // A total order tells NaNs and zeros apart.
    if (a.kind != b.kind || i.attributes.comparison_type == "TOTALORDER") return std::nullopt;
    const std::string& direction = i.attributes.comparison_direction;
    bool holds = false;
    if (direction == "EQ") {
      holds = a.number == b.number;
    } else if (direction == "NE") {
      holds = a.number != b.number;
    } else if (direction == "GE") {
      holds = a.number >= b.number;
    } else if (direction == "GT") {
      holds = a.number > b.number;
    } else if (direction == "LE") {
      holds = a.number <= b.number;
    } else {
      holds = a.number < b.number;
    }
    return Term{Kind::kLogic, holds ? 1.0 : 0.0};
  }

  std::array<double, 4> parameters_;
  std::unordered_map<const Instruction*, Term> terms_;
};

bool same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

// Whether the comparator keeps the larger value (the smaller one), the first of equals, and a NaN
// rather than a number.
bool is_choice(const hlo::Computation& computation, bool largest, bool floating) {
  std::vector<double> values = {0, 1};
  if (floating) values.push_back(std::numeric_limits<double>::quiet_NaN());
  for (const double a : values) {
    for (const double b : values) {
      for (const auto& [index_a, index_b] : {std::pair{0.0, 1.0}, {1.0, 0.0}, {1.0, 1.0}}) {
        const auto got = Comparator({a, index_a, b, index_b}).run(computation);
        if (!got) return false;
        if (std::isnan(a) && std::isnan(b)) {
          // Which of two NaNs: either the first met or the one in front.
          if (!std::isnan((*got)[0]) || (*got)[1] != std::min(index_a, index_b)) {
            if (!std::isnan((*got)[0]) || (*got)[1] != index_a) return false;
          }
          continue;
        }
        const bool a_wins = std::isnan(a) || (!std::isnan(b) && (largest ? a > b : a < b));
        const double value = a_wins ? a : b;
        const double index = a == b ? std::min(index_a, index_b) : a_wins ? index_a : index_b;
        if (!same((*got)[0], value) || (*got)[1] != index) return false;
      }
    }
  }
  return true;
}

// ---- The rule

// The value that every other beats.
std::optional<double> weakest(ElementType type, bool largest) {
  if (hlo::is_floating(type)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return largest ? -infinity : infinity;
  }
  if (type == ElementType::kPred) return largest ? 0.0 : 1.0;
  // Doubles hold the limits of 32 bits, not those of 64.
  const int bits = hlo::element_bits(type);
  if (!hlo::is_integer(type) || bits > 32) return std::nullopt;
  if (hlo::is_unsigned_integer(type)) return largest ? 0.0 : std::ldexp(1.0, bits) - 1;
  return largest ? -std::ldexp(1.0, bits - 1) : std::ldexp(1.0, bits - 1) - 1;
}

bool is_value_type(ElementType type) {
  return hlo::is_floating(type) || hlo::is_integer(type) || type == ElementType::kPred;
}

// Whether every element is its own position along the dimension.
bool counts_along(const Instruction& indices, int64_t dimension) {
  const Instruction& x = indices;
  switch (x.opcode) {
    case Opcode::kIota:
      // Narrower ones wrap around.
      return x.attributes.dimensions[0] == dimension &&
             hlo::element_bits(x.shape.element_type) >= 32;
    case Opcode::kConvert:
    case Opcode::kCopy:
      return is_static_array(x.operand(0).shape, hlo::is_integer) &&
             counts_along(x.operand(0), dimension);
    case Opcode::kBroadcast: {
      const Dims& places = x.attributes.dimensions;
      for (size_t d = 0; d < places.size(); ++d) {
        if (places[d] == dimension) return counts_along(x.operand(0), static_cast<int64_t>(d));
      }
      return false;
    }
    case Opcode::kReshape: {
      // One that adds dimensions of size 1 around a vector.
      const hlo::Shape& from = x.operand(0).shape;
      return from.rank() == 1 &&
             from.dimensions[0] == x.shape.dimensions[static_cast<size_t>(dimension)] &&
             counts_along(x.operand(0), 0);
    }
    default:
      return false;
  }
}

class ArgSelect : public Rule {
 public:
  std::string_view name() const override { return "arg_select"; }
  RuleClass rule_class() const override { return RuleClass::kExact; }

  bool matches(const Instruction& instruction) const override {
    return direction_of(instruction).has_value();
  }

  bool is_promising(const Instruction&) const override { return true; }

  // How the indices are made.
  std::vector<const Instruction*> inner_nodes(const Instruction& instruction) const override {
    std::vector<const Instruction*> nodes;
    for (const Instruction* at = instruction.operands[1];; at = at->operands[0]) {
      nodes.push_back(at);
      if (at->opcode == Opcode::kIota) return nodes;
    }
  }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    const std::optional<bool> largest = direction_of(instruction);
    if (!largest) throw std::invalid_argument("arg_select: does not match");
    Instruction* const x = instruction.operands[0];
    Instruction* const indices = instruction.operands[1];
    const Dims& reduced = instruction.attributes.dimensions;
    const int64_t size = x->shape.dimensions[static_cast<size_t>(reduced[0])];
    Dims kept;
    for (int64_t d = 0; d < x->shape.rank(); ++d) {
      if (d != reduced[0]) kept.push_back(d);
    }

    Instruction* const best = reduce(builder, best_opcode(x->shape.element_type, *largest), x,
                                     instruction.operands[2], reduced);
    const auto spread = [&](Instruction* scalar) {
      return builder.broadcast_scalar(scalar, x->shape.dimensions);
    };
    Instruction* const hit =
        builder.compare(x, builder.broadcast(best, x->shape.dimensions, kept), "EQ");
    Instruction* const places = builder.convert(indices, ElementType::kS32);
    Instruction* const behind = builder.constant(ElementType::kS32, static_cast<double>(size));
    Instruction* candidates = builder.select(hit, places, spread(behind));
    if (!hlo::is_floating(x->shape.element_type)) {
      Instruction* const first = reduce(builder, Opcode::kMinimum, candidates, behind, reduced);
      return builder.tuple({best, builder.convert(first, indices->shape.element_type)});
    }
    // NaNs go in front of all numbers, by places below zero. The maximum cannot be asked for them:
    // compilers may drop NaNs from it.
    candidates =
        builder.select(builder.compare(x, x, "NE"),
                       builder.binary(Opcode::kSubtract, places, spread(behind)), candidates);
    Instruction* const first = reduce(builder, Opcode::kMinimum, candidates, behind, reduced);
    const Dims& result_dims = first->shape.dimensions;
    Instruction* const has_nan =
        builder.compare(first, builder.full(ElementType::kS32, result_dims, 0), "LT");
    Instruction* const place = builder.select(
        has_nan, builder.add(first, builder.broadcast_scalar(behind, result_dims)), first);
    Instruction* const nan =
        builder.full(x->shape.element_type, result_dims, std::numeric_limits<double>::quiet_NaN());
    return builder.tuple(
        {builder.select(has_nan, nan, best), builder.convert(place, indices->shape.element_type)});
  }

 private:
  static Opcode best_opcode(ElementType type, bool largest) {
    if (type == ElementType::kPred) return largest ? Opcode::kOr : Opcode::kAnd;
    return largest ? Opcode::kMaximum : Opcode::kMinimum;
  }

  // True for the largest, false for the smallest, nullopt for another instruction.
  static std::optional<bool> direction_of(const Instruction& i) {
    if (i.opcode != Opcode::kReduce || i.operands.size() != 4 || is_sharded(i) ||
        i.attributes.dimensions.size() != 1 ||
        !is_static_array(i.operand(0).shape, is_value_type) ||
        !is_static_array(i.operand(1).shape, hlo::is_integer) ||
        !counts_along(i.operand(1), i.attributes.dimensions[0]) ||
        constant_value(i.operand(3)) != 0.0) {
      return std::nullopt;
    }
    // Places are counted in s32.
    const ElementType type = i.operand(0).shape.element_type;
    const int index_bits = hlo::element_bits(i.operand(1).shape.element_type);
    const int64_t size =
        i.operand(0).shape.dimensions[static_cast<size_t>(i.attributes.dimensions[0])];
    if (index_bits < 32 || size >= (int64_t{1} << 31) - 1) return std::nullopt;
    for (const bool largest : {true, false}) {
      const auto init = weakest(type, largest);
      if (init && constant_value(i.operand(2)) == init &&
          is_choice(*i.called[0], largest, hlo::is_floating(type))) {
        return largest;
      }
    }
    return std::nullopt;
  }
};

}  // namespace

const Rule& arg_select_rule() {
  static const ArgSelect kRule;
  return kRule;
}

}  // namespace lagom::rewrite

#include "lagom/rewrite/value_range.h"

#include <algorithm>
#include <limits>

#include "lagom/rewrite/patterns.h"
#include "lagom/rewrite/rules.h"

namespace lagom::rewrite {

using hlo::ElementType;
using hlo::Instruction;
using hlo::Opcode;

namespace {

constexpr int64_t kMaxSteps = 5000;
constexpr int kMaxDepth = 200;
constexpr int64_t kMaxConstantElements = 1 << 16;
constexpr ValueRange kTrue{1, 1}, kFalse{0, 0}, kEither{0, 1};

std::optional<ValueRange> type_range(const Instruction& i) {
  const ElementType type = i.shape.element_type;
  if (type == ElementType::kPred) return kEither;
  const int bits = hlo::element_bits(type);
  if (hlo::is_signed_integer(type)) {
    const int64_t high = std::numeric_limits<int64_t>::max() >> (64 - bits);
    return ValueRange{-high - 1, high};
  }
  if (hlo::is_unsigned_integer(type) && bits < 64) {
    return ValueRange{0, (int64_t{1} << bits) - 1};
  }
  return std::nullopt;
}

bool holds(const ValueRange& outer, const ValueRange& inner) {
  return outer.low <= inner.low && inner.high <= outer.high;
}

ValueRange joined(const ValueRange& a, const ValueRange& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

// Add, subtract, multiply; nullopt where 64 bits do not hold the result.
std::optional<ValueRange> arithmetic(Opcode opcode, const ValueRange& a, const ValueRange& b) {
  ValueRange result;
  bool overflow = false;
  if (opcode == Opcode::kAdd) {
    overflow = __builtin_add_overflow(a.low, b.low, &result.low) ||
               __builtin_add_overflow(a.high, b.high, &result.high);
  } else if (opcode == Opcode::kSubtract) {
    overflow = __builtin_sub_overflow(a.low, b.high, &result.low) ||
               __builtin_sub_overflow(a.high, b.low, &result.high);
  } else {
    int64_t corners[4];
    overflow = __builtin_mul_overflow(a.low, b.low, &corners[0]) ||
               __builtin_mul_overflow(a.low, b.high, &corners[1]) ||
               __builtin_mul_overflow(a.high, b.low, &corners[2]) ||
               __builtin_mul_overflow(a.high, b.high, &corners[3]);
    if (!overflow) {
      const auto [low, high] = std::minmax_element(std::begin(corners), std::end(corners));
      result = {*low, *high};
    }
  }
  if (overflow) return std::nullopt;
  return result;
}

ValueRange compared(const std::string& direction, const ValueRange& a, const ValueRange& b) {
  if (direction == "LT") return a.high < b.low ? kTrue : a.low >= b.high ? kFalse : kEither;
  if (direction == "LE") return a.high <= b.low ? kTrue : a.low > b.high ? kFalse : kEither;
  if (direction == "GT") return compared("LT", b, a);
  if (direction == "GE") return compared("LE", b, a);
  const bool apart = a.high < b.low || b.high < a.low;
  const bool same = a.low == a.high && a == b;
  if (direction == "EQ") return same ? kTrue : apart ? kFalse : kEither;
  return same ? kFalse : apart ? kTrue : kEither;
}

std::optional<ValueRange> constant_range(const Instruction& i) {
  if (!i.literal || i.literal->elided || i.literal->data.empty() ||
      i.shape.num_elements() > kMaxConstantElements || !type_range(i)) {
    return std::nullopt;
  }
  const std::vector<double> values = i.literal->row_major_values();
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (*low < -kExact || *high > kExact) return std::nullopt;
  return ValueRange{static_cast<int64_t>(*low), static_cast<int64_t>(*high)};
}

}  // namespace

struct RangeAnalysis::Frame {
  const Instruction* call;
  const Frame* caller;
};

RangeAnalysis::RangeAnalysis() = default;
RangeAnalysis::~RangeAnalysis() = default;

std::optional<ValueRange> RangeAnalysis::of(const Instruction& instruction) {
  return range({&instruction, nullptr}, {});
}

// A callee's parameter is its caller's operand.
RangeAnalysis::Site RangeAnalysis::resolved(Site site) const {
  while (site.frame != nullptr && site.instruction->opcode == Opcode::kParameter) {
    const auto number = static_cast<size_t>(site.instruction->attributes.parameter_number);
    site = {site.frame->call->operands.at(number), site.frame->caller};
  }
  return site;
}

RangeAnalysis::Site RangeAnalysis::operand(Site site, size_t number) const {
  return resolved({site.instruction->operands.at(number), site.frame});
}

std::optional<ValueRange> RangeAnalysis::range(Site site, const Facts& facts) {
  if (!type_range(*site.instruction)) return std::nullopt;
  std::optional<ValueRange> result;
  const auto known = known_.find(site);
  if (facts.empty() && known != known_.end()) {
    result = known->second;
  } else if (++steps_ > kMaxSteps || depth_ > kMaxDepth) {
    result = std::nullopt;
  } else {
    ++depth_;
    result = compute(site, facts);
    --depth_;
    // Arithmetic that leaves its type wraps around.
    if (result && !holds(*type_range(*site.instruction), *result)) result.reset();
    if (facts.empty()) known_[site] = result;
    if (result && site.frame == nullptr && known == known_.end()) {
      if (std::find(used_.begin(), used_.end(), site.instruction) == used_.end()) {
        used_.push_back(site.instruction);
      }
    }
  }
  ValueRange bounds = result.value_or(*type_range(*site.instruction));
  if (const auto fact = facts.find(site); fact != facts.end()) {
    bounds.low = std::max(bounds.low, fact->second.low);
    bounds.high = std::min(bounds.high, fact->second.high);
    // No such element exists: any bounds are true of it.
    if (bounds.low > bounds.high) bounds = {fact->second.low, fact->second.low};
  }
  return bounds;
}

std::optional<ValueRange> RangeAnalysis::compute(Site site, const Facts& facts) {
  const Instruction& i = *site.instruction;
  // Facts hold element by element: they are of no use where elements change places.
  const auto moved = [&](size_t n) { return range(operand(site, n), {}); };
  const auto same = [&](size_t n) { return range(operand(site, n), facts); };
  switch (i.opcode) {
    case Opcode::kConstant:
      return constant_range(i);
    case Opcode::kIota: {
      const int64_t size = i.shape.dimensions[static_cast<size_t>(i.attributes.dimensions[0])];
      return ValueRange{0, std::max<int64_t>(size - 1, 0)};
    }
    case Opcode::kBroadcast:
    case Opcode::kReshape:
    case Opcode::kTranspose:
    case Opcode::kSlice:
    case Opcode::kReverse:
    case Opcode::kDynamicSlice:
    case Opcode::kGather:
      return moved(0);
    case Opcode::kPad: {
      const auto a = moved(0), b = moved(1);
      return a && b ? std::optional(joined(*a, *b)) : std::nullopt;
    }
    case Opcode::kConcatenate: {
      std::optional<ValueRange> all;
      for (size_t n = 0; n < i.operands.size(); ++n) {
        const auto part = moved(n);
        if (!part) return std::nullopt;
        all = all ? joined(*all, *part) : *part;
      }
      return all;
    }
    case Opcode::kCopy:
    case Opcode::kOptimizationBarrier:
    case Opcode::kConvert:
      return same(0);
    case Opcode::kAdd:
    case Opcode::kSubtract:
    case Opcode::kMultiply: {
      const auto a = same(0), b = same(1);
      if (!a || !b || i.shape.element_type == ElementType::kPred) return std::nullopt;
      return arithmetic(i.opcode, *a, *b);
    }
    case Opcode::kMaximum:
    case Opcode::kMinimum: {
      const auto a = same(0), b = same(1);
      if (!a || !b) return std::nullopt;
      if (i.opcode == Opcode::kMaximum) {
        return ValueRange{std::max(a->low, b->low), std::max(a->high, b->high)};
      }
      return ValueRange{std::min(a->low, b->low), std::min(a->high, b->high)};
    }
    case Opcode::kClamp: {
      const auto low = moved(0), x = same(1), high = moved(2);
      if (!low || !x || !high) return std::nullopt;
      return ValueRange{std::min(std::max(x->low, low->low), high->low),
                        std::min(std::max(x->high, low->high), high->high)};
    }
    case Opcode::kRemainder: {
      const auto x = same(0), divisor = same(1);
      if (!x || !divisor || divisor->low <= 0) return std::nullopt;
      const int64_t most = divisor->high - 1;
      return ValueRange{x->low >= 0 ? 0 : std::max(x->low, -most),
                        x->high <= 0 ? 0 : std::min(x->high, most)};
    }
    case Opcode::kCompare:
    case Opcode::kAnd:
    case Opcode::kOr:
    case Opcode::kNot:
      return logic_range(site, facts);
    case Opcode::kSelect:
      return select_range(site, facts);
    case Opcode::kReduce:
    case Opcode::kGetTupleElement:
      return reduce_range(site);
    case Opcode::kCall: {
      frames_.push_back(std::make_unique<Frame>(Frame{&i, site.frame}));
      return range(resolved({i.called.at(0)->root(), frames_.back().get()}), facts);
    }
    default:
      return std::nullopt;
  }
}

std::optional<ValueRange> RangeAnalysis::logic_range(Site site, const Facts& facts) {
  const Instruction& i = *site.instruction;
  const auto a = range(operand(site, 0), facts);
  if (!a) return std::nullopt;
  if (i.opcode == Opcode::kCompare) {
    const auto b = range(operand(site, 1), facts);
    if (!b) return std::nullopt;
    return compared(i.attributes.comparison_direction, *a, *b);
  }
  if (i.shape.element_type != ElementType::kPred) return std::nullopt;
  if (i.opcode == Opcode::kNot) return ValueRange{1 - a->high, 1 - a->low};
  const auto b = range(operand(site, 1), facts);
  if (!b) return std::nullopt;
  if (i.opcode == Opcode::kAnd) {
    return ValueRange{std::min(a->low, b->low), std::min(a->high, b->high)};
  }
  return ValueRange{std::max(a->low, b->low), std::max(a->high, b->high)};
}

std::optional<ValueRange> RangeAnalysis::select_range(Site site, const Facts& facts) {
  const Site predicate = operand(site, 0);
  const auto known = range(predicate, facts);
  if (known == kTrue) return range(operand(site, 1), facts);
  if (known == kFalse) return range(operand(site, 2), facts);
  Facts if_true = facts, if_false = facts;
  // A scalar predicate chooses for all elements at once and says nothing about each.
  if (predicate.instruction->shape.dimensions == site.instruction->shape.dimensions) {
    learn(predicate, true, if_true);
    learn(predicate, false, if_false);
  }
  const auto a = range(operand(site, 1), if_true), b = range(operand(site, 2), if_false);
  if (!a || !b) return std::nullopt;
  return joined(*a, *b);
}

// Adds what x < c and the like say about x.
void RangeAnalysis::learn(Site predicate, bool holds, Facts& facts) {
  const Instruction& i = *predicate.instruction;
  if (i.opcode == Opcode::kAnd && holds) {
    learn(operand(predicate, 0), true, facts);
    learn(operand(predicate, 1), true, facts);
    return;
  }
  if (i.opcode != Opcode::kCompare) return;
  const Site x = operand(predicate, 0);
  const auto whole = type_range(*x.instruction);
  const auto c = range(operand(predicate, 1), {});
  if (!whole || !c) return;
  const std::string& direction = i.attributes.comparison_direction;
  ValueRange fact = facts.contains(x) ? facts.at(x) : *whole;
  const bool less = direction == "LT" ? holds : direction == "GE" && !holds;
  const bool at_least = direction == "GE" ? holds : direction == "LT" && !holds;
  const bool at_most = direction == "LE" ? holds : direction == "GT" && !holds;
  const bool more = direction == "GT" ? holds : direction == "LE" && !holds;
  if (less && c->high > whole->low) fact.high = std::min(fact.high, c->high - 1);
  if (at_most) fact.high = std::min(fact.high, c->high);
  if (at_least) fact.low = std::max(fact.low, c->low);
  if (more && c->low < whole->high) fact.low = std::max(fact.low, c->low + 1);
  facts[x] = fact;
}

std::optional<ValueRange> RangeAnalysis::reduce_range(Site site) {
  const Instruction& i = *site.instruction;
  if (i.opcode == Opcode::kGetTupleElement) {
    const Site pairs = operand(site, 0);
    if (i.attributes.tuple_index != 1 || !arg_select_rule().matches(*pairs.instruction)) {
      return std::nullopt;
    }
    // The index of the best value: one of the places along the reduced dimension.
    if (pairs.frame == nullptr) {
      used_.push_back(pairs.instruction);
      for (const Instruction* node : arg_select_rule().inner_nodes(*pairs.instruction)) {
        used_.push_back(node);
      }
    }
    const auto dimension = static_cast<size_t>(pairs.instruction->attributes.dimensions[0]);
    return ValueRange{0, pairs.instruction->operand(0).shape.dimensions[dimension] - 1};
  }
  if (i.operands.size() != 2 || i.called.empty()) return std::nullopt;
  const Instruction* const reducer = binary_root(*i.called[0]);
  if (reducer == nullptr) return std::nullopt;
  const bool is_logic = i.shape.element_type == ElementType::kPred &&
                        (reducer->opcode == Opcode::kAnd || reducer->opcode == Opcode::kOr);
  if (!is_logic && reducer->opcode != Opcode::kMaximum && reducer->opcode != Opcode::kMinimum) {
    return std::nullopt;
  }
  const auto x = range(operand(site, 0), {}), init = range(operand(site, 1), {});
  if (!x || !init) return std::nullopt;
  return joined(*x, *init);  // What is chosen or joined is one of the values.
}

}  // namespace lagom::rewrite

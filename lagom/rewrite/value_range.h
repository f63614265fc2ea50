#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lagom/hlo/module.h"

namespace lagom::rewrite {

/// The least and the greatest value that elements of an array can have; pred counts as 0 and 1.
struct ValueRange {
  int64_t low = 0, high = 0;
  friend bool operator==(const ValueRange&, const ValueRange&) = default;
};

/// Bounds on integers from how they are made: constants, iota, clamp, remainder, comparisons, a
/// select whose predicate compares what it selects (x < 0 ? x + n : x), the index of a maximum,
/// calls. What is not understood can have any value of its type.
class RangeAnalysis {
 public:
  /// nullopt for types other than pred and integers (u64 too).
  std::optional<ValueRange> of(const hlo::Instruction& instruction);

  /// The instructions, in the computation asked about, whose own operation a bound rests on.
  const std::vector<const hlo::Instruction*>& used() const { return used_; }

 private:
  struct Frame;  // A call on the way to an instruction; null in the computation asked about.
  struct Site {
    const hlo::Instruction* instruction;
    const Frame* frame;
    friend auto operator<=>(const Site&, const Site&) = default;
  };
  // What a predicate says about values, element by element.
  using Facts = std::map<Site, ValueRange>;

  std::optional<ValueRange> range(Site site, const Facts& facts);
  std::optional<ValueRange> compute(Site site, const Facts& facts);
  std::optional<ValueRange> logic_range(Site site, const Facts& facts);
  std::optional<ValueRange> select_range(Site site, const Facts& facts);
  std::optional<ValueRange> reduce_range(Site site);
  void learn(Site predicate, bool holds, Facts& facts);
  Site operand(Site site, size_t number) const;
  Site resolved(Site site) const;

  std::vector<std::unique_ptr<Frame>> frames_;
  std::map<Site, std::optional<ValueRange>> known_;
  std::vector<const hlo::Instruction*> used_;
  int64_t steps_ = 0;
  int depth_ = 0;

 public:
  RangeAnalysis();
  ~RangeAnalysis();
};

}  // namespace lagom::rewrite

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

#include "lagom/rewrite/dot_view.h"
#include "lagom/rewrite/patterns.h"
#include "lagom/rewrite/rules.h"

namespace lagom::rewrite {
namespace {

using hlo::Builder;
using hlo::Dims;
using hlo::Instruction;

// Where the free dimension of one side begins in the dot's result.
int64_t first_free_place(const DotView& view, bool of_lhs) {
  return static_cast<int64_t>(view.dims().lhs_batch.size() + (of_lhs ? 0 : view.lhs_free.size()));
}

// Whether two dots read one operand in the same way and differ, on the other side, in the size of
// the first free dimension only.
bool are_siblings(const DotView& a, const DotView& b, bool share_lhs) {
  const Instruction* const shared_a = share_lhs ? a.lhs() : a.rhs();
  const Instruction* const shared_b = share_lhs ? b.lhs() : b.rhs();
  const Instruction* const own_a = share_lhs ? a.rhs() : a.lhs();
  const Instruction* const own_b = share_lhs ? b.rhs() : b.lhs();
  if (shared_a != shared_b || a.dims() != b.dims() ||
      own_a->shape.element_type != own_b->shape.element_type ||
      own_a->shape.rank() != own_b->shape.rank() ||
      a.shape().element_type != b.shape().element_type) {
    return false;
  }
  const auto merged = static_cast<size_t>(share_lhs ? a.rhs_free[0] : a.lhs_free[0]);
  for (size_t d = 0; d < own_a->shape.dimensions.size(); ++d) {
    if (d != merged && own_a->shape.dimensions[d] != own_b->shape.dimensions[d]) return false;
  }
  const hlo::RareAttributes& x = a.instruction().rare();
  const hlo::RareAttributes& y = b.instruction().rare();
  return x.operand_precision == y.operand_precision && x.dot_algorithm == y.dot_algorithm;
}

class MergedDots : public Rule {
 public:
  std::string_view name() const override { return "merged_dots"; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }
  bool is_group_rule() const override { return true; }

  bool matches(const Instruction& instruction) const override {
    const auto view = DotView::of(instruction);
    return view && (!view->rhs_free.empty() || !view->lhs_free.empty());
  }

  // A few rows against weights: the dots of a recurrent step.
  bool is_promising(const Instruction& instruction) const override {
    const auto view = *DotView::of(instruction);
    return std::min(view.rows, view.columns) <= 16 && view.depth >= 16;
  }

  std::vector<Instruction*> group(const hlo::Computation& computation,
                                  Instruction& instruction) const override {
    const DotView view = *DotView::of(instruction);
    if (!view.rhs_free.empty()) {
      auto siblings = siblings_of(computation, instruction, view, /*share_lhs=*/true);
      if (siblings.size() > 1) return siblings;
    }
    if (!view.lhs_free.empty()) {
      return siblings_of(computation, instruction, view, /*share_lhs=*/false);
    }
    return {&instruction};
  }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    if (!matches(instruction)) throw std::invalid_argument("merged_dots: does not match");
    const DotView view = *DotView::of(instruction);
    Instruction* const product =
        builder.dot(view.lhs(), view.rhs(), view.dims(), view.shape().element_type);
    copy_precision(instruction, *product);
    return product;
  }

  std::vector<Instruction*> emit_group(Builder& builder,
                                       const std::vector<Instruction*>& group) const override {
    if (group.size() == 1) return {emit(builder, *group[0])};
    const DotView view = *DotView::of(*group[0]);
    const DotView second = *DotView::of(*group[1]);
    const bool share_lhs = !view.rhs_free.empty() && are_siblings(view, second, /*share_lhs=*/true);
    const int64_t merged = share_lhs ? view.rhs_free[0] : view.lhs_free[0];
    std::vector<Instruction*> parts;
    for (const Instruction* dot : group) parts.push_back(dot->operands[share_lhs ? 1 : 0]);
    Instruction* const weights = builder.concatenate(std::move(parts), merged);
    Instruction* const product =
        builder.dot(share_lhs ? view.lhs() : weights, share_lhs ? weights : view.rhs(), view.dims(),
                    view.shape().element_type);
    copy_precision(*group[0], *product);

    const auto place = static_cast<size_t>(first_free_place(view, !share_lhs));
    std::vector<Instruction*> values;
    int64_t start = 0;
    for (const Instruction* dot : group) {
      std::vector<hlo::SliceDim> slice = whole(product);
      const int64_t size = dot->shape.dimensions[place];
      slice[place] = {.start = start, .limit = start + size};
      start += size;
      values.push_back(builder.slice(product, std::move(slice)));
    }
    return values;
  }

 private:
  // The leader and later dots whose own operand stands in front of it; the leader alone when an
  // earlier dot leads it.
  static std::vector<Instruction*> siblings_of(const hlo::Computation& computation,
                                               Instruction& leader, const DotView& view,
                                               bool share_lhs) {
    std::vector<Instruction*> alike;
    for (const auto& instruction : computation.instructions()) {
      const auto other = DotView::of(*instruction);
      if (other && are_siblings(view, *other, share_lhs)) alike.push_back(instruction.get());
    }
    if (alike.size() < 2) return {&leader};

    std::unordered_map<const Instruction*, size_t> places;
    for (const auto& instruction : computation.instructions()) {
      places.emplace(instruction.get(), places.size());
    }
    const auto leads = [&](const Instruction* first, const Instruction* second) {
      const Instruction* const own = second->operands[share_lhs ? 1 : 0];
      return places.at(first) < places.at(second) && places.at(own) < places.at(first);
    };
    std::vector<Instruction*> siblings = {&leader};
    for (Instruction* dot : alike) {
      if (leads(dot, &leader)) return {&leader};
      if (leads(&leader, dot)) siblings.push_back(dot);
    }
    return siblings;
  }
};

}  // namespace

const Rule& merged_dots_rule() {
  static const MergedDots kRule;
  return kRule;
}

}  // namespace lagom::rewrite

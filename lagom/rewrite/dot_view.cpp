#include "lagom/rewrite/dot_view.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "lagom/rewrite/patterns.h"

namespace lagom::rewrite {
namespace {

using hlo::Dims;
using hlo::Instruction;

Dims free_dims(int64_t rank, const Dims& contracting, const Dims& batch) {
  Dims free;
  for (int64_t d = 0; d < rank; ++d) {
    if (std::find(contracting.begin(), contracting.end(), d) == contracting.end() &&
        std::find(batch.begin(), batch.end(), d) == batch.end()) {
      free.push_back(d);
    }
  }
  return free;
}

int64_t product(const Dims& sizes) {
  return hlo::checked_product(sizes).value();
}

}  // namespace

std::optional<DotView> DotView::of(const Instruction& instruction) {
  if (instruction.opcode != hlo::Opcode::kDot || instruction.operands.size() != 2 ||
      !instruction.attributes.dot || is_sharded(instruction) ||
      !is_static_array(instruction.shape, hlo::is_floating) ||
      !is_static_array(instruction.operand(0).shape, hlo::is_floating) ||
      !is_static_array(instruction.operand(1).shape, hlo::is_floating)) {
    return std::nullopt;
  }
  DotView view;
  view.instruction_ = &instruction;
  const hlo::DotDims& dims = view.dims();
  view.lhs_free = free_dims(view.lhs()->shape.rank(), dims.lhs_contracting, dims.lhs_batch);
  view.rhs_free = free_dims(view.rhs()->shape.rank(), dims.rhs_contracting, dims.rhs_batch);
  view.batch = product(sizes_of(view.lhs(), dims.lhs_batch));
  view.depth = product(sizes_of(view.lhs(), dims.lhs_contracting));
  view.rows = product(sizes_of(view.lhs(), view.lhs_free));
  view.columns = product(sizes_of(view.rhs(), view.rhs_free));
  return view;
}

hlo::ElementType DotView::compute_type() const {
  hlo::ElementType widest = hlo::ElementType::kF32;
  const std::array<const Instruction*, 3> values = {lhs(), rhs(), instruction_};
  for (const Instruction* value : values) {
    const hlo::ElementType type = value->shape.element_type;
    if (hlo::element_bits(type) > hlo::element_bits(widest)) widest = type;
  }
  return widest;
}

Dims sizes_of(const Instruction* x, const Dims& dims) {
  Dims sizes;
  for (int64_t d : dims) sizes.push_back(x->shape.dimensions[static_cast<size_t>(d)]);
  return sizes;
}

Dims joined(Dims a, const Dims& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Dims joined(Dims a, const Dims& b, const Dims& c) {
  return joined(joined(std::move(a), b), c);
}

Dims counted(int64_t from, size_t count) {
  Dims dims(count);
  std::iota(dims.begin(), dims.end(), from);
  return dims;
}

}  // namespace lagom::rewrite

#include <algorithm>
#include <numeric>

#include "lagom/hlo/evaluator_detail.h"

namespace lagom::hlo::evaluation {
namespace {

// Strides of the operand along the result's dimensions: dimension `places[d]` of the result moves
// along dimension d of the operand, the others stand still.
Dims spread_strides(const Dims& operand_dims, const Dims& places, size_t rank) {
  const Dims own = row_major_strides(operand_dims);
  Dims strides(rank, 0);
  for (size_t d = 0; d < places.size(); ++d) strides[places[d]] = own[d];
  return strides;
}

}  // namespace

Dims row_major_strides(const Dims& dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= dims[d];
  }
  return strides;
}

void copy_box(const Dims& dims, const double* from, const Dims& from_strides, double* to,
              const Dims& to_strides) {
  const int64_t length = dims.empty() ? 1 : dims.back();
  const int64_t from_step = dims.empty() ? 1 : from_strides.back();
  const int64_t to_step = dims.empty() ? 1 : to_strides.back();
  for_each_row<2>(dims, {&from_strides, &to_strides}, {0, 0}, [&](const auto& at) {
    const double* source = from + at[0];
    double* target = to + at[1];
    if (to_step == 1 && from_step == 1) {
      std::copy_n(source, length, target);
    } else if (to_step == 1 && from_step == 0) {
      std::fill_n(target, length, *source);
    } else {
      for (int64_t n = 0; n < length; ++n) target[n * to_step] = source[n * from_step];
    }
  });
}

Value iota(Context& context, const Instruction& i) {
  Values result = context.allocate(i);
  const auto dimension = static_cast<size_t>(i.attributes.dimensions.at(0));
  const int64_t size = i.shape.dimensions.at(dimension);
  const auto run = static_cast<size_t>(row_major_strides(i.shape.dimensions)[dimension]);
  int64_t value = 0;
  for (size_t n = 0; n < result.size(); n += run) {
    std::fill_n(result.begin() + static_cast<std::ptrdiff_t>(n), run, static_cast<double>(value));
    if (++value == size) value = 0;
  }
  return result;
}

Value broadcast(Context& context, const Instruction& i, Operands operands) {
  Values result = context.allocate(i);
  const Dims& dims = i.shape.dimensions;
  if (i.operand(0).shape.is_scalar()) {
    std::fill(result.begin(), result.end(), operands[0].numbers()[0]);
    return result;
  }
  copy_box(dims, operands[0].numbers().data(),
           spread_strides(i.operand(0).shape.dimensions, i.attributes.dimensions, dims.size()),
           result.data(), row_major_strides(dims));
  return result;
}

Value transpose(Context& context, const Instruction& i, Operands operands) {
  Values result = context.allocate(i);
  const Dims own = row_major_strides(i.operand(0).shape.dimensions);
  Dims strides;
  for (int64_t d : i.attributes.dimensions) strides.push_back(own[d]);
  copy_box(i.shape.dimensions, operands[0].numbers().data(), strides, result.data(),
           row_major_strides(i.shape.dimensions));
  return result;
}

Value slice(Context& context, const Instruction& i, Operands operands) {
  Values result = context.allocate(i);
  if (result.empty()) return result;
  Dims strides = row_major_strides(i.operand(0).shape.dimensions);
  int64_t start = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    start += i.attributes.slice[d].start * strides[d];
    strides[d] *= i.attributes.slice[d].stride;
  }
  copy_box(i.shape.dimensions, operands[0].numbers().data() + start, strides, result.data(),
           row_major_strides(i.shape.dimensions));
  return result;
}

Value reverse(Context& context, const Instruction& i, Operands operands) {
  Values result = context.allocate(i);
  if (result.empty()) return result;
  Dims strides = row_major_strides(i.shape.dimensions);
  int64_t start = 0;
  for (int64_t d : i.attributes.dimensions) {
    start += (i.shape.dimensions[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  copy_box(i.shape.dimensions, operands[0].numbers().data() + start, strides, result.data(),
           row_major_strides(i.shape.dimensions));
  return result;
}

Value pad(Context& context, const Instruction& i, Operands operands) {
  Values result = context.allocate(i);
  std::fill(result.begin(), result.end(), operands[1].numbers()[0]);
  const Dims& from_dims = i.operand(0).shape.dimensions;
  const Dims& to_dims = i.shape.dimensions;
  const Dims from_strides = row_major_strides(from_dims);
  Dims to_strides = row_major_strides(to_dims);
  // Only the operand's elements first..first+kept of each dimension land inside the result.
  Dims kept(from_dims.size());
  int64_t from = 0, to = 0;
  for (size_t d = 0; d < kept.size(); ++d) {
    const PadDim& pad = i.attributes.padding[d];
    const int64_t step = pad.interior + 1;
    const int64_t first = pad.low >= 0 ? 0 : (-pad.low + step - 1) / step;
    const int64_t place = first * step + pad.low;
    if (first >= from_dims[d] || place >= to_dims[d]) return result;
    kept[d] = std::min(from_dims[d] - first, (to_dims[d] - 1 - place) / step + 1);
    from += first * from_strides[d];
    to += place * to_strides[d];
    to_strides[d] *= step;
  }
  copy_box(kept, operands[0].numbers().data() + from, from_strides, result.data() + to, to_strides);
  return result;
}

Value concatenate(Context& context, const Instruction& i, Operands operands) {
  Values result = context.allocate(i);
  const auto dimension = static_cast<size_t>(i.attributes.dimensions.at(0));
  const Dims strides = row_major_strides(i.shape.dimensions);
  int64_t at = 0;
  for (size_t o = 0; o < operands.size(); ++o) {
    const Dims& dims = i.operand(o).shape.dimensions;
    if (!operands[o].numbers().empty()) {
      copy_box(dims, operands[o].numbers().data(), row_major_strides(dims),
               result.data() + at * strides[dimension], strides);
    }
    at += dims[dimension];
  }
  return result;
}

}  // namespace lagom::hlo::evaluation

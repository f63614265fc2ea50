#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "lagom/rewrite/convolution_view.h"
#include "lagom/rewrite/dot_view.h"
#include "lagom/rewrite/patterns.h"
#include "lagom/rewrite/rules.h"

namespace lagom::rewrite {
namespace {

using hlo::Builder;
using hlo::Dims;
using hlo::ElementType;
using hlo::Instruction;

constexpr int64_t kMaxRows = 16;
constexpr int64_t kMaxDepth = 4;

DotView view_of(const Rule& rule, const Instruction& instruction) {
  if (!rule.matches(instruction)) {
    throw std::invalid_argument(std::string(rule.name()) + ": does not match");
  }
  return *DotView::of(instruction);
}

// ---- One dot per row

class RowDots : public Rule {
 public:
  std::string_view name() const override { return "row_dots"; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    const auto view = DotView::of(instruction);
    if (!view || view->batch != 1 || !view->dims().lhs_batch.empty()) return false;
    const int64_t few = std::min(view->rows, view->columns);
    return few <= kMaxRows && std::max(view->rows, view->columns) > few;
  }

  // The large side contracted over its minor dimension, and too large for the caches nearby.
  bool is_promising(const Instruction& instruction) const override {
    const auto view = *DotView::of(instruction);
    const Dims& contracting = view.dims().rhs_contracting;
    return view.rows <= 4 && view.rows < view.columns && contracting.size() == 1 &&
           contracting[0] == view.rhs()->shape.minor_to_major().front() &&
           view.depth * view.columns >= 1 << 16;
  }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    const DotView view = view_of(*this, instruction);
    const bool left_is_small = view.rows < view.columns;
    Instruction* const small = left_is_small ? view.lhs() : view.rhs();
    Instruction* const large = left_is_small ? view.rhs() : view.lhs();
    const Dims& small_free = left_is_small ? view.lhs_free : view.rhs_free;
    const Dims& large_free = left_is_small ? view.rhs_free : view.lhs_free;
    const hlo::DotDims& dims = view.dims();
    const Dims& small_depth = left_is_small ? dims.lhs_contracting : dims.rhs_contracting;
    const Dims& large_depth = left_is_small ? dims.rhs_contracting : dims.lhs_contracting;
    const int64_t count = std::min(view.rows, view.columns);

    const Dims depth = sizes_of(small, small_depth);
    Instruction* const vectors =  // [count, contracted...]
        builder.reshape(builder.transpose(small, joined(small_free, small_depth)),
                        joined({count}, depth));
    const Dims large_sizes = sizes_of(large, large_free);
    std::vector<Instruction*> products;  // Each [1, free dimensions of the large side].
    for (int64_t i = 0; i < count; ++i) {
      std::vector<hlo::SliceDim> at = whole(vectors);
      at[0] = {.start = i, .limit = i + 1};
      Instruction* const vector = builder.reshape(builder.slice(vectors, std::move(at)), depth);
      hlo::DotDims product_dims;
      product_dims.lhs_contracting = large_depth;
      product_dims.rhs_contracting = counted(0, depth.size());
      Instruction* const product =
          builder.dot(large, vector, std::move(product_dims), view.shape().element_type);
      copy_precision(instruction, *product, /*swapped=*/left_is_small);
      products.push_back(builder.reshape(product, joined({1}, large_sizes)));
    }
    Instruction* const stacked =
        builder.reshape(builder.concatenate(std::move(products), /*dimension=*/0),
                        joined(sizes_of(small, small_free), large_sizes));
    if (left_is_small) return stacked;
    return builder.transpose(
        stacked, joined(counted(static_cast<int64_t>(small_free.size()), large_free.size()),
                        counted(0, small_free.size())));
  }
};

// ---- Sides swapped, operands brought into order

class ArrangedDot : public Rule {
 public:
  ArrangedDot(std::string_view name, bool swapped, bool ordered)
      : name_(name), swapped_(swapped), ordered_(ordered) {}
  std::string_view name() const override { return name_; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    const auto view = DotView::of(instruction);
    if (!view) return false;
    if (!ordered_) return true;
    return !is_in_order(left_order(*view)) || !is_in_order(right_order(*view));
  }

  // Attention's value product as einsum leaves it: the values on the left, contracted over a
  // dimension in front of the kept one, and transposed afterwards.
  bool is_promising(const Instruction& instruction) const override {
    const auto view = *DotView::of(instruction);
    const hlo::DotDims& dims = view.dims();
    return swapped_ && !ordered_ && view.batch > 1 && !dims.lhs_contracting.empty() &&
           !view.lhs_free.empty() && dims.lhs_contracting.back() < view.lhs_free.back() &&
           view.rows * view.columns >= 1024;
  }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    const DotView view = view_of(*this, instruction);
    const hlo::DotDims& dims = view.dims();
    Instruction* left = swapped_ ? view.rhs() : view.lhs();
    Instruction* right = swapped_ ? view.lhs() : view.rhs();
    hlo::DotDims product_dims = dims;
    if (swapped_) {
      std::swap(product_dims.lhs_contracting, product_dims.rhs_contracting);
      std::swap(product_dims.lhs_batch, product_dims.rhs_batch);
    }
    if (ordered_) {
      const size_t batch = dims.lhs_batch.size(), depth = dims.lhs_contracting.size();
      const auto left_free = static_cast<int64_t>(left->shape.dimensions.size() - batch - depth);
      left = in_order(builder, left, left_order(view));
      right = in_order(builder, right, right_order(view));
      product_dims.lhs_batch = product_dims.rhs_batch = counted(0, batch);
      product_dims.lhs_contracting = counted(static_cast<int64_t>(batch) + left_free, depth);
      product_dims.rhs_contracting = counted(static_cast<int64_t>(batch), depth);
    }
    Instruction* const product =
        builder.dot(left, right, std::move(product_dims), view.shape().element_type);
    copy_precision(instruction, *product, swapped_);
    if (!swapped_) return product;
    // [batch, rhs's, lhs's] -> [batch, lhs's, rhs's]
    const auto batch = static_cast<int64_t>(dims.lhs_batch.size());
    const auto columns = static_cast<int64_t>(view.rhs_free.size());
    return builder.transpose(product, joined(counted(0, dims.lhs_batch.size()),
                                             counted(batch + columns, view.lhs_free.size()),
                                             counted(batch, view.rhs_free.size())));
  }

 private:
  // The order of dimensions in which a dot's left side is [batch, free, contracted].
  Dims left_order(const DotView& view) const {
    const hlo::DotDims& dims = view.dims();
    return swapped_ ? joined(dims.rhs_batch, view.rhs_free, dims.rhs_contracting)
                    : joined(dims.lhs_batch, view.lhs_free, dims.lhs_contracting);
  }
  // And the right side [batch, contracted, free].
  Dims right_order(const DotView& view) const {
    const hlo::DotDims& dims = view.dims();
    return swapped_ ? joined(dims.lhs_batch, dims.lhs_contracting, view.lhs_free)
                    : joined(dims.rhs_batch, dims.rhs_contracting, view.rhs_free);
  }
  static bool is_in_order(const Dims& order) { return std::is_sorted(order.begin(), order.end()); }

  // Without the barrier the compiler folds the transpose back into the dot.
  static Instruction* in_order(Builder& builder, Instruction* x, Dims order) {
    if (is_in_order(order)) return x;
    return builder.optimization_barrier(builder.transpose(x, std::move(order)));
  }

  std::string_view name_;
  bool swapped_, ordered_;
};

// ---- Products without a dot

class OuterProduct : public Rule {
 public:
  std::string_view name() const override { return "outer_product"; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    const auto view = DotView::of(instruction);
    return view && view->depth <= kMaxDepth && !view->has_dot_algorithm();
  }

  bool is_promising(const Instruction& instruction) const override {
    return instruction.shape.num_elements() >= 1 << 16;
  }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    const DotView view = view_of(*this, instruction);
    const ElementType type = view.compute_type();
    const hlo::DotDims& dims = view.dims();
    const auto batch = static_cast<int64_t>(dims.lhs_batch.size());
    const auto rows = static_cast<int64_t>(view.lhs_free.size());
    // [contracted, batch, free]
    Instruction* const left = by_depth(builder, view.lhs(), type,
                                       joined(dims.lhs_contracting, dims.lhs_batch, view.lhs_free),
                                       dims.lhs_contracting.size(), view.depth);
    Instruction* const right = by_depth(builder, view.rhs(), type,
                                        joined(dims.rhs_contracting, dims.rhs_batch, view.rhs_free),
                                        dims.rhs_contracting.size(), view.depth);
    const Dims left_places = counted(0, dims.lhs_batch.size() + view.lhs_free.size());
    const Dims right_places =
        joined(counted(0, dims.lhs_batch.size()), counted(batch + rows, view.rhs_free.size()));
    Instruction* sum = nullptr;
    for (int64_t k = 0; k < view.depth; ++k) {
      Instruction* const product = builder.multiply(
          builder.broadcast(at_depth(builder, left, k), view.shape().dimensions, left_places),
          builder.broadcast(at_depth(builder, right, k), view.shape().dimensions, right_places));
      sum = sum == nullptr ? product : builder.add(sum, product);
    }
    return builder.convert(sum, view.shape().element_type);
  }

 private:
  static Instruction* by_depth(Builder& builder, Instruction* x, ElementType type, Dims order,
                               size_t num_contracted, int64_t depth) {
    Instruction* const turned = builder.transpose(builder.convert(x, type), std::move(order));
    const Dims& dims = turned->shape.dimensions;
    return builder.reshape(
        turned,
        joined({depth}, Dims(dims.begin() + static_cast<int64_t>(num_contracted), dims.end())));
  }

  static Instruction* at_depth(Builder& builder, Instruction* x, int64_t k) {
    std::vector<hlo::SliceDim> slice = whole(x);
    slice[0] = {.start = k, .limit = k + 1};
    const Dims& dims = x->shape.dimensions;
    return builder.reshape(builder.slice(x, std::move(slice)), Dims(dims.begin() + 1, dims.end()));
  }
};

// ---- Narrow types in f32

class Float32Dot : public Rule {
 public:
  std::string_view name() const override { return "float32_dot"; }
  RuleClass rule_class() const override { return RuleClass::kReassociates; }

  bool matches(const Instruction& instruction) const override {
    const auto view = DotView::of(instruction);
    return view && !view->has_dot_algorithm() &&
           (is_narrow(view->lhs()->shape) || is_narrow(view->rhs()->shape));
  }

  // Backends with units for bf16 are faster without it.
  bool is_promising(const Instruction&) const override { return false; }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    const DotView view = view_of(*this, instruction);
    const ElementType type = view.compute_type();
    Instruction* const product = builder.dot(builder.convert(view.lhs(), type),
                                             builder.convert(view.rhs(), type), view.dims(), type);
    copy_precision(instruction, *product);
    return builder.convert(product, view.shape().element_type);
  }

 private:
  static bool is_narrow(const hlo::Shape& shape) {
    return at_least_f32(shape.element_type) != shape.element_type;
  }
};

}  // namespace

const Rule& row_dots_rule() {
  static const RowDots kRule;
  return kRule;
}

const Rule& swapped_dot_rule() {
  static const ArrangedDot kRule("swapped_dot", /*swapped=*/true, /*ordered=*/false);
  return kRule;
}

const Rule& ordered_dot_rule() {
  static const ArrangedDot kRule("ordered_dot", /*swapped=*/false, /*ordered=*/true);
  return kRule;
}

const Rule& swapped_ordered_dot_rule() {
  static const ArrangedDot kRule("swapped_ordered_dot", /*swapped=*/true, /*ordered=*/true);
  return kRule;
}

const Rule& outer_product_rule() {
  static const OuterProduct kRule;
  return kRule;
}

const Rule& float32_dot_rule() {
  static const Float32Dot kRule;
  return kRule;
}

}  // namespace lagom::rewrite

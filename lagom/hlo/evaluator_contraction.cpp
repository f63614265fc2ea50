#include <algorithm>
#include <utility>
#include <vector>

#include "lagom/hlo/evaluator_detail.h"
#include "lagom/hlo/evaluator_operations.h"

namespace lagom::hlo::evaluation {
namespace {

// Calls `body` with the function sum, a, b -> sum + a * b of the element type.
template <typename Body>
void with_multiply_add(ElementType type, Body&& body) {
  const NumberType number = NumberType::of(type);
  if (is_floating(type)) {
    body([](double sum, double a, double b) { return sum + a * b; });
  } else if (type == ElementType::kPred) {
    body([](double sum, double a, double b) { return sum + a * b > 0 ? 1.0 : 0.0; });
  } else {
    body([number](double sum, double a, double b) {
      return wrap(sum + whole_product(a, b, number), number);
    });
  }
}

// The array with its dimensions in this order, row-major.
Values ordered(Context& context, const Instruction& i, const Shape& shape, const Values& x,
               const Dims& order) {
  Values result = context.allocate(i, shape);
  const Dims own = row_major_strides(shape.dimensions);
  Dims dims, strides;
  for (int64_t d : order) {
    dims.push_back(shape.dimensions[d]);
    strides.push_back(own[d]);
  }
  copy_box(dims, x.data(), strides, result.data(), row_major_strides(dims));
  return result;
}

// The dimensions that are in neither list.
Dims free_dims(int64_t rank, const Dims& batch, const Dims& contracting) {
  Dims result;
  for (int64_t d = 0; d < rank; ++d) {
    if (std::find(batch.begin(), batch.end(), d) == batch.end() &&
        std::find(contracting.begin(), contracting.end(), d) == contracting.end()) {
      result.push_back(d);
    }
  }
  return result;
}

Dims joined(Dims first, const Dims& second, const Dims& third) {
  first.insert(first.end(), second.begin(), second.end());
  first.insert(first.end(), third.begin(), third.end());
  return first;
}

size_t size_of(const Shape& shape, const Dims& dims) {
  int64_t size = 1;
  for (int64_t d : dims) size *= shape.dimensions[d];
  return static_cast<size_t>(size);
}

// c[m, n] += a[m, k] b[k, n]
template <typename MultiplyAdd>
void multiply_rows(size_t m, size_t n, size_t k, const double* a, const double* b, double* c,
                   MultiplyAdd multiply_add) {
  // A strip of b that stays in the cache while all rows of a pass over it.
  constexpr size_t kStrip = 64;
  for (size_t first = 0; first < k; first += kStrip) {
    const size_t end = std::min(k, first + kStrip);
    for (size_t row = 0; row < m; ++row) {
      double* const sums = c + row * n;
      for (size_t j = first; j < end; ++j) {
        const double factor = a[row * k + j];
        const double* const other = b + j * n;
        for (size_t column = 0; column < n; ++column) {
          sums[column] = multiply_add(sums[column], factor, other[column]);
        }
      }
    }
  }
}

// c[m, n] = a[m, k] b[n, k]: for few columns.
template <typename MultiplyAdd>
void multiply_columns(size_t m, size_t n, size_t k, const double* a, const double* b, double* c,
                      MultiplyAdd multiply_add) {
  for (size_t row = 0; row < m; ++row) {
    for (size_t column = 0; column < n; ++column) {
      double sum = 0;
      for (size_t j = 0; j < k; ++j) sum = multiply_add(sum, a[row * k + j], b[column * k + j]);
      c[row * n + column] = sum;
    }
  }
}

// A convolution's arrays with groups taken apart:
//   x[batch, space.., I, G]  k[taps.., I, O]  y[batch, positions.., O]   output feature o is in
// group o / (O / G). G counts feature groups or batch groups: only one of them can pass 1.
class Convolution {
 public:
  Convolution(Context& context, const Instruction& i, const Values& input, const Values& kernel)
      : i_(i),
        dims_(*i.attributes.convolution),
        rank_(i.attributes.window.size()),
        groups_(std::max(i.attributes.feature_group_count, i.attributes.batch_group_count)),
        batch_(i.shape.dimensions[dims_.output_batch]),
        inputs_(i.operand(1).shape.dimensions[dims_.kernel_input_feature]),
        outputs_(i.shape.dimensions[dims_.output_feature]) {
    if (i.attributes.feature_group_count > 1 && i.attributes.batch_group_count > 1) {
      fail(i, "groups of features and of batches at once are unknown");
    }
    double taps = 1;
    for (const WindowDim& dim : i.attributes.window) taps *= static_cast<double>(dim.size);
    context.charge(i, static_cast<double>(i.shape.num_elements() * inputs_) * taps);
    pack_input(context, input);
    pack_kernel(context, kernel);
    find_meetings();
  }

  Value compute(Context& context) {
    y_ = context.allocate(i_);
    with_multiply_add(i_.shape.element_type, [&](auto multiply_add) {
      double* y = y_.data();
      for (int64_t n = 0; n < batch_; ++n) {
        const double* const x = x_.data() + n * x_batch_stride_;
        std::vector<int64_t> position(rank_);
        for_each_position(0, position, [&](const std::vector<int64_t>& at) {
          add_taps(at, 0, x, k_.data(), y, multiply_add);
          y += outputs_;
        });
      }
    });
    Dims from = {batch_};
    for (size_t s = 0; s < rank_; ++s) from.push_back(output_size(s));
    from.push_back(outputs_);
    const Dims own = row_major_strides(i_.shape.dimensions);
    Dims strides = {own[dims_.output_batch]};
    for (int64_t d : dims_.output_spatial) strides.push_back(own[d]);
    strides.push_back(own[dims_.output_feature]);
    Values result = context.allocate(i_);
    copy_box(from, y_.data(), row_major_strides(from), result.data(), strides);
    return result;
  }

 private:
  int64_t output_size(size_t s) const { return i_.shape.dimensions[dims_.output_spatial[s]]; }

  void pack_input(Context& context, const Values& input) {
    const Shape& shape = i_.operand(0).shape;
    const Dims own = row_major_strides(shape.dimensions);
    const int64_t batch_stride = own[dims_.input_batch];
    const int64_t feature_stride = own[dims_.input_feature];
    Dims dims = {batch_}, strides = {batch_stride};
    for (int64_t d : dims_.input_spatial) {
      dims.push_back(shape.dimensions[d]);
      strides.push_back(own[d]);
    }
    dims.insert(dims.end(), {inputs_, groups_});
    strides.push_back(feature_stride);
    strides.push_back(i_.attributes.batch_group_count > 1 ? batch_ * batch_stride
                                                          : inputs_ * feature_stride);
    x_ = context.allocate(i_, shape);
    x_strides_ = row_major_strides(dims);
    copy_box(dims, input.data(), strides, x_.data(), x_strides_);
    x_batch_stride_ = x_strides_[0];
    x_strides_.erase(x_strides_.begin());
  }

  void pack_kernel(Context& context, const Values& kernel) {
    const Shape& shape = i_.operand(1).shape;
    const Dims own = row_major_strides(shape.dimensions);
    Dims dims, strides;
    int64_t start = 0;
    for (size_t s = 0; s < rank_; ++s) {
      const int64_t d = dims_.kernel_spatial[s];
      const bool reversal = i_.attributes.window[s].reversal;
      dims.push_back(shape.dimensions[d]);
      strides.push_back(reversal ? -own[d] : own[d]);
      if (reversal) start += (shape.dimensions[d] - 1) * own[d];
    }
    dims.insert(dims.end(), {inputs_, outputs_});
    strides.push_back(own[dims_.kernel_input_feature]);
    strides.push_back(own[dims_.kernel_output_feature]);
    k_ = context.allocate(i_, shape);
    k_strides_ = row_major_strides(dims);
    if (!k_.empty()) copy_box(dims, kernel.data() + start, strides, k_.data(), k_strides_);
  }

  // For every output position of a dimension, which elements and taps meet.
  void find_meetings() {
    meetings_.resize(rank_);
    for (size_t s = 0; s < rank_; ++s) {
      const WindowDim& dim = i_.attributes.window[s];
      const int64_t size = i_.operand(0).shape.dimensions[dims_.input_spatial[s]];
      meetings_[s].resize(static_cast<size_t>(output_size(s)));
      for (int64_t o = 0; o < output_size(s); ++o) {
        for (int64_t tap = 0; tap < dim.size; ++tap) {
          const int64_t position = o * dim.stride + tap * dim.window_dilation - dim.pad_low;
          if (position < 0 || position % dim.base_dilation != 0) continue;
          const int64_t element = position / dim.base_dilation;
          if (element >= size) break;
          meetings_[s][o].emplace_back(element * x_strides_[s], tap * k_strides_[s]);
        }
      }
    }
  }

  template <typename Visitor>
  void for_each_position(size_t s, std::vector<int64_t>& at, const Visitor& visit) const {
    if (s == rank_) return visit(at);
    for (at[s] = 0; at[s] < output_size(s); ++at[s]) for_each_position(s + 1, at, visit);
  }

  template <typename MultiplyAdd>
  void add_taps(const std::vector<int64_t>& at, size_t s, const double* x, const double* k,
                double* y, const MultiplyAdd& multiply_add) const {
    if (s == rank_) return add_tap(x, k, y, multiply_add);
    for (const auto& [x_offset, k_offset] : meetings_[s][at[s]]) {
      add_taps(at, s + 1, x + x_offset, k + k_offset, y, multiply_add);
    }
  }

  // x[I, G] k[I, O] -> y[O]
  template <typename MultiplyAdd>
  void add_tap(const double* x, const double* k, double* y, const MultiplyAdd& multiply_add) const {
    if (groups_ == outputs_) {
      for (int64_t i = 0; i < inputs_; ++i, x += groups_, k += outputs_) {
        for (int64_t o = 0; o < outputs_; ++o) y[o] = multiply_add(y[o], x[o], k[o]);
      }
      return;
    }
    const int64_t per_group = outputs_ / groups_;
    for (int64_t i = 0; i < inputs_; ++i, x += groups_, k += outputs_) {
      for (int64_t g = 0; g < groups_; ++g) {
        const double factor = x[g];
        const double* const weights = k + g * per_group;
        double* const sums = y + g * per_group;
        for (int64_t o = 0; o < per_group; ++o) {
          sums[o] = multiply_add(sums[o], factor, weights[o]);
        }
      }
    }
  }

  const Instruction& i_;
  const ConvolutionDims& dims_;
  size_t rank_;
  int64_t groups_, batch_, inputs_, outputs_;  // G, N, I, O
  Values x_, k_, y_;
  int64_t x_batch_stride_ = 0;
  Dims x_strides_, k_strides_;  // By spatial dimension, then the features.
  std::vector<std::vector<std::vector<std::pair<int64_t, int64_t>>>> meetings_;
};

}  // namespace

Value dot(Context& context, const Instruction& i, Operands operands) {
  const DotDims& dims = *i.attributes.dot;
  const Shape& lhs = i.operand(0).shape;
  const Shape& rhs = i.operand(1).shape;
  if (operands.size() != 2) fail(i, "a sparse dot is unknown");
  const Dims lhs_free = free_dims(lhs.rank(), dims.lhs_batch, dims.lhs_contracting);
  const Dims rhs_free = free_dims(rhs.rank(), dims.rhs_batch, dims.rhs_contracting);
  const size_t batch = size_of(lhs, dims.lhs_batch);
  const size_t m = size_of(lhs, lhs_free);
  const size_t n = size_of(rhs, rhs_free);
  const size_t k = size_of(lhs, dims.lhs_contracting);
  context.charge(i, static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
                        static_cast<double>(k));
  const bool few_columns = n < 4;
  const Values a = ordered(context, i, lhs, operands[0].numbers(),
                           joined(dims.lhs_batch, lhs_free, dims.lhs_contracting));
  const Values b = ordered(context, i, rhs, operands[1].numbers(),
                           few_columns ? joined(dims.rhs_batch, rhs_free, dims.rhs_contracting)
                                       : joined(dims.rhs_batch, dims.rhs_contracting, rhs_free));
  Values result = context.allocate(i);  // [batch, m, n]
  with_multiply_add(i.shape.element_type, [&](auto multiply_add) {
    for (size_t at = 0; at < batch; ++at) {
      const auto multiply = few_columns ? multiply_columns<decltype(multiply_add)>
                                        : multiply_rows<decltype(multiply_add)>;
      multiply(m, n, k, a.data() + at * m * k, b.data() + at * k * n, result.data() + at * m * n,
               multiply_add);
    }
  });
  return result;
}

Value convolution(Context& context, const Instruction& i, Operands operands) {
  return Convolution(context, i, operands[0].numbers(), operands[1].numbers()).compute(context);
}

}  // namespace lagom::hlo::evaluation

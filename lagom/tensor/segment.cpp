#include "lagom/tensor/segment.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "lagom/tensor/kept_value.h"

namespace lagom::tensor {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// Columns that are summed at once: an accumulator of 2 kB stays in the first-level cache while the
// rows of the segment pass by.
constexpr int64_t kColumns = 512;
constexpr int64_t kPrefetchRows = 8;
constexpr int64_t kPrefetchColumns = 64;  // the CPU itself goes on along a row

Csr group_by(int64_t num_rows, std::span<const int32_t> rows, std::span<const int32_t> others) {
  Csr csr;
  csr.offsets.assign(static_cast<size_t>(num_rows) + 1, 0);
  for (const int32_t row : rows) ++csr.offsets[static_cast<size_t>(row) + 1];
  std::partial_sum(csr.offsets.begin(), csr.offsets.end(), csr.offsets.begin());
  csr.neighbors.resize(rows.size());
  csr.edges.resize(rows.size());
  std::vector<int64_t> next(csr.offsets.begin(), csr.offsets.end() - 1);
  for (size_t e = 0; e < rows.size(); ++e) {
    const auto at = static_cast<size_t>(next[static_cast<size_t>(rows[e])]++);
    csr.neighbors[at] = others[e];
    csr.edges[at] = static_cast<int32_t>(e);
  }
  return csr;
}

int64_t grain(int64_t width) {
  return std::max<int64_t>(1, 32768 / std::max<int64_t>(width, 1));
}

std::vector<double> inverse_degrees(const Csr& csr) {
  std::vector<double> scale(static_cast<size_t>(csr.num_rows()), 0);
  for (int64_t i = 0; i < csr.num_rows(); ++i) {
    if (csr.degree(i) > 0) scale[static_cast<size_t>(i)] = 1.0 / static_cast<double>(csr.degree(i));
  }
  return scale;
}

int64_t row_width(const at::Tensor& x) {
  return x.size(0) == 0 ? 0 : x.numel() / x.size(0);
}

std::vector<int64_t> with_rows(const at::Tensor& x, int64_t rows) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[0] = rows;
  return sizes;
}

void check_input(const char* who, const at::Tensor& x, const SegmentIndex& index) {
  TORCH_CHECK_VALUE(x.dim() >= 1 && x.size(0) == index.num_inputs(), who, ": expected [",
                    index.num_inputs(), ", ...], got ", x.sizes());
  TORCH_CHECK_VALUE(x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble ||
                        x.scalar_type() == at::kBFloat16,
                    who, ": expected float, double or bfloat16, got ", x.scalar_type());
}

#define LAGOM_DISPATCH(TYPE, NAME, ...) \
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, TYPE, NAME, __VA_ARGS__)

at::Tensor sum_rows(const at::Tensor& x, const Csr& csr, const at::Tensor& weights,
                    const double* scale) {
  at::Tensor out = at::empty(with_rows(x, csr.num_rows()), x.options());
  LAGOM_DISPATCH(x.scalar_type(), "segment_sum", [&] {
    segment_sum_rows<scalar_t>(csr, x.const_data_ptr<scalar_t>(), row_width(x),
                               weights.defined() ? weights.const_data_ptr<scalar_t>() : nullptr,
                               scale, out.mutable_data_ptr<scalar_t>());
  });
  return out;
}

/// d weights[e] = grad[output] . x[input].
template <typename T>
void weight_gradient(const Csr& csr, const T* x, const T* grad, int64_t width, T* out) {
  using Sum = at::opmath_type<T>;
  at::parallel_for(0, csr.num_rows(), grain(width), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t k = csr.offsets[i]; k < csr.offsets[i + 1]; ++k) {
        const T* row = x + csr.neighbors[k] * width;
        Sum sum = 0;
        for (int64_t c = 0; c < width; ++c) sum += Sum(grad[i * width + c]) * Sum(row[c]);
        out[csr.edges[k]] = static_cast<T>(sum);
      }
    }
  });
}

/// Weighted sums, and means (no weights, each row scaled by 1 / its degree).
struct SegmentSum : torch::autograd::Function<SegmentSum> {
  static Variable forward(AutogradContext* context, const Variable& x,
                          const std::optional<at::Tensor>& weights, const SegmentIndexPtr& index,
                          bool is_mean) {
    const at::Tensor rows = x.contiguous();
    context->saved_data["index"] = KeptValue<SegmentIndexPtr>::keep(index);
    context->saved_data["is_mean"] = is_mean;
    const at::Tensor edge_weights = weights ? weights->contiguous() : at::Tensor();
    if (weights) context->save_for_backward({rows, edge_weights});
    const std::vector<double> scale =
        is_mean ? inverse_degrees(index->by_output()) : std::vector<double>();
    return sum_rows(rows, index->by_output(), edge_weights, is_mean ? scale.data() : nullptr);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto& index = KeptValue<SegmentIndexPtr>::of(context->saved_data["index"]);
    const variable_list saved = context->get_saved_variables();
    at::Tensor grad = gradients[0].contiguous();
    if (context->saved_data["is_mean"].toBool()) {
      const std::vector<double> scale = inverse_degrees(index->by_output());
      std::vector<int64_t> sizes(static_cast<size_t>(grad.dim()), 1);
      sizes[0] = index->num_outputs();
      grad = grad * at::tensor(scale, at::kDouble).to(grad.scalar_type()).view(sizes);
    }
    at::Tensor grad_weights;
    if (!saved.empty() && context->needs_input_grad(1)) {
      grad_weights = at::zeros_like(saved[1]);
      LAGOM_DISPATCH(grad.scalar_type(), "segment_sum_backward", [&] {
        weight_gradient(index->by_output(), saved[0].const_data_ptr<scalar_t>(),
                        grad.const_data_ptr<scalar_t>(), row_width(grad),
                        grad_weights.mutable_data_ptr<scalar_t>());
      });
    }
    at::Tensor grad_x;
    if (context->needs_input_grad(0)) {
      grad_x = sum_rows(grad, index->by_input(), saved.empty() ? at::Tensor() : saved[1], nullptr);
    }
    return {grad_x, grad_weights, at::Tensor(), at::Tensor()};
  }
};

struct SegmentMax : torch::autograd::Function<SegmentMax> {
  static Variable forward(AutogradContext* context, const Variable& x,
                          const SegmentIndexPtr& index) {
    const at::Tensor rows = x.contiguous();
    const Csr& csr = index->by_output();
    at::Tensor out = at::empty(with_rows(rows, csr.num_rows()), rows.options());
    // Number of the winning edge in the list, -1 for empty segments.
    at::Tensor winners = at::empty(out.sizes(), rows.options().dtype(at::kInt));
    const int64_t width = row_width(rows);
    LAGOM_DISPATCH(rows.scalar_type(), "segment_max", [&] {
      const auto* from = rows.const_data_ptr<scalar_t>();
      auto* to = out.mutable_data_ptr<scalar_t>();
      auto* winner = winners.mutable_data_ptr<int>();
      at::parallel_for(0, csr.num_rows(), grain(width), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) max_row(csr, i, from, width, to, winner);
      });
    });
    context->save_for_backward({winners});
    context->saved_data["index"] = KeptValue<SegmentIndexPtr>::keep(index);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto& index = KeptValue<SegmentIndexPtr>::of(context->saved_data["index"]);
    const at::Tensor winners = context->get_saved_variables()[0];
    const at::Tensor grad = gradients[0].contiguous();
    const Csr& csr = index->by_input();
    at::Tensor out = at::zeros(with_rows(grad, csr.num_rows()), grad.options());
    const int64_t width = row_width(grad);
    LAGOM_DISPATCH(grad.scalar_type(), "segment_max_backward", [&] {
      const auto* from = grad.const_data_ptr<scalar_t>();
      const auto* winner = winners.const_data_ptr<int>();
      auto* to = out.mutable_data_ptr<scalar_t>();
      at::parallel_for(0, csr.num_rows(), grain(width), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          for (int64_t k = csr.offsets[i]; k < csr.offsets[i + 1]; ++k) {
            const int64_t output = csr.neighbors[k] * width;
            for (int64_t c = 0; c < width; ++c) {
              if (winner[output + c] == csr.edges[k]) to[i * width + c] += from[output + c];
            }
          }
        }
      });
    });
    return {out, at::Tensor()};
  }

 private:
  template <typename T>
  static void max_row(const Csr& csr, int64_t row, const T* x, int64_t width, T* out, int* winner) {
    T* to = out + row * width;
    int* won = winner + row * width;
    std::fill_n(to, width, T(0));
    std::fill_n(won, width, -1);
    for (int64_t k = csr.offsets[row]; k < csr.offsets[row + 1]; ++k) {
      const T* from = x + csr.neighbors[k] * width;
      const bool is_first = k == csr.offsets[row];
      for (int64_t c = 0; c < width; ++c) {
        if (is_first || from[c] > to[c]) {
          to[c] = from[c];
          won[c] = csr.edges[k];
        }
      }
    }
  }
};

}  // namespace

SegmentIndex::SegmentIndex(int64_t num_outputs, int64_t num_inputs,
                           std::span<const int32_t> outputs, std::span<const int32_t> inputs) {
  if (outputs.size() != inputs.size()) {
    throw std::invalid_argument("SegmentIndex: ends of edges differ in number");
  }
  const auto check = [](std::span<const int32_t> rows, int64_t count) {
    for (const int32_t row : rows) {
      if (row < 0 || row >= count) {
        throw std::invalid_argument("SegmentIndex: there is no row " + std::to_string(row));
      }
    }
  };
  check(outputs, num_outputs);
  check(inputs, num_inputs);
  by_output_ = group_by(num_outputs, outputs, inputs);
  by_input_ = group_by(num_inputs, inputs, outputs);
}

template <typename T>
void segment_sum_rows(const Csr& csr, const T* x, int64_t width, const T* weights,
                      const double* scale, T* out) {
  using Sum = at::opmath_type<T>;
  at::parallel_for(0, csr.num_rows(), grain(width), [&](int64_t begin, int64_t end) {
    Sum sums[kColumns];
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t column = 0; column < width; column += kColumns) {
        const int64_t count = std::min(kColumns, width - column);
        std::fill_n(sums, count, Sum(0));
        for (int64_t k = csr.offsets[i]; k < csr.offsets[i + 1]; ++k) {
          // The lists of the next rows follow, so this also runs ahead over the row's end.
          if (k + kPrefetchRows < csr.offsets[csr.num_rows()]) {
            const T* ahead = x + csr.neighbors[k + kPrefetchRows] * width + column;
            for (int64_t c = 0; c < std::min(count, kPrefetchColumns); c += 16) {
              __builtin_prefetch(ahead + c);
            }
          }
          const T* row = x + csr.neighbors[k] * width + column;
          if (weights == nullptr) {
            for (int64_t c = 0; c < count; ++c) sums[c] += Sum(row[c]);
          } else {
            const Sum weight = Sum(weights[csr.edges[k]]);
            for (int64_t c = 0; c < count; ++c) sums[c] += weight * Sum(row[c]);
          }
        }
        const Sum factor = scale == nullptr ? Sum(1) : Sum(scale[i]);
        T* to = out + i * width + column;
        for (int64_t c = 0; c < count; ++c) to[c] = static_cast<T>(sums[c] * factor);
      }
    }
  });
}
template void segment_sum_rows(const Csr&, const float*, int64_t, const float*, const double*,
                               float*);
template void segment_sum_rows(const Csr&, const double*, int64_t, const double*, const double*,
                               double*);
template void segment_sum_rows(const Csr&, const at::BFloat16*, int64_t, const at::BFloat16*,
                               const double*, at::BFloat16*);

at::Tensor segment_sum(const at::Tensor& x, const SegmentIndexPtr& index,
                       const std::optional<at::Tensor>& weights) {
  check_input("segment_sum", x, *index);
  TORCH_CHECK_VALUE(!weights || (weights->dim() == 1 && weights->size(0) == index->num_edges() &&
                                 weights->scalar_type() == x.scalar_type()),
                    "segment_sum: expected weights [", index->num_edges(), "] of ", x.scalar_type(),
                    ", got ", weights->sizes(), " of ", weights->scalar_type());
  return SegmentSum::apply(x, weights, index, false);
}

at::Tensor segment_mean(const at::Tensor& x, const SegmentIndexPtr& index) {
  check_input("segment_mean", x, *index);
  return SegmentSum::apply(x, std::optional<at::Tensor>(), index, true);
}

at::Tensor segment_max(const at::Tensor& x, const SegmentIndexPtr& index) {
  check_input("segment_max", x, *index);
  return SegmentMax::apply(x, index);
}

}  // namespace lagom::tensor

#include "lagom/cost_model/fused_detail.h"

namespace lagom::cost_model {
namespace {

using namespace detail;
using tensor::Csr;
using tensor::WeightDots;

LAGOM_CLONES void add_row(const float* __restrict x, int64_t count, float* __restrict sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] += x[i];
}
LAGOM_CLONES void add_scaled_row(const float* __restrict x, int64_t count, float scale,
                                 float* __restrict sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] += scale * x[i];
}
LAGOM_CLONES void scale_row(float* x, int64_t count, float scale) {
  for (int64_t i = 0; i < count; ++i) x[i] *= scale;
}

/// Means over the segments of the tile's nodes that have any, one behind the other, normalised;
/// `filled` gets those nodes.
const float* gather_means(const Csr& csr, const float* x, int64_t first, int64_t nodes,
                          int64_t width, const ColumnNorm* norm, std::vector<int64_t>& filled,
                          size_t buffer) {
  filled.clear();
  float* out = scratch(buffer, nodes * width);
  for (int64_t node = first; node < first + nodes; ++node) {
    const int64_t degree = csr.degree(node);
    if (degree == 0) continue;
    float* to = out + static_cast<int64_t>(filled.size()) * width;
    std::fill_n(to, width, 0.0F);
    for (int64_t k = csr.offsets[node]; k < csr.offsets[node + 1]; ++k) {
      add_row(x + csr.neighbors[k] * width, width, to);
    }
    if (degree > 1) scale_row(to, width, 1.0F / static_cast<float>(degree));
    filled.push_back(node);
  }
  // The norm is linear: that of the mean is the mean of the norms.
  if (norm != nullptr) {
    normalize_in_place(out, static_cast<int64_t>(filled.size()), width, *norm);
  }
  return out;
}

/// Of the tile's nodes that stand in any segment: the sum of those segments' gradients, each by
/// its size. `filled` gets those nodes.
const float* gather_mean_gradients(const tensor::SegmentIndex& index, const float* grad,
                                   int64_t first, int64_t nodes, int64_t width,
                                   std::vector<int64_t>& filled, size_t buffer) {
  filled.clear();
  float* out = scratch(buffer, nodes * width);
  const Csr& csr = index.by_input();
  for (int64_t node = first; node < first + nodes; ++node) {
    if (csr.degree(node) == 0) continue;
    float* to = out + static_cast<int64_t>(filled.size()) * width;
    std::fill_n(to, width, 0.0F);
    for (int64_t k = csr.offsets[node]; k < csr.offsets[node + 1]; ++k) {
      const int64_t segment = csr.neighbors[k];
      add_scaled_row(grad + segment * width, width,
                     1.0F / static_cast<float>(index.by_output().degree(segment)), to);
    }
    filled.push_back(node);
  }
  return out;
}

}  // namespace

void sage_forward(const ConvShape& shape, const tensor::SegmentIndex* index, const float* neighbors,
                  const float* self, const float* bias, const float* x, const ColumnNorm* norm,
                  float* out) {
  const WeightDots self_dots(self, shape.out, shape.in, shape.precision);
  const WeightDots neighbor_dots(neighbors, shape.out, index == nullptr ? 0 : shape.in,
                                 shape.precision);
  const int64_t c = shape.configs, in_row = c * shape.in, out_row = c * shape.out;
  for_each_tile(shape.nodes, c, [&](int64_t, int64_t first, int64_t nodes) {
    const float* z = normalized(x + first * in_row, nodes, in_row, norm, 0);
    float* y = out + first * out_row;
    for (int64_t r = 0; r < nodes * c; ++r) std::copy_n(bias, shape.out, y + r * shape.out);
    self_dots.forward(z, nodes * c, y, /*adds=*/true);
    if (index == nullptr) return;
    thread_local std::vector<int64_t> filled;
    const float* means = gather_means(index->by_output(), x, first, nodes, in_row, norm, filled, 1);
    const auto count = static_cast<int64_t>(filled.size());
    float* added = scratch(2, count * out_row);
    neighbor_dots.forward(means, count * c, added, /*adds=*/false);
    for (int64_t i = 0; i < count; ++i) {
      add_row(added + i * out_row, out_row, out + filled[static_cast<size_t>(i)] * out_row);
    }
  });
}

ConvGradients sage_backward(const ConvShape& shape, const tensor::SegmentIndex* index,
                            const float* neighbors, const float* self, const float* x,
                            const ColumnNorm* norm, const float* grad, float* grad_x) {
  const WeightDots self_dots(self, shape.out, shape.in, shape.precision);
  const WeightDots neighbor_dots(neighbors, shape.out, index == nullptr ? 0 : shape.in,
                                 shape.precision);
  const int64_t c = shape.configs, in_row = c * shape.in, out_row = c * shape.out;
  const auto weight = static_cast<size_t>(shape.out * shape.in);
  std::vector<ConvGradients> parts(static_cast<size_t>(num_parts(shape.nodes, c)));
  for (ConvGradients& part : parts) {
    part.self.assign(weight, 0);
    part.bias.assign(static_cast<size_t>(shape.out), 0);
    if (index != nullptr) part.neighbors.assign(weight, 0);
  }
  for_each_tile(shape.nodes, c, [&](int64_t number, int64_t first, int64_t nodes) {
    ConvGradients& part = parts[static_cast<size_t>(number)];
    const int64_t rows = nodes * c;
    const float* z = normalized(x + first * in_row, nodes, in_row, norm, 0);
    const float* dy = grad + first * out_row;
    add_column_sums(dy, rows, shape.out, part.bias.data());
    self_dots.weight_gradient(dy, z, rows, part.self.data());
    if (grad_x != nullptr) {
      self_dots.input_gradient(dy, rows, grad_x + first * in_row, /*adds=*/false);
    }
    if (index == nullptr) return;
    thread_local std::vector<int64_t> filled;
    const float* means = gather_means(index->by_output(), x, first, nodes, in_row, norm, filled, 1);
    const auto count = static_cast<int64_t>(filled.size());
    if (count == 0) return;
    float* packed = scratch(2, count * out_row);
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(grad + filled[static_cast<size_t>(i)] * out_row, out_row, packed + i * out_row);
    }
    neighbor_dots.weight_gradient(packed, means, count * c, part.neighbors.data());
  });
  if (grad_x != nullptr && index != nullptr) {
    // The gathered gradients, not the products, go back along the edges: no buffer of all nodes.
    for_each_tile(shape.nodes, c, [&](int64_t, int64_t first, int64_t nodes) {
      thread_local std::vector<int64_t> filled;
      const float* gathered = gather_mean_gradients(*index, grad, first, nodes, out_row, filled, 1);
      const auto count = static_cast<int64_t>(filled.size());
      float* products = scratch(2, count * in_row);
      neighbor_dots.input_gradient(gathered, count * c, products, /*adds=*/false);
      for (int64_t i = 0; i < count; ++i) {
        add_row(products + i * in_row, in_row, grad_x + filled[static_cast<size_t>(i)] * in_row);
      }
    });
  }
  if (grad_x != nullptr && norm != nullptr) {
    normalize_backward(x, shape.nodes, in_row, *norm, grad_x);
  }
  ConvGradients sum;
  for (const ConvGradients& part : parts) {
    add_to(sum.neighbors, part.neighbors);
    add_to(sum.self, part.self);
    add_to(sum.bias, part.bias);
  }
  return sum;
}

}  // namespace lagom::cost_model

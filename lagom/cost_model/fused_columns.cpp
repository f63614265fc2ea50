#include <cmath>

#include "lagom/cost_model/fused_detail.h"
#include "lagom/cost_model/fused_math.h"

namespace lagom::cost_model {
namespace {

constexpr int64_t kColumns = 256;  // of a block: N rows of 1 kB stay in the last-level cache

constexpr int64_t kRowsInFloat = 16;  // are summed in float, those sums in double

LAGOM_INLINE void add_sums(const float* part, int64_t count, double* sums) {
  for (int64_t c = 0; c < count; ++c) sums[c] += static_cast<double>(part[c]);
}

LAGOM_CLONES void block_norm(const float* x, int64_t rows, int64_t width, int64_t count,
                             float* mean, float* inverse) {
  double sums[kColumns];
  std::fill_n(sums, count, 0.0);
  float part[kColumns];
  for (int64_t first = 0; first < rows; first += kRowsInFloat) {
    std::fill_n(part, count, 0.0F);
    for (int64_t i = first; i < std::min(first + kRowsInFloat, rows); ++i) {
      for (int64_t c = 0; c < count; ++c) part[c] += x[i * width + c];
    }
    add_sums(part, count, sums);
  }
  for (int64_t c = 0; c < count; ++c) mean[c] = static_cast<float>(sums[c] / rows);
  std::fill_n(sums, count, 0.0);
  for (int64_t first = 0; first < rows; first += kRowsInFloat) {
    std::fill_n(part, count, 0.0F);
    for (int64_t i = first; i < std::min(first + kRowsInFloat, rows); ++i) {
      for (int64_t c = 0; c < count; ++c) {
        const float d = x[i * width + c] - mean[c];
        part[c] += d * d;
      }
    }
    add_sums(part, count, sums);
  }
  for (int64_t c = 0; c < count; ++c) {
    inverse[c] = static_cast<float>(1 / std::sqrt(sums[c] / rows + 1e-5));
  }
}

LAGOM_CLONES void block_norm_backward(const float* x, int64_t rows, int64_t width, int64_t count,
                                      const float* mean, const float* inverse, float* grad) {
  double sums[kColumns], products[kColumns];
  std::fill_n(sums, count, 0.0);
  std::fill_n(products, count, 0.0);
  float part[kColumns], product[kColumns];
  for (int64_t first = 0; first < rows; first += kRowsInFloat) {
    std::fill_n(part, count, 0.0F);
    std::fill_n(product, count, 0.0F);
    for (int64_t i = first; i < std::min(first + kRowsInFloat, rows); ++i) {
      for (int64_t c = 0; c < count; ++c) {
        const float g = grad[i * width + c];
        part[c] += g;
        product[c] += g * ((x[i * width + c] - mean[c]) * inverse[c]);
      }
    }
    add_sums(part, count, sums);
    add_sums(product, count, products);
  }
  float shift[kColumns], slope[kColumns];
  for (int64_t c = 0; c < count; ++c) {
    shift[c] = static_cast<float>(sums[c] / rows);
    slope[c] = static_cast<float>(products[c] / rows) * inverse[c];
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < count; ++c) {
      float& g = grad[i * width + c];
      g = inverse[c] * (g - shift[c] - (x[i * width + c] - mean[c]) * slope[c]);
    }
  }
}

LAGOM_CLONES void normalize_rows(const float* __restrict x, int64_t rows, int64_t width,
                                 const float* __restrict mean, const float* __restrict inverse,
                                 float* __restrict out) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < width; ++c) {
      out[i * width + c] = (x[i * width + c] - mean[c]) * inverse[c];
    }
  }
}

LAGOM_CLONES void normalize_rows_in_place(float* __restrict x, int64_t rows, int64_t width,
                                          const float* __restrict mean,
                                          const float* __restrict inverse) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < width; ++c) {
      x[i * width + c] = (x[i * width + c] - mean[c]) * inverse[c];
    }
  }
}

template <typename F>
void for_each_column_block(int64_t width, F&& f) {
  const int64_t blocks = (width + kColumns - 1) / kColumns;
  at::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      f(b * kColumns, std::min(kColumns, width - b * kColumns));
    }
  });
}

LAGOM_CLONES void add_rows_to(const float* __restrict x, int64_t rows, int64_t width,
                              float* __restrict sums) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < width; ++k) sums[k] += x[r * width + k];
  }
}

}  // namespace

namespace detail {

void normalize_in_place(float* x, int64_t rows, int64_t width, const ColumnNorm& norm) {
  normalize_rows_in_place(x, rows, width, norm.mean.data(), norm.inverse.data());
}

const float* normalized(const float* x, int64_t nodes, int64_t width, const ColumnNorm* norm,
                        size_t buffer) {
  if (norm == nullptr) return x;
  float* z = scratch(buffer, nodes * width);
  normalize_rows(x, nodes, width, norm->mean.data(), norm->inverse.data(), z);
  return z;
}

void add_column_sums(const float* x, int64_t rows, int64_t width, float* sums) {
  add_rows_to(x, rows, width, sums);
}

}  // namespace detail

ColumnNorm column_norm(const float* x, int64_t rows, int64_t width) {
  ColumnNorm norm{.mean = std::vector<float>(static_cast<size_t>(width)),
                  .inverse = std::vector<float>(static_cast<size_t>(width))};
  for_each_column_block(width, [&](int64_t first, int64_t count) {
    block_norm(x + first, rows, width, count, norm.mean.data() + first,
               norm.inverse.data() + first);
  });
  return norm;
}

void normalize(const float* x, int64_t rows, int64_t width, const ColumnNorm& norm, float* out) {
  at::parallel_for(0, rows, 1, [&](int64_t begin, int64_t end) {
    normalize_rows(x + begin * width, end - begin, width, norm.mean.data(), norm.inverse.data(),
                   out + begin * width);
  });
}

void normalize_backward(const float* x, int64_t rows, int64_t width, const ColumnNorm& norm,
                        float* grad) {
  for_each_column_block(width, [&](int64_t first, int64_t count) {
    block_norm_backward(x + first, rows, width, count, norm.mean.data() + first,
                        norm.inverse.data() + first, grad + first);
  });
}

}  // namespace lagom::cost_model

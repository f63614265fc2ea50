#include "lagom/lm/kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lagom/lm/simd.h"

namespace lagom::lm::kernels {
namespace {

using simd::all;
using simd::Floats;
using simd::kWidth;

/// body(offset, count): whole vectors, then what is left over.
template <typename Body>
LAGOM_INLINE void for_vectors(int64_t width, Body&& body) {
  int64_t i = 0;
  for (; i + kWidth <= width; i += kWidth) body(i, kWidth);
  if (i < width) body(i, width - i);
}

template <typename T>
LAGOM_INLINE Floats read(const T* p, int64_t n) {
  return n == kWidth ? simd::load(p) : simd::load_part(p, n);
}
template <typename T>
LAGOM_INLINE void write(T* p, Floats v, int64_t n) {
  if (n == kWidth) {
    simd::store(p, v);
  } else {
    simd::store_part(p, v, n);
  }
}

constexpr float kGeluScale = 1.5957691216057308F;  // 2 sqrt(2 / pi)
constexpr float kGeluCube = 0.044715F;

template <typename T>
LAGOM_INLINE void rms_norm_of(const float* x, const float* weight, int64_t rows, int64_t width,
                              float epsilon, T* y, float* inverse_rms) {
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    Floats squares{};
    for_vectors(width, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
      const Floats v = read(x + i, n);
      squares += v * v;
    });
    const float inverse = 1 / std::sqrt(simd::sum(squares) / static_cast<float>(width) + epsilon);
    inverse_rms[r] = inverse;
    for_vectors(width, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
      write(y + i, read(x + i, n) * inverse * read(weight + i, n), n);
    });
  }
}

template <typename T>
LAGOM_INLINE void rms_norm_gradient_of(const T* grad_y, const float* x, const float* weight,
                                       const float* inverse_rms, int64_t rows, int64_t width,
                                       float* grad_x, float* grad_weight) {
  for (int64_t r = 0; r < rows; ++r, x += width, grad_y += width, grad_x += width) {
    const float inverse = inverse_rms[r];
    Floats dot{};
    for_vectors(width, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
      const Floats g = read(grad_y + i, n), v = read(x + i, n);
      dot += g * read(weight + i, n) * v;
      write(grad_weight + i, read(grad_weight + i, n) + g * v * inverse, n);
    });
    const float shift = simd::sum(dot) * inverse * inverse * inverse / static_cast<float>(width);
    for_vectors(width, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
      const Floats g = read(grad_y + i, n) * read(weight + i, n);
      write(grad_x + i, g * inverse - read(x + i, n) * shift, n);
    });
  }
}

template <typename T>
LAGOM_INLINE void gelu_of(const T* x, int64_t count, T* y) {
  for_vectors(count, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
    const Floats v = read(x + i, n);
    write(y + i, v * simd::sigmoid(kGeluScale * (v + kGeluCube * v * v * v)), n);
  });
}

template <typename T>
LAGOM_INLINE void gelu_gradient_of(const T* grad_y, const T* x, int64_t count, T* grad_x) {
  for_vectors(count, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
    const Floats v = read(x + i, n);
    const Floats s = simd::sigmoid(kGeluScale * (v + kGeluCube * v * v * v));
    const Floats slope = kGeluScale * (1.0F + 3 * kGeluCube * v * v);
    write(grad_x + i, read(grad_y + i, n) * (s + v * s * (1.0F - s) * slope), n);
  });
}

template <typename T>
LAGOM_INLINE void swiglu_of(const T* gate_up, int64_t rows, int64_t width, T* y) {
  for (int64_t r = 0; r < rows; ++r, gate_up += 2 * width, y += width) {
    for_vectors(width, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
      const Floats gate = read(gate_up + i, n);
      write(y + i, gate * simd::sigmoid(gate) * read(gate_up + width + i, n), n);
    });
  }
}

template <typename T>
LAGOM_INLINE void swiglu_gradient_of(const T* grad_y, const T* gate_up, int64_t rows, int64_t width,
                                     T* grad_gate_up) {
  for (int64_t r = 0; r < rows;
       ++r, gate_up += 2 * width, grad_y += width, grad_gate_up += 2 * width) {
    for_vectors(width, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
      const Floats gate = read(gate_up + i, n), g = read(grad_y + i, n);
      const Floats s = simd::sigmoid(gate);
      write(grad_gate_up + i, g * read(gate_up + width + i, n) * s * (1.0F + gate * (1.0F - s)), n);
      write(grad_gate_up + width + i, g * gate * s, n);
    });
  }
}

template <typename T>
LAGOM_INLINE void rotate_of(T* x, const int64_t* row_positions, const float* cosines,
                            const float* sines, int64_t rows, int64_t row_width, int64_t heads,
                            int64_t head_dim, bool inverse) {
  const int64_t half = head_dim / 2;
  const float sign = inverse ? -1.0F : 1.0F;
  for (int64_t r = 0; r < rows; ++r, x += row_width) {
    const float* cosine = cosines + row_positions[r] * half;
    const float* sine = sines + row_positions[r] * half;
    for (int64_t h = 0; h < heads; ++h) {
      T* low = x + h * head_dim;
      T* high = low + half;
      for_vectors(half, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
        const Floats a = read(low + i, n), b = read(high + i, n);
        const Floats c = read(cosine + i, n), s = read(sine + i, n) * sign;
        write(low + i, a * c - b * s, n);
        write(high + i, b * c + a * s, n);
      });
    }
  }
}

}  // namespace

LAGOM_CLONES
void rms_norm(const float* x, const float* weight, int64_t rows, int64_t width, float epsilon,
              float* y, float* inverse_rms) {
  rms_norm_of(x, weight, rows, width, epsilon, y, inverse_rms);
}

LAGOM_CLONES
void rms_norm(const float* x, const float* weight, int64_t rows, int64_t width, float epsilon,
              uint16_t* y, float* inverse_rms) {
  rms_norm_of(x, weight, rows, width, epsilon, y, inverse_rms);
}

LAGOM_CLONES
void rms_norm_gradient(const float* grad_y, const float* x, const float* weight,
                       const float* inverse_rms, int64_t rows, int64_t width, float* grad_x,
                       float* grad_weight) {
  rms_norm_gradient_of(grad_y, x, weight, inverse_rms, rows, width, grad_x, grad_weight);
}

LAGOM_CLONES
void rms_norm_gradient(const uint16_t* grad_y, const float* x, const float* weight,
                       const float* inverse_rms, int64_t rows, int64_t width, float* grad_x,
                       float* grad_weight) {
  rms_norm_gradient_of(grad_y, x, weight, inverse_rms, rows, width, grad_x, grad_weight);
}

LAGOM_CLONES
void layer_norm(const float* x, const float* weight, const float* bias, int64_t rows, int64_t width,
                float epsilon, float* y) {
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    Floats total{}, squares{};
    for_vectors(width, [&](int64_t i, int64_t n)
                           __attribute__((always_inline)) { total += read(x + i, n); });
    const float mean = simd::sum(total) / static_cast<float>(width);
    for_vectors(width, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
      write(y + i, read(x + i, n) - mean, n);
      const Floats v = read(y + i, n);
      squares += v * v;
    });
    const float inverse = 1 / std::sqrt(simd::sum(squares) / static_cast<float>(width) + epsilon);
    for_vectors(width, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
      write(y + i, read(y + i, n) * inverse * read(weight + i, n) + read(bias + i, n), n);
    });
  }
}

LAGOM_CLONES
void gelu(const float* x, int64_t count, float* y) {
  gelu_of(x, count, y);
}

LAGOM_CLONES
void gelu(const uint16_t* x, int64_t count, uint16_t* y) {
  gelu_of(x, count, y);
}

LAGOM_CLONES
void gelu_gradient(const float* grad_y, const float* x, int64_t count, float* grad_x) {
  gelu_gradient_of(grad_y, x, count, grad_x);
}

LAGOM_CLONES
void gelu_gradient(const uint16_t* grad_y, const uint16_t* x, int64_t count, uint16_t* grad_x) {
  gelu_gradient_of(grad_y, x, count, grad_x);
}

LAGOM_CLONES
void swiglu(const float* gate_up, int64_t rows, int64_t width, float* y) {
  swiglu_of(gate_up, rows, width, y);
}

LAGOM_CLONES
void swiglu(const uint16_t* gate_up, int64_t rows, int64_t width, uint16_t* y) {
  swiglu_of(gate_up, rows, width, y);
}

LAGOM_CLONES
void swiglu_gradient(const float* grad_y, const float* gate_up, int64_t rows, int64_t width,
                     float* grad_gate_up) {
  swiglu_gradient_of(grad_y, gate_up, rows, width, grad_gate_up);
}

LAGOM_CLONES
void swiglu_gradient(const uint16_t* grad_y, const uint16_t* gate_up, int64_t rows, int64_t width,
                     uint16_t* grad_gate_up) {
  swiglu_gradient_of(grad_y, gate_up, rows, width, grad_gate_up);
}

LAGOM_CLONES
void rotate(float* x, const int64_t* row_positions, const float* cosines, const float* sines,
            int64_t rows, int64_t row_width, int64_t heads, int64_t head_dim, bool inverse) {
  rotate_of(x, row_positions, cosines, sines, rows, row_width, heads, head_dim, inverse);
}

LAGOM_CLONES
void rotate(uint16_t* x, const int64_t* row_positions, const float* cosines, const float* sines,
            int64_t rows, int64_t row_width, int64_t heads, int64_t head_dim, bool inverse) {
  rotate_of(x, row_positions, cosines, sines, rows, row_width, heads, head_dim, inverse);
}

LAGOM_CLONES
void causal_softmax(float* scores, int64_t rows, int64_t columns, int64_t begin,
                    const int64_t* first, float scale) {
  for (int64_t r = 0; r < rows; ++r, scores += columns) {
    const int64_t low = first ? first[r] : 0, high = begin + r + 1;
    float* seen = scores + low;
    float peak = seen[0];
    for (int64_t i = 1; i < high - low; ++i) peak = peak < seen[i] ? seen[i] : peak;
    Floats total{};
    for_vectors(high - low, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
      write(seen + i, simd::exp((read(seen + i, n) - peak) * scale), n);
      total += read(seen + i, n);
    });
    const float inverse = 1 / simd::sum(total);
    for_vectors(high - low, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
      write(seen + i, read(seen + i, n) * inverse, n);
    });
    std::fill(scores, seen, 0.0F);
    std::fill(scores + high, scores + columns, 0.0F);
  }
}

/// gradients = probabilities (gradients - sum(probabilities gradients)) scale, of one row.
template <typename T>
LAGOM_INLINE void softmax_gradient_row(const T* probabilities, int64_t columns, float scale,
                                       T* gradients) {
  Floats dot{};
  for_vectors(columns, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
    dot += read(probabilities + i, n) * read(gradients + i, n);
  });
  const float mean = simd::sum(dot);
  for_vectors(columns, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
    const Floats g = read(gradients + i, n) - mean;
    write(gradients + i, read(probabilities + i, n) * g * scale, n);
  });
}

LAGOM_CLONES
void softmax_gradient(const float* probabilities, int64_t rows, int64_t columns, float scale,
                      float* gradients) {
  for (int64_t r = 0; r < rows; ++r, probabilities += columns, gradients += columns) {
    softmax_gradient_row(probabilities, columns, scale, gradients);
  }
}

LAGOM_CLONES
void causal_softmax(uint16_t* scores, int64_t seen, int64_t columns, int64_t first, float scale) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  const uint16_t* row = scores + first;
  const int64_t count = seen - first;
  Floats highest = all(kLowest);
  float peak = kLowest;
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    const Floats v = simd::load(row + i);
    highest = highest < v ? v : highest;
  }
  for (int64_t k = 0; k < kWidth; ++k) peak = std::max(peak, highest[k]);
  if (i < count) {
    const Floats v = simd::load_part(row + i, count - i);
    for (int64_t k = 0; k < count - i; ++k) peak = std::max(peak, v[k]);
  }
  float exponentials[kLongestKeptRow];
  Floats sums{};
  for_vectors(count, [&](int64_t at, int64_t n) __attribute__((always_inline)) {
    write(exponentials + at, simd::exp((read(row + at, n) - peak) * scale), n);
    sums += read(exponentials + at, n);
  });
  const float inverse = 1 / simd::sum(sums);
  for_vectors(count, [&](int64_t at, int64_t n) __attribute__((always_inline)) {
    write(scores + first + at, read(exponentials + at, n) * inverse, n);
  });
  std::fill(scores, scores + first, uint16_t{0});
  std::fill(scores + seen, scores + columns, uint16_t{0});
}

LAGOM_CLONES
void softmax_gradient(const uint16_t* probabilities, int64_t columns, float scale,
                      uint16_t* gradients) {
  softmax_gradient_row(probabilities, columns, scale, gradients);
}

LAGOM_CLONES
float cross_entropy_in_place(float* logits, int64_t width, int64_t target, float scale) {
  float peak = logits[0];
  for (int64_t i = 1; i < width; ++i) peak = peak < logits[i] ? logits[i] : peak;
  const float target_logit = logits[target];
  Floats total{};
  for_vectors(width, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
    const Floats e = simd::exp(read(logits + i, n) - peak);
    write(logits + i, e, n);
    total += read(logits + i, n);
  });
  const float sum = simd::sum(total);
  const Floats factor = all(scale / sum);
  for_vectors(width, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
    write(logits + i, read(logits + i, n) * factor, n);
  });
  logits[target] -= scale;
  return std::log(sum) + peak - target_logit;
}

LAGOM_CLONES
void add_rows(const float* update, const float* scale, const int64_t* indices, int64_t count,
              int64_t width, float* out) {
  for (int64_t r = 0; r < count; ++r, update += width) {
    float* row = out + indices[r] * width;
    const float factor = scale[r];
    for_vectors(width, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
      write(row + i, read(row + i, n) + factor * read(update + i, n), n);
    });
  }
}

LAGOM_CLONES
void add_rows_gradient(const float* grad_out, const float* update, const float* scale,
                       const int64_t* indices, int64_t count, int64_t width, float* grad_update,
                       float* grad_scale) {
  for (int64_t r = 0; r < count; ++r, update += width, grad_update += width) {
    const float* row = grad_out + indices[r] * width;
    const float factor = scale[r];
    Floats dot{};
    for_vectors(width, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
      const Floats g = read(row + i, n);
      dot += g * read(update + i, n);
      write(grad_update + i, factor * g, n);
    });
    grad_scale[r] = simd::sum(dot);
  }
}

}  // namespace lagom::lm::kernels

#include <cmath>
#include <numbers>
#include <utility>

#include "lagom/hlo/evaluator_detail.h"

namespace lagom::hlo::evaluation {
namespace {

// An array's real and imaginary parts.
struct Planes {
  Values re, im;
};

Planes planes_of(const Shape& shape, const Values& numbers) {
  if (!is_complex(shape.element_type)) return {numbers, Values(numbers.size(), 0.0)};
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  return {{numbers.begin(), middle}, {middle, numbers.end()}};
}

Values joined(Planes planes) {
  planes.re.insert(planes.re.end(), planes.im.begin(), planes.im.end());
  return std::move(planes.re);
}

// cos and sin of 2 pi k / n.
Planes roots_of_unity(size_t n) {
  Planes roots;
  for (size_t k = 0; k < n; ++k) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    roots.re.push_back(std::cos(angle));
    roots.im.push_back(std::sin(angle));
  }
  return roots;
}

// The discrete Fourier transform of every line along one dimension, straight from its definition:
// element m of a line of n is sum_k x[k] exp(-+2 pi i k m / size), for m < outputs. An inverse one
// is divided by `size`. `weight(k)` multiplies x[k].
template <typename Weight>
Planes transform_lines(Context& context, const Instruction& i, const Dims& dims, size_t axis,
                       size_t outputs, size_t size, bool inverse, const Planes& x,
                       Weight&& weight) {
  const auto n = static_cast<size_t>(dims[axis]);
  const auto step = static_cast<size_t>(row_major_strides(dims)[axis]);
  const size_t lines = n == 0 ? 0 : x.re.size() / n;
  context.charge(i, 2.0 * static_cast<double>(lines * outputs) * static_cast<double>(n));
  const Planes roots = roots_of_unity(size);
  Planes y = {Values(lines * outputs), Values(lines * outputs)};
  for (size_t line = 0; line < lines; ++line) {
    const size_t from = line / step * step * n + line % step;
    const size_t to = line / step * step * outputs + line % step;
    for (size_t m = 0; m < outputs; ++m) {
      double re = 0, im = 0;
      for (size_t k = 0; k < n; ++k) {
        const double cosine = roots.re[k * m % size];
        const double sine = inverse ? roots.im[k * m % size] : -roots.im[k * m % size];
        const double a = weight(k) * x.re[from + k * step];
        const double b = weight(k) * x.im[from + k * step];
        re += a * cosine - b * sine;
        im += a * sine + b * cosine;
      }
      const double factor = inverse ? 1 / static_cast<double>(size) : 1;
      y.re[to + m * step] = re * factor;
      y.im[to + m * step] = im * factor;
    }
  }
  return y;
}

}  // namespace

Value complex_parts(const Instruction& i, Operands operands) {
  if (i.opcode == Opcode::kComplex) {
    return joined({operands[0].numbers(), operands[1].numbers()});
  }
  Planes planes = planes_of(i.operand(0).shape, operands[0].numbers());
  return i.opcode == Opcode::kReal ? std::move(planes.re) : std::move(planes.im);
}

Value fft(Context& context, const Instruction& i, Operands operands) {
  const std::string& type = i.rare().fft_type;
  const Dims& length = i.rare().fft_length;
  Dims dims = i.operand(0).shape.dimensions;
  const size_t first = dims.size() - length.size();
  const size_t last = dims.size() - 1;
  const bool inverse = type == "IFFT" || type == "IRFFT";
  context.allocate(i);
  Planes x = planes_of(i.operand(0).shape, operands[0].numbers());
  const auto whole = [](size_t) { return 1.0; };
  const auto size = static_cast<size_t>(length.back());
  const auto transform_last = [&] {
    const auto outputs = static_cast<size_t>(i.shape.dimensions.back());
    if (type != "IRFFT") {
      x = transform_lines(context, i, dims, last, outputs, size, inverse, x, whole);
    } else {
      // The half that is not given is the mirror image: its terms have the same real parts.
      const auto mirrored = [size](size_t k) { return k == 0 || 2 * k == size ? 1.0 : 2.0; };
      x = transform_lines(context, i, dims, last, outputs, size, inverse, x, mirrored);
    }
    dims.back() = i.shape.dimensions.back();
  };
  if (type != "IRFFT") transform_last();
  for (size_t axis = first; axis < last; ++axis) {
    const auto n = static_cast<size_t>(dims[axis]);
    x = transform_lines(context, i, dims, axis, n, n, inverse, x, whole);
  }
  if (type == "IRFFT") {
    transform_last();
    return std::move(x.re);
  }
  return joined(std::move(x));
}

}  // namespace lagom::hlo::evaluation

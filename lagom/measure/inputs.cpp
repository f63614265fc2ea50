#include "lagom/measure/inputs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace lagom::measure {
namespace {

constexpr std::array<std::string_view, 6> kRoleNames = {"zeros",    "activation", "weight",
                                                        "positive", "index",      "pred"};

// A 64-bit mix of a counter (the finalizer of splitmix64): equal inputs give equal bits, whatever
// the order in which elements are made.
uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
constexpr size_t kTableSize = size_t{1} << 16;

using Table = std::vector<double>;  // kTableSize + 1 quantiles, ascending

// Quantiles of the standard normal distribution at (k + 1/2) / (kTableSize + 1).
const Table& normal_quantiles() {
  static const Table table = [] {
    Table t(kTableSize + 1);
    const size_t middle = kTableSize / 2;
    double x = 0;
    for (size_t k = middle; k <= kTableSize; ++k) {
      const double p = (static_cast<double>(k) + 0.5) / (kTableSize + 1.0);
      // Newton from the neighbour: three steps reach double precision.
      for (int step = 0; step < 3; ++step) {
        const double upper_tail = std::erfc(x / std::sqrt(2.0)) / 2;
        const double density = std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
        x += (upper_tail - (1 - p)) / density;
      }
      t[k] = x;
      t[kTableSize - k] = -x;
    }
    return t;
  }();
  return table;
}

Table uniform_quantiles(double low, double high) {
  Table t(kTableSize + 1);
  for (size_t k = 0; k <= kTableSize; ++k) {
    t[k] = low + (high - low) * static_cast<double>(k) / kTableSize;
  }
  return t;
}

Table quantiles_of(const InputSpec& spec) {
  Table table;
  double factor = spec.scale;
  switch (spec.role) {
    case InputRole::kPositive:
      table = uniform_quantiles(0.5, 1.5);
      break;
    case InputRole::kZeros:
      table.assign(kTableSize + 1, 0.0);
      break;
    case InputRole::kWeight:
      factor *= std::sqrt(2 / std::max(spec.fan_in, 1.0));
      table = normal_quantiles();
      break;
    default:
      table = normal_quantiles();
      break;
  }
  for (double& value : table) value *= factor;
  return table;
}

// The stream of one input; `lane` sets the two parts of complex values apart.
uint64_t stream_of(const InputDraw& draw, size_t index, uint64_t lane) {
  return mix(mix(draw.seed * kStep + 1) + (index + 1) * kStep + lane * 0xd1342543de82ef95u);
}

double effective_perturbation(PrimitiveType type, const InputDraw& draw) {
  if (draw.perturbation <= 0) return 0;
  return std::max(draw.perturbation, std::ldexp(1.0, 1 - number_format(type).significand_bits));
}

// Between two quantiles the value is interpolated, so that hardly any two values are equal.
template <typename T>
void fill_interpolated(const Table& exact, uint64_t stream, size_t stride, double perturbation,
                       std::span<T> out) {
  const std::vector<T> table(exact.begin(), exact.end());
  const T down = static_cast<T>(1 - perturbation);
  const T up = static_cast<T>(1 + perturbation);
  for (size_t i = 0, at = 0; at < out.size(); ++i, at += stride) {
    const uint64_t bits = mix(stream + i * kStep);
    const T* low = &table[bits & (kTableSize - 1)];
    const T fraction = static_cast<T>((bits >> 16) & 0xffffff) * static_cast<T>(0x1p-24);
    const T value = low[0] + fraction * (low[1] - low[0]);
    out[at] = value * ((bits >> 63) != 0 ? up : down);
  }
}

template <typename T>
void fill_floats(const InputSpec& spec, size_t index, const InputDraw& draw, size_t parts,
                 std::span<char> out) {
  const double perturbation = effective_perturbation(spec.element_type, draw);
  const Table table = quantiles_of(spec);
  const std::span<T> typed(reinterpret_cast<T*>(out.data()), out.size() / sizeof(T));
  for (size_t part = 0; part < parts; ++part) {
    if (typed.size() <= part) break;
    fill_interpolated<T>(table, stream_of(draw, index, part), parts, perturbation,
                         typed.subspan(part));
  }
}

// Types of 16 bits or fewer: every quantile is encoded once.
void fill_small_floats(const InputSpec& spec, size_t index, const InputDraw& draw,
                       std::span<char> out) {
  const NumberFormat& format = number_format(spec.element_type);
  const Table exact = quantiles_of(spec);
  const double perturbation = effective_perturbation(spec.element_type, draw);
  const auto width = static_cast<size_t>(format.bytes);
  std::string table(2 * kTableSize * width, '\0');  // [quantile][down or up]
  for (size_t k = 0; k < kTableSize; ++k) {
    const double value = (exact[k] + exact[k + 1]) / 2;
    char* entry = table.data() + 2 * k * width;
    encode_number(spec.element_type, value * (1 - perturbation), entry);
    encode_number(spec.element_type, value * (1 + perturbation), entry + width);
  }
  const uint64_t stream = stream_of(draw, index, 0);
  for (size_t i = 0; i * width < out.size(); ++i) {
    const uint64_t bits = mix(stream + i * kStep);
    const size_t entry = 2 * (bits & (kTableSize - 1)) + (bits >> 63);
    std::memcpy(out.data() + i * width, table.data() + entry * width, width);
  }
}

void fill_predicates(const InputSpec& spec, uint64_t stream, std::span<char> out) {
  const bool zeros = spec.role == InputRole::kZeros;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = zeros ? 0 : static_cast<char>(mix(stream + i * kStep) & 1);
  }
}

void fill_integers(const InputSpec& spec, uint64_t stream, std::span<char> out) {
  const NumberFormat& format = number_format(spec.element_type);
  const auto width = static_cast<size_t>(format.bytes);
  if (spec.int_high < spec.int_low) {
    throw std::invalid_argument("InputSpec: int_high lies below int_low");
  }
  const bool zeros = spec.role == InputRole::kZeros;
  const auto low = static_cast<uint64_t>(spec.int_low);
  const uint64_t range = static_cast<uint64_t>(spec.int_high) - low + 1;  // 0: all 64 bits
  for (size_t i = 0; i * width < out.size(); ++i) {
    // The high half of a product spreads 64 bits over the range without a division.
    const uint64_t bits = mix(stream + i * kStep);
    const auto scaled = static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * range) >> 64);
    const uint64_t value = zeros ? 0 : low + (range == 0 ? bits : scaled);
    std::memcpy(out.data() + i * width, &value, width);  // little endian: the low bytes
  }
}

}  // namespace

std::string_view input_role_name(InputRole role) {
  return kRoleNames.at(static_cast<size_t>(role));
}

InputRole input_role_from_name(std::string_view name) {
  const auto* found = std::find(kRoleNames.begin(), kRoleNames.end(), name);
  if (found == kRoleNames.end()) {
    throw std::invalid_argument("input_role_from_name: unknown role '" + std::string(name) + "'");
  }
  return static_cast<InputRole>(found - kRoleNames.begin());
}

int64_t InputSpec::num_elements() const {
  int64_t count = 1;
  for (const int64_t d : dimensions) {
    if (d < 0 || __builtin_mul_overflow(count, d, &count)) {
      throw std::invalid_argument("InputSpec: impossible dimensions");
    }
  }
  return count;
}

int64_t InputSpec::size_bytes() const {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(num_elements(), number_format(element_type).bytes, &bytes)) {
    throw std::invalid_argument("InputSpec: impossible dimensions");
  }
  return bytes;
}

std::string make_input(const InputSpec& spec, size_t index, const InputDraw& draw) {
  std::string out(static_cast<size_t>(spec.size_bytes()), '\0');
  fill_input(spec, index, draw, out);
  return out;
}

void fill_input(const InputSpec& spec, size_t index, const InputDraw& draw, std::span<char> out) {
  if (static_cast<int64_t>(out.size()) != spec.size_bytes()) {
    throw std::invalid_argument("fill_input: the memory has another size than the input");
  }
  const NumberFormat& format = number_format(spec.element_type);
  switch (format.kind) {
    case NumberKind::kPred:
      fill_predicates(spec, stream_of(draw, index, 0), out);
      return;
    case NumberKind::kSigned:
    case NumberKind::kUnsigned:
      fill_integers(spec, stream_of(draw, index, 0), out);
      return;
    case NumberKind::kFloat:
      if (spec.element_type == PrimitiveType::kF32)
        return fill_floats<float>(spec, index, draw, 1, out);
      if (spec.element_type == PrimitiveType::kF64)
        return fill_floats<double>(spec, index, draw, 1, out);
      return fill_small_floats(spec, index, draw, out);
    case NumberKind::kComplex:
      if (spec.element_type == PrimitiveType::kC64)
        return fill_floats<float>(spec, index, draw, 2, out);
      return fill_floats<double>(spec, index, draw, 2, out);
    case NumberKind::kNone:
      break;
  }
  if (!out.empty()) throw std::invalid_argument("fill_input: no array of such elements");
}

}  // namespace lagom::measure

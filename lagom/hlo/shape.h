#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/util/box.h"
#include "lagom/util/primitive_type.h"

namespace lagom::hlo {

using ElementType = PrimitiveType;
inline constexpr int kNumElementTypes = kNumPrimitiveTypes;

/// "f32", "bf16", "pred", "token"...; "invalid" for kInvalid.
std::string_view element_type_name(ElementType type);
std::optional<ElementType> element_type_from_name(std::string_view name);
/// Width of one value in bits; sub-byte types give 1, 2 or 4; 0 for tuples, tokens and the like.
int element_bits(ElementType type);
/// Bytes that one value takes in an unpacked buffer: sub-byte types and pred take one.
int element_bytes(ElementType type);
bool is_floating(ElementType type);  ///< f16, bf16, f32, f64, f8*, f4*; not complex.
bool is_complex(ElementType type);
bool is_signed_integer(ElementType type);
bool is_unsigned_integer(ElementType type);
inline bool is_integer(ElementType type) {
  return is_signed_integer(type) || is_unsigned_integer(type);
}
/// True for types whose shape has dimensions (everything but tuple, token, opaque, buffer).
bool is_array_type(ElementType type);

using Dims = std::vector<int64_t>;

/// How an array lies in memory. `minor_to_major` lists dimensions from the fastest varying one:
/// f32[4,8,3]{2,0,1} has dimension 2 contiguous, then dimension 0; dimension 1 has the largest
/// stride.
struct Layout {
  Dims minor_to_major;
  std::vector<Dims> tiles;           ///< T(8,128)(2,1); -1 stands for '*' (combine with next).
  int64_t element_size_bits = 0;     ///< E(4); 0 = natural width.
  int64_t memory_space = 0;          ///< S(1).
  int64_t tail_padding_alignment = 1;  ///< L(n).
  /// Rare parts as their text, for instance "D(D,C)", "#(u32)", "SC(0:5)", "M(8)", "P(..)".
  std::string other;

  friend bool operator==(const Layout&, const Layout&) = default;
};

/// Type and size of a value: an array, a tuple of shapes, a token, an opaque or a buffer.
struct Shape {
  ElementType element_type = ElementType::kInvalid;
  Dims dimensions;
  std::vector<bool> dynamic;  ///< Per dimension; empty when every dimension is static.
  Box<Layout> layout;         ///< Absent when not given.
  std::vector<Shape> tuple_shapes;  ///< Elements of a tuple; the one inner shape of a buffer.

  static Shape array(ElementType type, Dims dims);
  /// Row-major layout for these dimensions, or the given order.
  static Shape array(ElementType type, Dims dims, Dims minor_to_major);
  static Shape scalar(ElementType type) { return array(type, {}); }
  static Shape tuple(std::vector<Shape> elements);
  static Shape token();

  bool is_array() const { return is_array_type(element_type); }
  bool is_tuple() const { return element_type == ElementType::kTuple; }
  bool is_scalar() const { return is_array() && dimensions.empty(); }
  bool is_dynamic() const;  ///< Any dimension, at any depth of tuples.
  int64_t rank() const { return static_cast<int64_t>(dimensions.size()); }
  /// Product of the dimensions (1 for a scalar); 0 for non-arrays.
  int64_t num_elements() const;
  /// Bytes of the dense array, sub-byte types packed; a tuple sums its elements.
  int64_t size_bytes() const;
  /// Minor-to-major order, row-major when no layout is given.
  Dims minor_to_major() const;
  /// Elements between neighbours along each dimension, in the order of the layout.
  Dims strides() const;

  /// "f32[4,8]{1,0}"; without the layout by option.
  std::string to_string(bool with_layout = true) const;

  /// Everything equal, layouts included.
  friend bool operator==(const Shape&, const Shape&) = default;
};

/// Equal up to layout: element types, dimensions, dynamic flags, tuple structure.
bool same_shape(const Shape& a, const Shape& b);
/// Equal up to layout and element type.
bool same_dimensions(const Shape& a, const Shape& b);
/// {rank-1, ..., 1, 0}.
Dims row_major(int64_t rank);
/// Readers refuse arrays with more elements: their bytes could not be counted.
inline constexpr int64_t kMaxElements = int64_t{1} << 58;
/// Product with an overflow check: nullopt past 2^62 or for a negative factor.
std::optional<int64_t> checked_product(const Dims& dims);
/// The sum of two sizes, or INT64_MAX where it would be larger.
int64_t saturating_add(int64_t a, int64_t b);

/// Parameters and result of a computation.
struct ProgramShape {
  std::vector<Shape> parameters;
  Shape result;
  std::vector<std::string> parameter_names;  ///< Empty or one per parameter.
  friend bool operator==(const ProgramShape&, const ProgramShape&) = default;
};

}  // namespace lagom::hlo

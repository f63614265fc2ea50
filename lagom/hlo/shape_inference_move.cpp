#include <algorithm>

#include "lagom/hlo/shape_inference.h"
#include "lagom/hlo/shape_inference_detail.h"

namespace lagom::hlo::inference {

Shape infer_broadcast(const Instruction& instruction) {
  const Shape& operand = array_operand(instruction, 0);
  const Shape& result = given_array(instruction);
  const Dims& dims = instruction.attributes.dimensions;
  if (static_cast<int64_t>(dims.size()) != operand.rank()) {
    fail("broadcast: expected {} dimensions for the operand {}, found {}", operand.rank(),
         text(operand), text(dims));
  }
  check_dims(dims, result.rank(), "broadcast");
  for (size_t i = 0; i < dims.size(); ++i) {
    if (operand.dimensions[i] != result.dimensions[dims[i]]) {
      fail("broadcast: dimension {} of {} becomes dimension {} of {}, of another size", i,
           text(operand), dims[i], text(result));
    }
  }
  return Shape::array(operand.element_type, result.dimensions);
}

Shape infer_reshape(const Instruction& instruction) {
  const Shape& operand = array_operand(instruction, 0);
  const Shape& result = given_array(instruction);
  const auto from = checked_product(operand.dimensions);
  const auto to = checked_product(result.dimensions);
  if (!from || from != to) {
    fail("reshape: {} and {} differ in their number of elements", text(operand), text(result));
  }
  return Shape::array(operand.element_type, result.dimensions);
}

Shape infer_bitcast_convert(const Instruction& instruction) {
  const Shape& operand = array_operand(instruction, 0);
  const Shape& result = given_array(instruction);
  const int from = element_bits(operand.element_type);
  const int to = element_bits(result.element_type);
  Dims dims = operand.dimensions;
  if (from < to) {
    if (dims.empty() || to % from != 0 || dims.back() != to / from) {
      fail("bitcast-convert: the last dimension of {} does not make one {}", text(operand),
           element_type_name(result.element_type));
    }
    dims.pop_back();
  } else if (from > to) {
    if (to == 0 || from % to != 0) {
      fail("bitcast-convert: {} does not divide into {}", text(operand),
           element_type_name(result.element_type));
    }
    dims.push_back(from / to);
  }
  return Shape::array(result.element_type, std::move(dims));
}

Shape infer_transpose(const Instruction& instruction) {
  const Shape& operand = array_operand(instruction, 0);
  const Dims& permutation = instruction.attributes.dimensions;
  if (static_cast<int64_t>(permutation.size()) != operand.rank()) {
    fail("transpose: expected a permutation of {} dimensions, found {}", operand.rank(),
         text(permutation));
  }
  check_dims(permutation, operand.rank(), "transpose");
  Dims out;
  for (int64_t d : permutation) out.push_back(operand.dimensions[d]);
  return Shape::array(operand.element_type, std::move(out));
}

Shape infer_slice(const Instruction& instruction) {
  const Shape& operand = array_operand(instruction, 0);
  const std::vector<SliceDim>& slice = instruction.attributes.slice;
  if (static_cast<int64_t>(slice.size()) != operand.rank()) {
    fail("slice: expected {} dimensions, found {}", operand.rank(), slice.size());
  }
  Dims out;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    const auto& [start, limit, stride] = slice[d];
    if (start < 0 || limit < start || limit > operand.dimensions[d] || stride < 1) {
      fail("slice: [{}:{}:{}] does not fit dimension {} of {}", start, limit, stride, d,
           text(operand));
    }
    out.push_back((limit - start) / stride + ((limit - start) % stride != 0 ? 1 : 0));
  }
  return Shape::array(operand.element_type, std::move(out));
}

Shape infer_pad(const Instruction& instruction) {
  const Shape& operand = array_operand(instruction, 0);
  const Shape& value = array_operand(instruction, 1);
  if (!value.is_scalar()) fail("pad: expected a scalar padding value, found {}", text(value));
  const std::vector<PadDim>& padding = instruction.attributes.padding;
  if (static_cast<int64_t>(padding.size()) != operand.rank()) {
    fail("pad: expected {} dimensions, found {}", operand.rank(), padding.size());
  }
  Dims out;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    out.push_back(padded_size(operand.dimensions[d], padding[d]));
  }
  return Shape::array(common_type(operand.element_type, value.element_type, "pad"), std::move(out));
}

Shape infer_concatenate(const Instruction& instruction) {
  if (instruction.operands.empty()) fail("concatenate: no operands");
  if (instruction.attributes.dimensions.size() != 1) {
    fail("concatenate: expected one dimension, found {}", text(instruction.attributes.dimensions));
  }
  const int64_t dim = instruction.attributes.dimensions[0];
  Shape result = bare(array_operand(instruction, 0));
  check_dim(dim, result.rank(), "concatenate");
  for (size_t i = 1; i < instruction.operands.size(); ++i) {
    const Shape& operand = array_operand(instruction, i);
    result.element_type = common_type(result.element_type, operand.element_type, "concatenate");
    for (int64_t d = 0; d < std::max(result.rank(), operand.rank()); ++d) {
      if (result.rank() != operand.rank() ||
          (d != dim && operand.dimensions[d] != result.dimensions[d])) {
        fail("concatenate: operand {} is {}, which does not fit {}", i, text(operand),
             text(instruction.operand(0).shape));
      }
    }
    if (__builtin_add_overflow(result.dimensions[dim], operand.dimensions[dim],
                               &result.dimensions[dim])) {
      fail("concatenate: the size of dimension {} leaves 64 bits", dim);
    }
  }
  return result;
}

}  // namespace lagom::hlo::inference

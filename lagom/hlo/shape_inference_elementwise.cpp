#include "lagom/hlo/shape_inference_detail.h"

namespace lagom::hlo::inference {

using enum Opcode;

ElementType real_type(ElementType type) {
  if (type == ElementType::kC64) return ElementType::kF32;
  if (type == ElementType::kC128) return ElementType::kF64;
  return type;
}

Shape infer_unary(const Instruction& instruction) {
  const Shape& operand = array_operand(instruction, 0);
  const ElementType type = operand.element_type;
  bool fits = true;
  ElementType result = type;
  const char* wanted = "";
  switch (instruction.opcode) {
    case kAbs:
      fits = type != ElementType::kPred;
      result = real_type(type);
      wanted = "number";
      break;
    case kReal:
    case kImag:
      fits = is_floating(type) || is_complex(type);
      result = real_type(type);
      wanted = "floating or complex";
      break;
    case kIsFinite:
      fits = is_floating(type);
      result = ElementType::kPred;
      wanted = "floating";
      break;
    case kNot:
      fits = is_integer(type) || type == ElementType::kPred;
      wanted = "integer or pred";
      break;
    case kPopulationCount:
    case kCountLeadingZeros:
      fits = is_integer(type) || type == ElementType::kPred;
      wanted = "integer";
      break;
    case kFloor:
    case kCeil:
    case kRoundNearestAfz:
    case kRoundNearestEven:
    case kReducePrecision:
    case kErf:
      fits = is_floating(type);
      wanted = "floating";
      break;
    case kNegate:
    case kSign:
      fits = type != ElementType::kPred;
      wanted = "number";
      break;
    case kConvert:
      break;
    default:
      fits = is_floating(type) || is_complex(type);
      wanted = "floating or complex";
  }
  if (!fits) {
    fail("{}: expected a {} operand, found {}", opcode_name(instruction.opcode), wanted,
         text(operand));
  }
  if (instruction.opcode == kConvert) result = given_array(instruction).element_type;
  return Shape::array(result, operand.dimensions);
}

Shape infer_binary(const Instruction& instruction) {
  const Shape& lhs = array_operand(instruction, 0);
  const Shape& rhs = array_operand(instruction, 1);
  check_same_dims(instruction, lhs, rhs);
  switch (instruction.opcode) {
    case kStochasticConvert:
      return Shape::array(given_array(instruction).element_type, lhs.dimensions);
    case kComplex: {
      const ElementType type = common_type(lhs.element_type, rhs.element_type, "complex");
      if (type != ElementType::kF32 && type != ElementType::kF64) {
        fail("complex: expected f32 or f64 operands, found {}", text(lhs));
      }
      return Shape::array(type == ElementType::kF32 ? ElementType::kC64 : ElementType::kC128,
                          lhs.dimensions);
    }
    case kAnd:
    case kOr:
    case kXor:
      if (!is_integer(lhs.element_type) && lhs.element_type != ElementType::kPred) {
        fail("{}: expected integer or pred operands, found {}", opcode_name(instruction.opcode),
             text(lhs));
      }
      break;
    case kShiftLeft:
    case kShiftRightArithmetic:
    case kShiftRightLogical:
      if (!is_integer(lhs.element_type)) {
        fail("{}: expected integer operands, found {}", opcode_name(instruction.opcode), text(lhs));
      }
      break;
    default:
      break;
  }
  const ElementType type =
      common_type(lhs.element_type, rhs.element_type, opcode_name(instruction.opcode).data());
  return Shape::array(instruction.opcode == kCompare ? ElementType::kPred : type, lhs.dimensions);
}

Shape infer_select(const Instruction& instruction) {
  const Shape& predicate = array_operand(instruction, 0);
  if (predicate.element_type != ElementType::kPred) {
    fail("select: expected a pred operand, found {}", text(predicate));
  }
  const Shape& on_true = array_operand(instruction, 1);
  const Shape& on_false = array_operand(instruction, 2);
  check_same_dims(instruction, on_true, on_false);
  if (!predicate.is_scalar()) check_same_dims(instruction, predicate, on_true);
  return Shape::array(common_type(on_true.element_type, on_false.element_type, "select"),
                      on_true.dimensions);
}

Shape infer_clamp(const Instruction& instruction) {
  const Shape& value = array_operand(instruction, 1);
  for (size_t i : {0, 2}) {
    const Shape& bound = array_operand(instruction, i);
    if (!bound.is_scalar()) check_same_dims(instruction, bound, value);
    common_type(bound.element_type, value.element_type, "clamp");
  }
  return bare(value);
}

}  // namespace lagom::hlo::inference

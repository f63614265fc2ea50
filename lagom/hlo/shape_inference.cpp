#include "lagom/hlo/shape_inference.h"

#include <algorithm>

#include "lagom/hlo/shape_inference_detail.h"

namespace lagom::hlo {
namespace inference {

const Shape& array_operand(const Instruction& instruction, size_t index) {
  if (index >= instruction.operands.size()) {
    fail("{}: operand {} is missing", opcode_name(instruction.opcode), index);
  }
  const Shape& shape = instruction.operand(index).shape;
  if (!shape.is_array()) {
    fail("{}: expected an array as operand {}, found {}", opcode_name(instruction.opcode), index,
         text(shape));
  }
  return shape;
}

void check_dim(int64_t dim, int64_t rank, const char* what) {
  if (dim < 0 || dim >= rank) fail("{}: dimension {} is outside rank {}", what, dim, rank);
}

void check_dims(const Dims& dims, int64_t rank, const char* what) {
  for (size_t i = 0; i < dims.size(); ++i) {
    check_dim(dims[i], rank, what);
    if (std::find(dims.begin(), dims.begin() + i, dims[i]) != dims.begin() + i) {
      fail("{}: dimension {} comes twice in {}", what, dims[i], text(dims));
    }
  }
}

ElementType common_type(ElementType a, ElementType b, const char* what) {
  if (a == b) return a;
  if (!is_floating(a) || !is_floating(b)) {
    fail("{}: operands of different element types {} and {}", what, element_type_name(a),
         element_type_name(b));
  }
  return element_bits(a) >= element_bits(b) ? a : b;
}

const Computation& called_computation(const Instruction& instruction, size_t index,
                                      size_t num_parameters) {
  const std::string_view name = opcode_name(instruction.opcode);
  if (index >= instruction.called.size() || instruction.called[index] == nullptr) {
    fail("{}: called computation {} is missing", name, index);
  }
  const Computation& computation = *instruction.called[index];
  const size_t found = computation.parameters().size();
  if (found != num_parameters) {
    fail("{}: computation '{}' takes {} parameters, expected {}", name, computation.name(), found,
         num_parameters);
  }
  if (computation.root() == nullptr) {
    fail("{}: computation '{}' has no root", name, computation.name());
  }
  return computation;
}

ElementType preferred_type(const Instruction& instruction, ElementType otherwise) {
  const ElementType type = instruction.shape.element_type;
  const bool numeric = is_array_type(type) && type != ElementType::kPred;
  return numeric && is_complex(type) == is_complex(otherwise) ? type : otherwise;
}

// The shape without layouts and dynamic flags.
Shape bare(const Shape& shape) {
  if (shape.is_array()) return Shape::array(shape.element_type, shape.dimensions);
  Shape result = shape;
  result.layout.reset();
  for (Shape& element : result.tuple_shapes) element = bare(element);
  return result;
}

Shape same_as_operand(const Instruction& instruction, size_t index) {
  return bare(instruction.operand(index).shape);
}

void check_same_dims(const Instruction& instruction, const Shape& a, const Shape& b) {
  if (a.dimensions != b.dimensions) {
    fail("{}: operands of different dimensions {} and {}", opcode_name(instruction.opcode), text(a),
         text(b));
  }
}

// The dimensions that the instruction's own shape gives.
const Shape& given_array(const Instruction& instruction) {
  if (!instruction.shape.is_array()) {
    fail("{}: expected an array shape, found {}", opcode_name(instruction.opcode),
         text(instruction.shape));
  }
  return instruction.shape;
}

namespace {

using enum Opcode;

bool has_unbounded_dim(const Shape& shape) {
  return std::any_of(shape.dimensions.begin(), shape.dimensions.end(),
                     [](int64_t d) { return d < 0; }) ||
         std::any_of(shape.tuple_shapes.begin(), shape.tuple_shapes.end(), has_unbounded_dim);
}

Shape infer_reduce(const Instruction& instruction) {
  const size_t num_operands = instruction.operands.size();
  if (num_operands == 0 || num_operands % 2 != 0) {
    fail("reduce: expected as many initial values as arrays, found {} operands", num_operands);
  }
  const size_t n = num_operands / 2;
  called_computation(instruction, 0, num_operands);
  std::vector<Shape> results;
  for (size_t i = 0; i < n; ++i) {
    const Shape& operand = array_operand(instruction, i);
    const Shape& init = array_operand(instruction, n + i);
    if (!init.is_scalar()) fail("reduce: expected a scalar initial value, found {}", text(init));
    check_same_dims(instruction, array_operand(instruction, 0), operand);
    check_dims(instruction.attributes.dimensions, operand.rank(), "reduce");
    Dims out;
    for (int64_t d = 0; d < operand.rank(); ++d) {
      const Dims& reduced = instruction.attributes.dimensions;
      if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) {
        out.push_back(operand.dimensions[d]);
      }
    }
    results.push_back(Shape::array(operand.element_type, std::move(out)));
  }
  return n == 1 ? results[0] : Shape::tuple(std::move(results));
}

Shape infer_map(const Instruction& instruction) {
  if (instruction.operands.empty()) fail("map: no operands");
  const Computation& mapped = called_computation(instruction, 0, instruction.operands.size());
  for (size_t i = 1; i < instruction.operands.size(); ++i) {
    check_same_dims(instruction, array_operand(instruction, 0), array_operand(instruction, i));
  }
  return Shape::array(mapped.root()->shape.element_type, array_operand(instruction, 0).dimensions);
}

Shape infer_sort(const Instruction& instruction) {
  if (instruction.operands.empty()) fail("sort: no operands");
  called_computation(instruction, 0, 2 * instruction.operands.size());
  if (instruction.attributes.dimensions.size() != 1) {
    fail("sort: expected one dimension, found {}", text(instruction.attributes.dimensions));
  }
  std::vector<Shape> results;
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    check_same_dims(instruction, array_operand(instruction, 0), array_operand(instruction, i));
    results.push_back(bare(instruction.operand(i).shape));
  }
  check_dim(instruction.attributes.dimensions[0], results[0].rank(), "sort");
  return results.size() == 1 ? results[0] : Shape::tuple(std::move(results));
}

Shape infer_top_k(const Instruction& instruction) {
  const Shape& operand = array_operand(instruction, 0);
  const int64_t k = instruction.rare().k;
  if (operand.rank() < 1 || k < 0 || k > operand.dimensions.back()) {
    fail("topk: k {} does not fit the last dimension of {}", k, text(operand));
  }
  Dims out = operand.dimensions;
  out.back() = k;
  return Shape::tuple(
      {Shape::array(operand.element_type, out), Shape::array(ElementType::kS32, out)});
}

Shape infer_fft(const Instruction& instruction) {
  const Shape& operand = array_operand(instruction, 0);
  const Dims& length = instruction.rare().fft_length;
  const std::string& type = instruction.rare().fft_type;
  if (length.empty() || static_cast<int64_t>(length.size()) > operand.rank()) {
    fail("fft: lengths {} do not fit {}", text(length), text(operand));
  }
  const bool real_input = type == "RFFT";
  const bool real_output = type == "IRFFT";
  if (is_complex(operand.element_type) == real_input) {
    fail("fft: {} of {}", type, text(operand));
  }
  Shape result = bare(operand);
  const size_t first = operand.dimensions.size() - length.size();
  for (size_t i = 0; i < length.size(); ++i) {
    const bool last = i + 1 == length.size();
    const int64_t halved = length[i] / 2 + 1;
    const int64_t wanted = real_output && last ? halved : length[i];
    if (operand.dimensions[first + i] != wanted) {
      fail("fft: {} of length {} over {}", type, text(length), text(operand));
    }
    result.dimensions[first + i] = real_input && last ? halved : length[i];
  }
  if (real_input) {
    result.element_type =
        operand.element_type == ElementType::kF64 ? ElementType::kC128 : ElementType::kC64;
  } else if (real_output) {
    result.element_type = real_type(operand.element_type);
  }
  return result;
}

void check_square(const Shape& matrix, const char* what) {
  const int64_t rank = matrix.rank();
  if (rank < 2 || matrix.dimensions[rank - 1] != matrix.dimensions[rank - 2]) {
    fail("{}: expected square matrices, found {}", what, text(matrix));
  }
}

Shape infer_triangular_solve(const Instruction& instruction) {
  const Shape& a = array_operand(instruction, 0);
  const Shape& b = array_operand(instruction, 1);
  check_square(a, "triangular-solve");
  const int64_t rank = a.rank();
  if (b.rank() != rank ||
      !std::equal(a.dimensions.begin(), a.dimensions.end() - 2, b.dimensions.begin()) ||
      b.dimensions[instruction.rare().left_side ? rank - 2 : rank - 1] != a.dimensions.back()) {
    fail("triangular-solve: {} does not fit {}", text(b), text(a));
  }
  return bare(b);
}

Shape infer_batch_norm(const Instruction& instruction) {
  const Shape& operand = array_operand(instruction, 0);
  const int64_t feature = instruction.rare().feature_index;
  check_dim(feature, operand.rank(), "batch-norm: feature_index");
  const Shape vector = Shape::array(operand.element_type, {operand.dimensions[feature]});
  const bool gradient = instruction.opcode == kBatchNormGrad;
  for (size_t i = 1; i < instruction.operands.size(); ++i) {
    const Shape& other = array_operand(instruction, i);
    const Dims& wanted = gradient && i == 4 ? operand.dimensions : vector.dimensions;
    if (other.dimensions != wanted) {
      fail("{}: expected dimensions {} for operand {}, found {}", opcode_name(instruction.opcode),
           text(wanted), i, text(other));
    }
  }
  if (instruction.opcode == kBatchNormInference) return bare(operand);
  return Shape::tuple({bare(operand), vector, vector});
}

// Gathers, reductions and exchanges between devices: array forms are checked along the one
// dimension that changes, tuple forms element by element where nothing changes.
Shape infer_collective(const Instruction& instruction) {
  if (instruction.opcode == kAllReduce || instruction.opcode == kCollectivePermute ||
      instruction.opcode == kCollectiveBroadcast) {
    if (instruction.operands.empty()) fail("{}: no operands", opcode_name(instruction.opcode));
    if (instruction.operands.size() == 1) return same_as_operand(instruction);
    if (instruction.opcode == kCollectivePermute) return bare(instruction.shape);
    std::vector<Shape> shapes;
    for (const Instruction* operand : instruction.operands) shapes.push_back(bare(operand->shape));
    return Shape::tuple(std::move(shapes));
  }
  if (instruction.operands.size() == 1 && instruction.shape.is_array()) {
    const Shape& operand = array_operand(instruction, 0);
    const Shape& result = instruction.shape;
    const Dims& dims = instruction.attributes.dimensions;
    for (int64_t d = 0; d < std::max(operand.rank(), result.rank()); ++d) {
      if (operand.rank() != result.rank() ||
          (std::find(dims.begin(), dims.end(), d) == dims.end() &&
           operand.dimensions[d] != result.dimensions[d] && instruction.opcode != kAllToAll)) {
        fail("{} over dimensions {}: {} does not become {}", opcode_name(instruction.opcode),
             text(dims), text(operand), text(result));
      }
    }
  }
  return bare(instruction.shape);
}

Shape infer_conditional(const Instruction& instruction) {
  if (instruction.operands.empty() || instruction.called.empty() ||
      instruction.operands.size() != instruction.called.size() + 1) {
    fail(
        "conditional: expected an operand per branch and the branch index, found {} operands and "
        "{} branches",
        instruction.operands.size(), instruction.called.size());
  }
  const Shape& selector = array_operand(instruction, 0);
  const bool by_pred = selector.element_type == ElementType::kPred;
  if (!selector.is_scalar() || (!by_pred && selector.element_type != ElementType::kS32) ||
      (by_pred && instruction.called.size() != 2)) {
    fail(
        "conditional: expected a pred[] for two branches or an s32[] for any number, found {} for "
        "{} branches",
        text(selector), instruction.called.size());
  }
  for (size_t i = 0; i < instruction.called.size(); ++i) {
    const Computation& branch = called_computation(instruction, i, /*num_parameters=*/1);
    if (!same_shape(branch.root()->shape, called_computation(instruction, 0, 1).root()->shape)) {
      fail("conditional: branches '{}' and '{}' give {} and {}", instruction.called[0]->name(),
           branch.name(), text(instruction.called[0]->root()->shape), text(branch.root()->shape));
    }
  }
  return bare(instruction.called[0]->root()->shape);
}

Shape infer_while(const Instruction& instruction) {
  const Shape state = same_as_operand(instruction);
  const Computation& body = called_computation(instruction, 0, /*num_parameters=*/1);
  const Computation& condition = called_computation(instruction, 1, /*num_parameters=*/1);
  if (condition.root()->shape.element_type != ElementType::kPred ||
      !condition.root()->shape.is_scalar()) {
    fail("while: condition '{}' gives {}, expected pred[]", condition.name(),
         text(condition.root()->shape));
  }
  if (!same_shape(bare(body.root()->shape), state)) {
    fail("while: body '{}' gives {}, the operand is {}", body.name(), text(body.root()->shape),
         text(state));
  }
  return state;
}

Shape infer_get_tuple_element(const Instruction& instruction) {
  if (instruction.operands.empty()) fail("get-tuple-element: no operand");
  const Shape& tuple = instruction.operand(0).shape;
  const int64_t index = instruction.attributes.tuple_index;
  if (!tuple.is_tuple() || index < 0 || index >= static_cast<int64_t>(tuple.tuple_shapes.size())) {
    fail("get-tuple-element: no element {} in {}", index, text(tuple));
  }
  return bare(tuple.tuple_shapes[index]);
}

Shape infer_iota(const Instruction& instruction) {
  const Shape& result = given_array(instruction);
  if (instruction.attributes.dimensions.size() != 1) {
    fail("iota: expected one dimension, found {}", text(instruction.attributes.dimensions));
  }
  check_dim(instruction.attributes.dimensions[0], result.rank(), "iota");
  return bare(result);
}

Shape infer_dimension_size(const Instruction& instruction) {
  const Shape& operand = array_operand(instruction, 0);
  const Dims& dims = instruction.attributes.dimensions;
  if (dims.size() != 1) {
    fail("{}: expected one dimension, found {}", opcode_name(instruction.opcode), text(dims));
  }
  check_dim(dims[0], operand.rank(), opcode_name(instruction.opcode).data());
  if (instruction.opcode == kGetDimensionSize) return Shape::scalar(ElementType::kS32);
  return bare(operand);
}

Shape infer_tuple(const Instruction& instruction) {
  std::vector<Shape> elements;
  for (const Instruction* operand : instruction.operands) elements.push_back(bare(operand->shape));
  return Shape::tuple(std::move(elements));
}

Shape infer_other(const Instruction& instruction) {
  switch (instruction.opcode) {
    case kAddDependency:
    case kCopy:
    case kDomain:
    case kOptimizationBarrier:
      return same_as_operand(instruction);
    case kAfterAll:
    case kOutfeed:
    case kSendDone:
      return Shape::token();
    case kPartitionId:
    case kReplicaId:
      return Shape::scalar(ElementType::kU32);
    case kAllGather:
    case kAllReduce:
    case kAllToAll:
    case kCollectiveBroadcast:
    case kCollectivePermute:
    case kReduceScatter:
      return infer_collective(instruction);
    case kBatchNormGrad:
    case kBatchNormInference:
    case kBatchNormTraining:
      return infer_batch_norm(instruction);
    case kBitcastConvert:
      return infer_bitcast_convert(instruction);
    case kBroadcast:
      return infer_broadcast(instruction);
    case kCall:
    case kFusion:
      return bare(called_computation(instruction, 0, instruction.operands.size()).root()->shape);
    case kCholesky:
      check_square(array_operand(instruction, 0), "cholesky");
      return same_as_operand(instruction);
    case kClamp:
      return infer_clamp(instruction);
    case kConcatenate:
      return infer_concatenate(instruction);
    case kConditional:
      return infer_conditional(instruction);
    case kConstant:
      return bare(instruction.literal ? instruction.literal->shape : instruction.shape);
    case kConvolution:
      return infer_convolution(instruction);
    case kDot:
      return infer_dot(instruction);
    case kDynamicSlice:
      return infer_dynamic_slice(instruction);
    case kDynamicUpdateSlice:
      return infer_dynamic_update_slice(instruction);
    case kFft:
      return infer_fft(instruction);
    case kGather:
      return infer_gather(instruction);
    case kGetDimensionSize:
    case kSetDimensionSize:
      return infer_dimension_size(instruction);
    case kGetTupleElement:
      return infer_get_tuple_element(instruction);
    case kIota:
      return infer_iota(instruction);
    case kMap:
      return infer_map(instruction);
    case kPad:
      return infer_pad(instruction);
    case kRaggedDot:
      return infer_ragged_dot(instruction);
    case kReduce:
      return infer_reduce(instruction);
    case kReduceWindow:
      return infer_reduce_window(instruction);
    case kReshape:
      return infer_reshape(instruction);
    case kReverse: {
      const Shape& operand = array_operand(instruction, 0);
      check_dims(instruction.attributes.dimensions, operand.rank(), "reverse");
      return bare(operand);
    }
    case kScatter:
      return infer_scatter(instruction);
    case kSelect:
      return infer_select(instruction);
    case kSelectAndScatter:
      return infer_select_and_scatter(instruction);
    case kSlice:
      return infer_slice(instruction);
    case kSort:
      return infer_sort(instruction);
    case kTopK:
      return infer_top_k(instruction);
    case kTranspose:
      return infer_transpose(instruction);
    case kTriangularSolve:
      return infer_triangular_solve(instruction);
    case kTuple:
      return infer_tuple(instruction);
    case kWhile:
      return infer_while(instruction);
    default:
      return bare(instruction.shape);
  }
}

}  // namespace
}  // namespace inference

bool has_free_shape(Opcode opcode) {
  using enum Opcode;
  switch (opcode) {
    case kAllGatherDone:
    case kAllGatherStart:
    case kAllReduceDone:
    case kAllReduceStart:
    case kAsyncDone:
    case kAsyncStart:
    case kAsyncUpdate:
    case kBitcast:
    case kCollectivePermuteDone:
    case kCollectivePermuteStart:
    case kCopyDone:
    case kCopyStart:
    case kCustomCall:
    case kDynamicReshape:
    case kInfeed:
    case kParameter:
    case kRaggedAllToAll:
    case kRecv:
    case kRecvDone:
    case kRng:
    case kRngBitGenerator:
    case kRngGetAndUpdateState:
    case kScan:
    case kSend:
      return true;
    default:
      return false;
  }
}

Shape infer_shape(const Instruction& instruction) {
  using namespace inference;
  const int arity = opcode_arity(instruction.opcode);
  if (arity >= 0 && instruction.operands.size() != static_cast<size_t>(arity)) {
    fail("{}: expected {} operands, found {}", opcode_name(instruction.opcode), arity,
         instruction.operands.size());
  }
  if (has_free_shape(instruction.opcode)) return bare(instruction.shape);
  for (const Instruction* operand : instruction.operands) {
    if (has_unbounded_dim(operand->shape)) return bare(instruction.shape);
  }
  if (has_unbounded_dim(instruction.shape)) return bare(instruction.shape);
  // These two are not element by element in every case: tuples are copied whole, and a
  // bitcast-convert to another width changes the dimensions.
  if (instruction.opcode == Opcode::kCopy || instruction.opcode == Opcode::kBitcastConvert) {
    return infer_other(instruction);
  }
  if (is_elementwise_unary(instruction.opcode)) return infer_unary(instruction);
  if (is_elementwise_binary(instruction.opcode)) return infer_binary(instruction);
  return infer_other(instruction);
}

}  // namespace lagom::hlo

#include "lagom/hlo/builder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lagom/hlo/shape_inference.h"

namespace lagom::hlo {
namespace {

bool uses_layouts(const Computation& computation) {
  for (const auto& instruction : computation.instructions()) {
    if (instruction->shape.is_array() && !instruction->shape.dimensions.empty()) {
      return instruction->shape.layout.has_value();
    }
  }
  return true;
}

void drop_layouts(Shape& shape) {
  shape.layout.reset();
  for (Shape& element : shape.tuple_shapes) drop_layouts(element);
}

Shape given(const Instruction* x, Dims dims) {
  return Shape::array(x->shape.element_type, std::move(dims));
}

bool is_binary_on_scalars(const Computation& computation, Opcode opcode, ElementType type) {
  const Instruction* root = computation.root();
  if (computation.size() != 3 || root == nullptr || root->opcode != opcode ||
      !root->shape.is_scalar() || root->shape.element_type != type) {
    return false;
  }
  return std::all_of(root->operands.begin(), root->operands.end(),
                     [&](const Instruction* operand) {
                       return operand->opcode == Opcode::kParameter && operand->shape.is_scalar() &&
                              operand->shape.element_type == type;
                     }) &&
         root->operands[0] != root->operands[1];
}

}  // namespace

Builder::Builder(Module& module, Computation& computation, NameTable& names)
    : module_(module),
      computation_(computation),
      names_(names),
      with_layouts_(uses_layouts(computation)) {}

Builder::Builder(Module& module, Computation& computation, NameTable& names,
                 const Instruction* position)
    : Builder(module, computation, names) {
  position_ = position;
}

void Builder::commit() {
  if (!pending_.empty()) computation_.insert_before(position_, std::exchange(pending_, {}));
}

std::unique_ptr<Instruction> Builder::make(Opcode opcode, std::vector<Instruction*> operands) {
  auto instruction = std::make_unique<Instruction>();
  instruction->opcode = opcode;
  instruction->operands = std::move(operands);
  return instruction;
}

Instruction* Builder::add_instruction(std::unique_ptr<Instruction> instruction) {
  Shape shape = infer_shape(*instruction);
  if (!has_free_shape(instruction->opcode) && instruction->opcode != Opcode::kConstant) {
    instruction->shape = std::move(shape);
    if (!with_layouts_) drop_layouts(instruction->shape);
  }
  instruction->name = names_.fresh(instruction->name.empty() ? opcode_name(instruction->opcode)
                                                             : std::string_view(instruction->name));
  if (origin_ != nullptr) instruction->metadata = origin_->metadata;
  ++num_made_;
  if (position_ == nullptr) return computation_.append(std::move(instruction));
  pending_.push_back(std::move(instruction));
  return pending_.back().get();
}

Instruction* Builder::parameter(int64_t number, Shape shape, std::string_view name) {
  auto instruction = make(Opcode::kParameter, {});
  instruction->name = name;
  instruction->shape = std::move(shape);
  instruction->attributes.parameter_number = number;
  return add_instruction(std::move(instruction));
}

Instruction* Builder::constant(Literal literal) {
  auto instruction = make(Opcode::kConstant, {});
  instruction->shape = literal.shape;
  instruction->literal = std::make_shared<const Literal>(std::move(literal));
  return add_instruction(std::move(instruction));
}

Instruction* Builder::constant(ElementType type, double value) {
  return constant(Literal::scalar(type, value));
}

Instruction* Builder::iota(Shape shape, int64_t dimension) {
  auto instruction = make(Opcode::kIota, {});
  instruction->shape = std::move(shape);
  instruction->attributes.dimensions = {dimension};
  return add_instruction(std::move(instruction));
}

Instruction* Builder::unary(Opcode opcode, Instruction* x) {
  return add_instruction(make(opcode, {x}));
}

Instruction* Builder::binary(Opcode opcode, Instruction* lhs, Instruction* rhs) {
  return add_instruction(make(opcode, {lhs, rhs}));
}

Instruction* Builder::compare(Instruction* lhs, Instruction* rhs, std::string_view direction) {
  auto instruction = make(Opcode::kCompare, {lhs, rhs});
  instruction->attributes.comparison_direction = direction;
  return add_instruction(std::move(instruction));
}

Instruction* Builder::select(Instruction* predicate, Instruction* on_true, Instruction* on_false) {
  return add_instruction(make(Opcode::kSelect, {predicate, on_true, on_false}));
}

Instruction* Builder::convert(Instruction* x, ElementType type) {
  if (x->shape.element_type == type) return x;
  auto instruction = make(Opcode::kConvert, {x});
  instruction->shape = Shape::array(type, x->shape.dimensions);
  return add_instruction(std::move(instruction));
}

Instruction* Builder::broadcast(Instruction* x, Dims result_dims, Dims dims) {
  if (x->shape.dimensions == result_dims && dims.size() == result_dims.size() &&
      std::is_sorted(dims.begin(), dims.end())) {
    return x;
  }
  auto instruction = make(Opcode::kBroadcast, {x});
  instruction->shape = given(x, std::move(result_dims));
  instruction->attributes.dimensions = std::move(dims);
  return add_instruction(std::move(instruction));
}

Instruction* Builder::broadcast_scalar(Instruction* x, Dims result_dims) {
  return broadcast(x, std::move(result_dims), {});
}

Instruction* Builder::full(ElementType type, Dims dims, double value) {
  return broadcast_scalar(constant(type, value), std::move(dims));
}

Instruction* Builder::reshape(Instruction* x, Dims dims) {
  if (x->shape.dimensions == dims) return x;
  auto instruction = make(Opcode::kReshape, {x});
  instruction->shape = given(x, std::move(dims));
  return add_instruction(std::move(instruction));
}

Instruction* Builder::transpose(Instruction* x, Dims permutation) {
  if (std::is_sorted(permutation.begin(), permutation.end()) &&
      static_cast<int64_t>(permutation.size()) == x->shape.rank()) {
    return x;
  }
  auto instruction = make(Opcode::kTranspose, {x});
  instruction->attributes.dimensions = std::move(permutation);
  return add_instruction(std::move(instruction));
}

Instruction* Builder::slice(Instruction* x, std::vector<SliceDim> slice) {
  auto instruction = make(Opcode::kSlice, {x});
  instruction->attributes.slice = std::move(slice);
  if (infer_shape(*instruction).dimensions == x->shape.dimensions) return x;
  return add_instruction(std::move(instruction));
}

Instruction* Builder::pad(Instruction* x, Instruction* value, std::vector<PadDim> padding) {
  const bool nothing = std::all_of(padding.begin(), padding.end(),
                                   [](const PadDim& dim) { return dim == PadDim{}; });
  if (nothing && static_cast<int64_t>(padding.size()) == x->shape.rank()) return x;
  auto instruction = make(Opcode::kPad, {x, value});
  instruction->attributes.padding = std::move(padding);
  return add_instruction(std::move(instruction));
}

Instruction* Builder::pad_zero(Instruction* x, std::vector<PadDim> padding) {
  const bool nothing = std::all_of(padding.begin(), padding.end(),
                                   [](const PadDim& dim) { return dim == PadDim{}; });
  if (nothing) return x;
  return pad(x, constant(x->shape.element_type, 0), std::move(padding));
}

Instruction* Builder::concatenate(std::vector<Instruction*> parts, int64_t dimension) {
  if (parts.size() == 1) return parts[0];
  auto instruction = make(Opcode::kConcatenate, std::move(parts));
  instruction->attributes.dimensions = {dimension};
  return add_instruction(std::move(instruction));
}

Instruction* Builder::reverse(Instruction* x, Dims dims) {
  if (dims.empty()) return x;
  auto instruction = make(Opcode::kReverse, {x});
  instruction->attributes.dimensions = std::move(dims);
  return add_instruction(std::move(instruction));
}

Instruction* Builder::dynamic_slice(Instruction* x, std::vector<Instruction*> starts, Dims sizes) {
  starts.insert(starts.begin(), x);
  auto instruction = make(Opcode::kDynamicSlice, std::move(starts));
  instruction->mutable_rare().dynamic_slice_sizes = std::move(sizes);
  return add_instruction(std::move(instruction));
}

Instruction* Builder::dot(Instruction* lhs, Instruction* rhs, DotDims dims, ElementType type) {
  auto instruction = make(Opcode::kDot, {lhs, rhs});
  instruction->shape.element_type = type;
  instruction->attributes.dot = std::move(dims);
  return add_instruction(std::move(instruction));
}

Instruction* Builder::convolution(Instruction* input, Instruction* kernel, ConvolutionSpec spec,
                                  ElementType type) {
  auto instruction = make(Opcode::kConvolution, {input, kernel});
  instruction->shape.element_type = type;
  instruction->attributes.window = std::move(spec.window);
  instruction->attributes.convolution = std::move(spec.dims);
  instruction->attributes.feature_group_count = spec.feature_group_count;
  instruction->attributes.batch_group_count = spec.batch_group_count;
  return add_instruction(std::move(instruction));
}

Instruction* Builder::reduce_sum(Instruction* x, Dims dims) {
  const ElementType type = x->shape.element_type;
  auto instruction = make(Opcode::kReduce, {x, constant(type, 0)});
  instruction->attributes.dimensions = std::move(dims);
  instruction->called = {scalar_computation(Opcode::kAdd, type)};
  return add_instruction(std::move(instruction));
}

Instruction* Builder::reduce_window(Instruction* x, Instruction* init, Window window,
                                    Computation* reducer) {
  auto instruction = make(Opcode::kReduceWindow, {x, init});
  instruction->attributes.window = std::move(window);
  instruction->called = {reducer};
  return add_instruction(std::move(instruction));
}

Instruction* Builder::tuple(std::vector<Instruction*> elements) {
  return add_instruction(make(Opcode::kTuple, std::move(elements)));
}

Instruction* Builder::get_tuple_element(Instruction* tuple, int64_t index) {
  auto instruction = make(Opcode::kGetTupleElement, {tuple});
  instruction->attributes.tuple_index = index;
  return add_instruction(std::move(instruction));
}

Instruction* Builder::call(Computation* callee, std::vector<Instruction*> operands) {
  auto instruction = make(Opcode::kCall, std::move(operands));
  instruction->called = {callee};
  return add_instruction(std::move(instruction));
}

Instruction* Builder::optimization_barrier(Instruction* x) {
  return add_instruction(make(Opcode::kOptimizationBarrier, {x}));
}

Instruction* Builder::layout_constraint(Instruction* x, Dims minor_to_major) {
  auto instruction = make(Opcode::kCustomCall, {x});
  instruction->name = "layout_constraint";
  instruction->shape =
      Shape::array(x->shape.element_type, x->shape.dimensions, std::move(minor_to_major));
  RareAttributes& rare = instruction->mutable_rare();
  rare.custom_call_target = "LayoutConstraint";
  rare.constrain_layout = true;
  rare.operand_layouts = {instruction->shape};
  return add_instruction(std::move(instruction));
}

Computation* Builder::scalar_computation(Opcode opcode, ElementType type) {
  // Callees precede callers: only those in front of this computation may be called.
  for (const auto& computation : module_.computations()) {
    if (computation.get() == &computation_) break;
    if (is_binary_on_scalars(*computation, opcode, type)) return computation.get();
  }
  const std::string name =
      std::string(opcode_name(opcode)) + "_" + std::string(element_type_name(type));
  auto made = std::make_unique<Computation>(names_.fresh(name));
  Builder builder(module_, *made, names_);
  Instruction* const lhs = builder.parameter(0, Shape::scalar(type), "lhs");
  Instruction* const rhs = builder.parameter(1, Shape::scalar(type), "rhs");
  made->set_root(builder.binary(opcode, lhs, rhs));
  return module_.add_computation_before(&computation_, std::move(made));
}

}  // namespace lagom::hlo

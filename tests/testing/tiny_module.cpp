#include "tests/testing/tiny_module.h"

#include <protozero/pbf_writer.hpp>
#include <stdexcept>

namespace lagom::testing {
namespace {

using protozero::pbf_writer;

std::string layout_bytes(size_t rank, const TinyModule::Dims& minor_to_major) {
  TinyModule::Dims order = minor_to_major;
  if (order.empty()) {
    for (size_t i = rank; i-- > 0;) order.push_back(static_cast<int64_t>(i));
  }
  std::string bytes;
  pbf_writer(bytes).add_packed_int64(1, order.begin(), order.end());
  return bytes;
}

std::string shape_bytes(PrimitiveType type, const TinyModule::Dims& dims,
                        const TinyModule::Dims& minor_to_major = {}) {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_enum(2, static_cast<int32_t>(type));
  writer.add_packed_int64(3, dims.begin(), dims.end());
  writer.add_message(5, layout_bytes(dims.size(), minor_to_major));
  return bytes;
}

std::string tuple_shape_bytes(const std::vector<std::string>& elements) {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_enum(2, 13);
  for (const std::string& element : elements) writer.add_message(4, element);
  return bytes;
}

std::string instruction_bytes(int64_t id, std::string_view opcode, const std::string& shape,
                              const std::vector<int64_t>& operands, const std::string& more) {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_string(1, std::string(opcode) + "." + std::to_string(id));
  writer.add_string(2, std::string(opcode));
  writer.add_message(3, shape);
  writer.add_int64(35, id);
  writer.add_packed_int64(36, operands.begin(), operands.end());
  bytes += more;
  return bytes;
}

std::string program_shape_bytes(const std::vector<std::string>& parameters,
                                const std::string& result) {
  std::string bytes;
  pbf_writer writer(bytes);
  for (const std::string& parameter : parameters) writer.add_message(1, parameter);
  writer.add_message(2, result);
  for (size_t i = 0; i < parameters.size(); ++i) writer.add_string(3, "p" + std::to_string(i));
  return bytes;
}

std::string computation_bytes(const std::string& name, int64_t id, int64_t root,
                              const std::vector<std::string>& instructions,
                              const std::string& program_shape) {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_string(1, name);
  for (const std::string& instruction : instructions) writer.add_message(2, instruction);
  writer.add_message(4, program_shape);
  writer.add_int64(5, id);
  writer.add_int64(6, root);
  return bytes;
}

std::string literal_field(const std::string& shape, int field, const std::string& packed) {
  std::string literal;
  pbf_writer writer(literal);
  writer.add_message(1, shape);
  writer.add_bytes(static_cast<protozero::pbf_tag_type>(field), packed);
  std::string bytes;
  pbf_writer(bytes).add_message(8, literal);
  return bytes;
}

}  // namespace

int64_t TinyModule::add(std::string_view opcode, const std::string& shape,
                        const std::vector<int64_t>& operands, const std::string& more) {
  const int64_t id = next_id_++;
  instructions_.push_back({id, shape, instruction_bytes(id, opcode, shape, operands, more)});
  return id;
}

const std::string& TinyModule::shape_of(int64_t id) const {
  for (const Instruction& instruction : instructions_) {
    if (instruction.id == id) return instruction.shape;
  }
  throw std::logic_error("TinyModule: no such instruction");
}

int64_t TinyModule::parameter(PrimitiveType type, const Dims& dims, const Dims& minor_to_major) {
  std::string number;
  pbf_writer(number).add_int64(9, static_cast<int64_t>(parameters_.size()));
  const int64_t id = add("parameter", shape_bytes(type, dims, minor_to_major), {}, number);
  parameters_.push_back(id);
  return id;
}

int64_t TinyModule::op(std::string_view opcode, PrimitiveType type, const Dims& dims,
                       const std::vector<int64_t>& operands, const Dims& minor_to_major) {
  return add(opcode, shape_bytes(type, dims, minor_to_major), operands);
}

int64_t TinyModule::constant_f32(float value) {
  const std::string shape = shape_bytes(PrimitiveType::kF32, {});
  const std::string packed(reinterpret_cast<const char*>(&value), sizeof value);
  return add("constant", shape, {}, literal_field(shape, 8, packed));
}

int64_t TinyModule::constant_pred(bool value) {
  const std::string shape = shape_bytes(PrimitiveType::kPred, {});
  return add("constant", shape, {}, literal_field(shape, 2, std::string(1, value ? 1 : 0)));
}

int64_t TinyModule::broadcast_scalar(PrimitiveType type, const Dims& dims, int64_t scalar) {
  return add("broadcast", shape_bytes(type, dims), {scalar});
}

int64_t TinyModule::dot_f32(int64_t m, int64_t n, int64_t lhs, int64_t rhs) {
  std::string numbers;
  pbf_writer writer(numbers);
  const Dims one{1};
  const Dims zero{0};
  writer.add_packed_int64(1, one.begin(), one.end());
  writer.add_packed_int64(2, zero.begin(), zero.end());
  std::string more;
  pbf_writer(more).add_message(30, numbers);
  return add("dot", shape_bytes(PrimitiveType::kF32, {m, n}), {lhs, rhs}, more);
}

int64_t TinyModule::custom_call(std::string_view target, PrimitiveType type, const Dims& dims,
                                const std::vector<int64_t>& operands) {
  std::string more;
  pbf_writer writer(more);
  writer.add_string(28, std::string(target));
  writer.add_enum(77, 2);  // the status-returning calling convention
  return add("custom-call", shape_bytes(type, dims), operands, more);
}

int64_t TinyModule::endless_loop(const Dims& dims, int64_t initial) {
  const std::string shape = shape_bytes(PrimitiveType::kF32, dims);
  const auto computation = [&](TinyModule& inner, const std::string& name, int64_t root) {
    std::vector<std::string> instructions;
    for (const Instruction& i : inner.instructions_) instructions.push_back(i.bytes);
    const int64_t id = 1000 + static_cast<int64_t>(other_computations_.size());
    other_computations_.push_back(computation_bytes(
        name, id, root, instructions, program_shape_bytes({shape}, inner.shape_of(root))));
    next_id_ = inner.next_id_;
    return id;
  };

  TinyModule body("body");
  body.next_id_ = next_id_;
  const int64_t x = body.parameter(PrimitiveType::kF32, dims);
  const int64_t ones = body.broadcast_scalar(PrimitiveType::kF32, dims, body.constant_f32(1));
  const int64_t sum = body.op("add", PrimitiveType::kF32, dims, {x, ones});
  const int64_t body_id = computation(body, "body", sum);

  // XLA folds a loop whose condition is a constant, so it looks at the data: NaN aside, always so.
  TinyModule condition("condition");
  condition.next_id_ = next_id_;
  const int64_t y = condition.parameter(PrimitiveType::kF32, dims);
  std::string slice_first;
  for (size_t i = 0; i < dims.size(); ++i) {
    std::string range;
    pbf_writer writer(range);
    writer.add_int64(1, 0);
    writer.add_int64(2, 1);
    writer.add_int64(3, 1);
    pbf_writer(slice_first).add_message(17, range);
  }
  const int64_t first = condition.add(
      "slice", shape_bytes(PrimitiveType::kF32, Dims(dims.size(), 1)), {y}, slice_first);
  const int64_t scalar = condition.op("reshape", PrimitiveType::kF32, {}, {first});
  std::string direction;
  pbf_writer(direction).add_string(63, "GE");
  const int64_t low = condition.constant_f32(-1e30F);
  const int64_t compare =
      condition.add("compare", shape_bytes(PrimitiveType::kPred, {}), {scalar, low}, direction);
  const int64_t condition_id = computation(condition, "condition", compare);

  std::string called;
  const std::vector<int64_t> ids{body_id, condition_id};
  pbf_writer(called).add_packed_int64(38, ids.begin(), ids.end());
  return add("while", shape, {initial}, called);
}

int64_t TinyModule::tuple(const std::vector<int64_t>& operands) {
  std::vector<std::string> shapes;
  for (const int64_t id : operands) shapes.push_back(shape_of(id));
  return add("tuple", tuple_shape_bytes(shapes), operands);
}

std::string TinyModule::finish(int64_t root) {
  std::vector<std::string> instructions;
  for (const Instruction& i : instructions_) instructions.push_back(i.bytes);
  std::vector<std::string> parameters;
  for (const int64_t id : parameters_) parameters.push_back(shape_of(id));
  const std::string program_shape = program_shape_bytes(parameters, shape_of(root));
  constexpr int64_t kEntryId = 2000;

  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_string(1, name_);
  writer.add_string(2, "main");
  for (const std::string& computation : other_computations_) writer.add_message(3, computation);
  writer.add_message(3, computation_bytes("main", kEntryId, root, instructions, program_shape));
  writer.add_message(4, program_shape);
  writer.add_int64(5, 1);
  writer.add_int64(6, kEntryId);
  if (aliased_parameter_ >= 0) {
    std::string entry;
    pbf_writer entry_writer(entry);
    entry_writer.add_int64(2, aliased_parameter_);
    entry_writer.add_enum(4, 1);
    std::string alias;
    pbf_writer(alias).add_message(1, entry);
    writer.add_message(8, alias);
  }
  return bytes;
}

std::string double_module(int64_t n) {
  TinyModule module("double");
  const int64_t x = module.parameter(PrimitiveType::kF32, {n});
  return module.finish(module.op("add", PrimitiveType::kF32, {n}, {x, x}));
}

std::string matmul_module(int64_t n) {
  TinyModule module("matmul");
  const int64_t a = module.parameter(PrimitiveType::kF32, {n, n});
  const int64_t b = module.parameter(PrimitiveType::kF32, {n, n});
  return module.finish(module.dot_f32(n, n, a, b));
}

std::string matmul_chain_module(int64_t n, int times) {
  TinyModule module("chain");
  int64_t x = module.parameter(PrimitiveType::kF32, {n, n});
  for (int i = 0; i < times; ++i) {
    x = module.op("tanh", PrimitiveType::kF32, {n, n}, {x});
    x = module.dot_f32(n, n, x, x);
  }
  return module.finish(module.op("tanh", PrimitiveType::kF32, {n, n}, {x}));
}

std::string aborting_module() {
  TinyModule module("aborting");
  // A partition's number is a u32; the CPU backend insists on it in the middle of code generation.
  return module.finish(module.op("partition-id", PrimitiveType::kF32, {4}, {}));
}

}  // namespace lagom::testing

#include "lagom/hlo/verifier.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "lagom/hlo/shape_inference.h"
#include "lagom/util/error.h"

namespace lagom::hlo {
namespace {

using enum Opcode;

// Deeper programs are not found in practice and would exhaust the stack of recursive passes.
constexpr int64_t kMaxCallDepth = 1000;
constexpr int64_t kMaxRank = 1000;  // Some checks are quadratic in it.

std::string text(const Shape& shape) {
  return shape.to_string(/*with_layout=*/false);
}

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw std::invalid_argument(fmt::format(format, std::forward<Args>(args)...));
}

enum class Precision { kSame, kMixed };

// Equal up to layouts and dynamic flags; an unbounded dimension fits any.
bool fits(const Shape& a, const Shape& b, Precision precision) {
  if (a.element_type != b.element_type &&
      (precision == Precision::kSame || !is_floating(a.element_type) ||
       !is_floating(b.element_type))) {
    return false;
  }
  return std::equal(a.dimensions.begin(), a.dimensions.end(), b.dimensions.begin(),
                    b.dimensions.end(),
                    [](int64_t x, int64_t y) { return x == y || x < 0 || y < 0; }) &&
         std::equal(a.tuple_shapes.begin(), a.tuple_shapes.end(), b.tuple_shapes.begin(),
                    b.tuple_shapes.end(),
                    [precision](const Shape& x, const Shape& y) { return fits(x, y, precision); });
}

// Operations that pass a value on must not change its type.
Precision precision_of(Opcode opcode) {
  switch (opcode) {
    case kAllReduce:
    case kCall:
    case kConditional:
    case kConstant:
    case kGetTupleElement:
    case kOptimizationBarrier:
    case kTuple:
    case kWhile:
      return Precision::kSame;
    default:
      return Precision::kMixed;
  }
}

bool is_permutation(const Dims& dims, int64_t rank) {
  if (static_cast<int64_t>(dims.size()) != rank) return false;
  std::vector<bool> seen(dims.size());
  for (int64_t d : dims) {
    if (d < 0 || d >= rank || seen[static_cast<size_t>(d)]) return false;
    seen[static_cast<size_t>(d)] = true;
  }
  return true;
}

void check_shape(const Shape& shape) {
  if (shape.element_type == ElementType::kInvalid) fail("it has no shape");
  for (const Shape& element : shape.tuple_shapes) check_shape(element);
  if (!shape.is_array()) return;
  if (!shape.dynamic.empty() && shape.dynamic.size() != shape.dimensions.size()) {
    fail("{} has {} dynamic flags", text(shape), shape.dynamic.size());
  }
  if (shape.rank() > kMaxRank) fail("it has {} dimensions, more than {}", shape.rank(), kMaxRank);
  Dims sizes;
  for (size_t d = 0; d < shape.dimensions.size(); ++d) {
    const int64_t size = shape.dimensions[d];
    if (size >= 0) {
      sizes.push_back(size);
    } else if (shape.dynamic.empty() || !shape.dynamic[d]) {
      fail("dimension {} has the negative size {}", d, size);
    }
  }
  if (!checked_product(sizes)) fail("{} has more elements than 62 bits can count", text(shape));
  if (shape.layout && !is_permutation(shape.layout->minor_to_major, shape.rank())) {
    fail("the layout of {} is no permutation of its {} dimensions", shape.to_string(),
         shape.rank());
  }
}

void check_literal(const Literal& literal, const Shape& shape) {
  if (!fits(literal.shape, shape, Precision::kSame)) {
    fail("its literal is {}, its shape {}", text(literal.shape), text(shape));
  }
  if (literal.elided) return;
  if (shape.is_tuple()) {
    if (literal.elements.size() != shape.tuple_shapes.size()) {
      fail("its literal has {} elements, expected {}", literal.elements.size(),
           shape.tuple_shapes.size());
    }
    for (size_t i = 0; i < literal.elements.size(); ++i) {
      check_literal(literal.elements[i], shape.tuple_shapes[i]);
    }
    return;
  }
  const int64_t wanted = shape.num_elements() * element_bytes(shape.element_type);
  if (static_cast<int64_t>(literal.data.size()) != wanted) {
    fail("its literal has {} bytes, expected {} for {}", literal.data.size(), wanted, text(shape));
  }
}

// ---- Called computations

const Shape& parameter_shape(const Computation& computation, size_t number) {
  const std::vector<Instruction*> parameters = computation.parameters();
  if (number >= parameters.size()) {
    fail("computation '{}' takes {} parameters, expected more than {}", computation.name(),
         parameters.size(), number);
  }
  return parameters[number]->shape;
}

void check_parameter(const Computation& computation, size_t number, const Shape& wanted,
                     Precision precision) {
  const Shape& found = parameter_shape(computation, number);
  if (!fits(found, wanted, precision)) {
    fail("parameter {} of computation '{}' is {}, expected {}", number, computation.name(),
         text(found), text(wanted));
  }
}

void check_result(const Computation& computation, const Shape& wanted) {
  const Shape& found = computation.root()->shape;
  if (!fits(found, wanted, Precision::kMixed)) {
    fail("computation '{}' gives {}, expected {}", computation.name(), text(found), text(wanted));
  }
}

void check_num_called(const Instruction& instruction, size_t wanted) {
  if (instruction.called.size() != wanted) {
    fail("expected {} called computations, found {}", wanted, instruction.called.size());
  }
}

void check_num_parameters(const Computation& computation, size_t wanted) {
  const size_t found = computation.parameters().size();
  if (found != wanted) {
    fail("computation '{}' takes {} parameters, expected {}", computation.name(), found, wanted);
  }
}

// The computation takes one value of each operand's shape.
void check_takes_operands(const Instruction& instruction) {
  check_num_called(instruction, 1);
  const Computation& callee = *instruction.called[0];
  check_num_parameters(callee, instruction.operands.size());
  const std::vector<Instruction*> parameters = callee.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!fits(parameters[i]->shape, instruction.operand(i).shape, Precision::kSame)) {
      check_parameter(callee, i, instruction.operand(i).shape, Precision::kSame);
    }
  }
}

// The computation combines n scalars with n scalars into n: reduce, scatter, all-reduce...
void check_combines(const Computation& computation, const std::vector<const Instruction*>& arrays) {
  const size_t n = arrays.size();
  check_num_parameters(computation, 2 * n);
  std::vector<Shape> results;
  for (size_t i = 0; i < n; ++i) {
    const Shape scalar = Shape::scalar(arrays[i]->shape.element_type);
    check_parameter(computation, i, scalar, Precision::kMixed);
    check_parameter(computation, n + i, scalar, Precision::kMixed);
    results.push_back(scalar);
  }
  check_result(computation, n == 1 ? results[0] : Shape::tuple(std::move(results)));
}

std::vector<const Instruction*> first_operands(const Instruction& instruction, size_t n) {
  return {instruction.operands.begin(), instruction.operands.begin() + static_cast<int64_t>(n)};
}

void check_sort(const Instruction& instruction) {
  check_num_called(instruction, 1);
  const Computation& comparator = *instruction.called[0];
  check_num_parameters(comparator, 2 * instruction.operands.size());
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    const Shape scalar = Shape::scalar(instruction.operand(i).shape.element_type);
    check_parameter(comparator, 2 * i, scalar, Precision::kMixed);
    check_parameter(comparator, 2 * i + 1, scalar, Precision::kMixed);
  }
  check_result(comparator, Shape::scalar(ElementType::kPred));
}

void check_select_and_scatter(const Instruction& instruction) {
  check_num_called(instruction, 2);
  const Shape scalar = Shape::scalar(instruction.operand(0).shape.element_type);
  for (const Computation* computation : instruction.called) {
    check_num_parameters(*computation, 2);
    check_parameter(*computation, 0, scalar, Precision::kMixed);
    check_parameter(*computation, 1, scalar, Precision::kMixed);
  }
  check_result(*instruction.called[0], Shape::scalar(ElementType::kPred));
  check_result(*instruction.called[1], scalar);
}

// What is called, by opcode. Runs after shape inference, which checks operand counts.
void check_called(const Instruction& instruction) {
  switch (instruction.opcode) {
    case kCall:
    case kFusion:
      check_takes_operands(instruction);
      break;
    case kMap:
      check_num_called(instruction, 1);
      for (size_t i = 0; i < instruction.operands.size(); ++i) {
        check_parameter(*instruction.called[0], i,
                        Shape::scalar(instruction.operand(i).shape.element_type),
                        Precision::kMixed);
      }
      break;
    case kWhile:
      check_num_called(instruction, 2);
      for (const Computation* computation : instruction.called) {
        check_parameter(*computation, 0, instruction.operand(0).shape, Precision::kSame);
      }
      break;
    case kConditional:
      for (size_t i = 0; i < instruction.called.size(); ++i) {
        check_parameter(*instruction.called[i], 0, instruction.operand(i + 1).shape,
                        Precision::kSame);
      }
      break;
    case kReduce:
    case kReduceWindow:
    case kScatter:
      check_num_called(instruction, 1);
      check_combines(*instruction.called[0],
                     first_operands(instruction, instruction.operands.size() / 2));
      break;
    case kAllReduce:
    case kReduceScatter:
      check_num_called(instruction, 1);
      check_combines(*instruction.called[0], first_operands(instruction, 1));
      break;
    case kSort:
      check_sort(instruction);
      break;
    case kSelectAndScatter:
      check_select_and_scatter(instruction);
      break;
    // A custom call means what its target makes of it; async and scan hold whole programs.
    case kAllReduceStart:
    case kAsyncDone:
    case kAsyncStart:
    case kAsyncUpdate:
    case kCustomCall:
    case kScan:
    case kTopK:
      break;
    default:
      check_num_called(instruction, 0);
  }
}

// ---- Instructions and computations

class Verifier {
 public:
  Verifier(const Module& module, std::string_view path) : module_(module), path_(path) {}

  void run() {
    for (const auto& computation : module_.computations()) {
      check_computation(*computation);
      if (!names_.insert(computation->name()).second) {
        fail_in(*computation, nullptr, "another computation has the same name");
      }
      depths_[computation.get()] = depth_;
    }
    check_module();
  }

 private:
  [[noreturn]] void fail_in(const Computation& computation, const Instruction* instruction,
                            std::string_view what) const {
    std::string where = fmt::format("computation '{}'", computation.name());
    if (instruction != nullptr) where += fmt::format(", instruction '{}'", instruction->name);
    throw FormatError(path_, where, what);
  }

  void check_computation(const Computation& computation) {
    depth_ = 1;
    std::unordered_set<std::string_view> names;
    std::unordered_set<const Instruction*> seen;
    names.reserve(computation.size());
    seen.reserve(computation.size());
    std::vector<bool> parameters;
    for (const auto& instruction : computation.instructions()) {
      try {
        if (!names.insert(instruction->name).second) fail("another instruction has the same name");
        check_links(*instruction, seen);
        check_instruction(*instruction);
        if (instruction->opcode == kParameter) note_parameter(*instruction, parameters);
      } catch (const std::invalid_argument& error) {
        fail_in(computation, instruction.get(), error.what());
      }
      seen.insert(instruction.get());
    }
    const auto missing = std::find(parameters.begin(), parameters.end(), false);
    if (missing != parameters.end()) {
      fail_in(computation, nullptr,
              fmt::format("parameter {} is missing, but there are higher ones",
                          missing - parameters.begin()));
    }
    if (computation.root() == nullptr || !seen.contains(computation.root())) {
      fail_in(computation, nullptr, "it has no root");
    }
  }

  void check_links(const Instruction& instruction,
                   const std::unordered_set<const Instruction*>& seen) {
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      const Instruction* operand = instruction.operands[i];
      if (operand == nullptr) fail("operand {} is missing", i);
      if (!seen.contains(operand)) {
        fail("operand {}, '{}', does not stand in front of it", i, operand->name);
      }
    }
    for (const Instruction* before : instruction.control_predecessors) {
      if (before == nullptr || !seen.contains(before)) {
        fail("a control predecessor does not stand in front of it");
      }
    }
    for (const Computation* callee : instruction.called) {
      const auto depth = callee == nullptr ? depths_.end() : depths_.find(callee);
      if (depth == depths_.end()) {
        fail("it calls '{}', which does not stand in front of its computation",
             callee == nullptr ? "" : callee->name());
      }
      depth_ = std::max(depth_, depth->second + 1);
      if (depth_ > kMaxCallDepth) fail("calls nest deeper than {}", kMaxCallDepth);
    }
  }

  static void check_instruction(const Instruction& instruction) {
    check_shape(instruction.shape);
    const Shape inferred = infer_shape(instruction);
    if (!fits(instruction.shape, inferred, precision_of(instruction.opcode))) {
      fail("{}: expected {}, found {}", opcode_name(instruction.opcode), text(inferred),
           text(instruction.shape));
    }
    check_called(instruction);
    if (instruction.opcode == kConstant) {
      if (!instruction.literal) fail("constant: its literal is missing");
      check_literal(*instruction.literal, instruction.shape);
    }
  }

  static void note_parameter(const Instruction& instruction, std::vector<bool>& seen) {
    const int64_t number = instruction.attributes.parameter_number;
    // Numbers come from the file: a hole of this size could only be a mistake.
    constexpr int64_t kMaxParameters = int64_t{1} << 24;
    if (number < 0 || number >= kMaxParameters) fail("parameter number {} is impossible", number);
    const auto index = static_cast<size_t>(number);
    if (index >= seen.size()) seen.resize(index + 1, false);
    if (seen[index]) fail("parameter {} comes twice", number);
    seen[index] = true;
  }

  void check_module() const {
    if (module_.entry() == nullptr || !depths_.contains(module_.entry())) {
      throw FormatError(path_, fmt::format("module '{}'", module_.name),
                        "it has no entry computation");
    }
    const Computation& entry = *module_.entry();
    const ProgramShape program = entry.program_shape();
    if (module_.entry_layout &&
        module_.entry_layout->result.element_type != ElementType::kInvalid) {
      check_entry_layout(entry, program);
    }
    for (const InputOutputAlias& alias : module_.input_output_aliases) {
      check_index(entry, program.result, alias.output_index, "aliased output");
      check_parameter_index(entry, program, alias.parameter_number, alias.parameter_index);
    }
    for (const BufferDonor& donor : module_.buffer_donors) {
      check_parameter_index(entry, program, donor.parameter_number, donor.parameter_index);
    }
  }

  void check_entry_layout(const Computation& entry, const ProgramShape& program) const {
    const ProgramShape& layout = *module_.entry_layout;
    if (layout.parameters.size() != program.parameters.size()) {
      fail_in(entry, nullptr,
              fmt::format("entry_computation_layout has {} parameters, the computation {}",
                          layout.parameters.size(), program.parameters.size()));
    }
    for (size_t i = 0; i < layout.parameters.size(); ++i) {
      check_entry_shape(entry, layout.parameters[i], program.parameters[i],
                        fmt::format("parameter {}", i));
    }
    check_entry_shape(entry, layout.result, program.result, "the result");
  }

  void check_entry_shape(const Computation& entry, const Shape& layout, const Shape& shape,
                         std::string_view what) const {
    try {
      check_shape(layout);
    } catch (const std::invalid_argument& error) {
      fail_in(entry, nullptr, fmt::format("entry_computation_layout: {}: {}", what, error.what()));
    }
    if (!fits(layout, shape, Precision::kSame)) {
      fail_in(entry, nullptr,
              fmt::format("entry_computation_layout gives {} as {}, the computation {}", what,
                          text(layout), text(shape)));
    }
  }

  void check_parameter_index(const Computation& entry, const ProgramShape& program, int64_t number,
                             const Dims& index) const {
    if (number < 0 || number >= static_cast<int64_t>(program.parameters.size())) {
      fail_in(entry, nullptr,
              fmt::format("an alias names parameter {} of {}", number, program.parameters.size()));
    }
    check_index(entry, program.parameters[static_cast<size_t>(number)], index, "aliased parameter");
  }

  void check_index(const Computation& entry, const Shape& shape, const Dims& index,
                   std::string_view what) const {
    const Shape* at = &shape;
    for (int64_t i : index) {
      if (i < 0 || i >= static_cast<int64_t>(at->tuple_shapes.size())) {
        fail_in(
            entry, nullptr,
            fmt::format("{}: index {{{}}} is not in {}", what, fmt::join(index, ","), text(shape)));
      }
      at = &at->tuple_shapes[static_cast<size_t>(i)];
    }
  }

  const Module& module_;
  std::string_view path_;
  std::unordered_map<const Computation*, int64_t> depths_;  // Of the computations checked so far.
  std::unordered_set<std::string_view> names_;
  int64_t depth_ = 0;  // Of the computation at hand: 1 + its deepest callee's.
};

}  // namespace

void verify(const Module& module, std::string_view path) {
  Verifier(module, path).run();
}

}  // namespace lagom::hlo

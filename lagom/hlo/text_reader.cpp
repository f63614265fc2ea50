#include "lagom/hlo/text_reader.h"

#include <deque>
#include <optional>
#include <unordered_map>

#include "lagom/hlo/attribute_fields.h"
#include "lagom/hlo/shape_inference.h"
#include "lagom/hlo/text_parts.h"
#include "lagom/hlo/unique_names.h"
#include "lagom/util/error.h"

namespace lagom::hlo {
namespace detail {
namespace {

/// Attributes whose values are computations.
bool names_computations(std::string_view name) {
  return name == "to_apply" || name == "calls" || name == "condition" || name == "body" ||
         name == "branch_computations" || name == "true_computation" ||
         name == "false_computation" || name == "select" || name == "scatter" ||
         name == "called_computations";
}

class TextReader {
 public:
  TextReader(std::string_view text, std::string_view path) : cursor_(text, path) {}

  Module read() {
    read_header();
    while (!cursor_.at_end()) {
      if (!read_stack_table()) read_computation();
    }
    if (module_.computations().empty()) cursor_.fail_expected("a computation");
    if (module_.entry() == nullptr) module_.set_entry(module_.computations().back().get());
    if (module_.name.empty()) module_.name = "module_" + module_.entry()->name();
    make_names_unique(module_);
    mark_fusions();
    return std::move(module_);
  }

 private:
  using Scope = std::unordered_map<std::string_view, Instruction*>;

  /// The text says which computations are fused only where they are called.
  void mark_fusions() {
    for (const auto& computation : module_.computations()) {
      for (const auto& i : computation->instructions()) {
        if (i->opcode != Opcode::kFusion) continue;
        for (Computation* called : i->called) called->is_fusion = true;
      }
    }
  }

  void read_header() {
    module_.name.clear();
    if (!cursor_.consume_word("HloModule")) {
      const char first = cursor_.peek();
      const std::string_view word = cursor_.look_identifier();
      if (word == "module" || word == "func" || first == '#') {
        cursor_.fail(
            "this is MLIR (StableHLO), not HLO text: write the program as HLO, for "
            "instance with lowered.compiler_ir('hlo').as_hlo_text() in JAX");
      }
      if (word.empty() && first != '%') {
        cursor_.fail_expected("HLO text ('HloModule NAME' or a computation)");
      }
      return;
    }
    module_.name = cursor_.name("the module's name");
    while (cursor_.consume(',')) {
      const std::string_view name = cursor_.identifier("a module attribute");
      cursor_.expect('=', "after a module attribute");
      read_header_attribute(cursor_, name, module_);
    }
  }

  /// One of the tables FileNames, FunctionNames, FileLocations, StackFrames.
  bool read_stack_table() {
    StackFrameIndex& frames = module_.stack_frames;
    if (cursor_.consume_word("FileNames")) {
      while (cursor_.at_integer()) frames.file_names.push_back(numbered_name(frames.file_names));
      return true;
    }
    if (cursor_.consume_word("FunctionNames")) {
      while (cursor_.at_integer()) {
        frames.function_names.push_back(numbered_name(frames.function_names));
      }
      return true;
    }
    if (cursor_.consume_word("FileLocations")) {
      while (cursor_.at_integer()) {
        next_number(frames.file_locations.size());
        StackFrameIndex::FileLocation location;
        read_table_fields([&](std::string_view field, int64_t value) {
          if (field == "file_name_id") location.file_name_id = value;
          if (field == "function_name_id") location.function_name_id = value;
          if (field == "line") location.line = value;
          if (field == "end_line") location.end_line = value;
          if (field == "column") location.column = value;
          if (field == "end_column") location.end_column = value;
        });
        frames.file_locations.push_back(location);
      }
      return true;
    }
    if (cursor_.consume_word("StackFrames")) {
      while (cursor_.at_integer()) {
        next_number(frames.frames.size());
        StackFrameIndex::Frame frame;
        read_table_fields([&](std::string_view field, int64_t value) {
          if (field == "file_location_id") frame.file_location_id = value;
          // The text counts parents from 1 where the proto has 0 for none.
          if (field == "parent_frame_id") frame.parent_frame_id = value - 1;
        });
        frames.frames.push_back(frame);
      }
      return true;
    }
    return false;
  }

  void next_number(size_t count) {
    const char* start = cursor_.position();
    if (cursor_.integer("a table index") != static_cast<int64_t>(count) + 1) {
      cursor_.fail("expected table index " + std::to_string(count + 1), start);
    }
  }

  std::string numbered_name(const std::vector<std::string>& names) {
    next_number(names.size());
    return cursor_.quoted("a quoted name");
  }

  template <typename Use>
  void read_table_fields(Use&& use) {
    cursor_.expect('{', "before table fields");
    while (!cursor_.consume('}')) {
      cursor_.consume(',');
      const std::string_view field = cursor_.identifier("a table field");
      cursor_.expect('=', "after a table field");
      use(field, cursor_.integer("an integer"));
    }
  }

  void read_computation() {
    const bool is_entry = cursor_.consume_word("ENTRY");
    cursor_.skip_space();
    const char* start = cursor_.position();
    const std::string_view name = cursor_.name("a computation's name");
    if (cursor_.peek() == '(') {  // the signature repeats what the parameters say
      skip_signature();
    }
    Computation* computation = read_body(name, start);
    if (cursor_.consume(',')) {
      if (!cursor_.consume_word("execution_thread")) cursor_.fail_expected("execution_thread");
      cursor_.expect('=', "after execution_thread");
      computation->execution_thread = cursor_.quoted("a quoted thread name");
    }
    if (is_entry) {
      if (module_.entry() != nullptr) cursor_.fail("the module has two ENTRY computations", start);
      module_.set_entry(computation);
    }
  }

  void skip_signature() {
    cursor_.expect('(', "before a signature");
    while (!cursor_.consume(')')) {
      cursor_.consume(',');
      cursor_.name("a parameter's name");
      cursor_.expect(':', "after a parameter's name");
      read_shape(cursor_);
    }
    cursor_.expect("->", "after a signature");
    read_shape(cursor_);
  }

  /// Reads "{ instructions }" as a new computation of the module.
  Computation* read_body(std::string_view name, const char* start) {
    if (++body_depth_ > kMaxDepth) cursor_.fail("computations are nested too deeply");
    auto owned = std::make_unique<Computation>(std::string(name));
    Computation* computation = owned.get();
    Scope scope;
    cursor_.expect('{', "before a computation's instructions");
    while (!cursor_.consume('}')) {
      if (cursor_.at_end())
        cursor_.fail("computation '" + std::string(name) +
                     "' is not closed: the file ends inside it");
      read_instruction(*computation, scope);
    }
    if (computation->size() == 0) cursor_.fail("the computation has no instructions", start);
    if (computation->root() == nullptr) {
      computation->set_root(computation->instructions().back().get());
    }
    if (!computations_.emplace(computation->name(), computation).second) {
      cursor_.fail("a second computation named '" + computation->name() + "'", start);
    }
    module_.add_computation(std::move(owned));
    --body_depth_;
    return computation;
  }

  void read_instruction(Computation& computation, Scope& scope) {
    const bool is_root = cursor_.consume_word("ROOT");
    cursor_.skip_space();
    const char* start = cursor_.position();
    const std::string_view name = cursor_.name("an instruction or '}'");
    cursor_.expect('=', "after the instruction's name");
    Instruction* instruction =
        read_operation(computation, scope, std::make_unique<Instruction>(), std::string(name), 0);
    if (!scope.emplace(name, instruction).second) {
      cursor_.fail("a second instruction named '" + std::string(name) + "' in computation '" +
                       computation.name() + "'",
                   start);
    }
    if (is_root) {
      if (computation.root() != nullptr) cursor_.fail("the computation has two roots", start);
      computation.set_root(instruction);
    }
  }

  /// Shape, opcode, operands and attributes; appends to the computation after its operands.
  Instruction* read_operation(Computation& computation, Scope& scope,
                              std::unique_ptr<Instruction> instruction, std::string name,
                              int depth) {
    instruction->name = std::move(name);
    const bool has_shape = at_shape(cursor_);
    if (has_shape) instruction->shape = read_shape(cursor_);
    cursor_.skip_space();
    const char* start = cursor_.position();
    const std::optional<Opcode> wrapped = read_opcode(*instruction, start);
    cursor_.expect('(', "after the opcode");
    if (instruction->opcode == Opcode::kParameter) {
      instruction->attributes.parameter_number = cursor_.integer("a parameter number");
      cursor_.expect(')', "after the parameter number");
    } else if (instruction->opcode == Opcode::kConstant) {
      if (!has_shape) cursor_.fail("a constant needs its shape", start);
      if (instruction->shape.element_type != ElementType::kToken) {
        instruction->literal =
            std::make_shared<const Literal>(read_literal(cursor_, instruction->shape));
      }
      cursor_.expect(')', "after the constant's value");
    } else {
      read_operands(computation, scope, *instruction, depth);
    }
    if (wrapped && instruction->opcode == Opcode::kAsyncStart) {
      read_wrapped_operation(scope, *instruction, *wrapped, start);
    } else {
      while (depth == 0 && cursor_.consume(',')) read_named_attribute(scope, *instruction);
      if (wrapped && instruction->called.empty() && !instruction->operands.empty()) {
        instruction->called = instruction->operand(0).called;
      }
    }
    fill_defaults(instruction->opcode, instruction->attributes, kImpliedApiVersion);
    if (!has_shape) infer_missing_shape(*instruction, start);
    return computation.append(std::move(instruction));
  }

  /// The short form `x = ((operands), result, ...) OP-start(...), attributes` of an async-start:
  /// its attributes belong to OP, which stands alone in a computation of its own.
  void read_wrapped_operation(const Scope& scope, Instruction& start_op, Opcode opcode,
                              const char* start) {
    if (!start_op.shape.is_tuple() || start_op.shape.tuple_shapes.size() < 2) {
      cursor_.fail("an asynchronous start needs a shape ((operands), result, ...)", start);
    }
    auto inner = std::make_unique<Instruction>();
    inner->opcode = opcode;
    inner->name = start_op.name + ".wrapped";
    inner->shape = start_op.shape.tuple_shapes[1];
    while (cursor_.consume(',')) read_named_attribute(scope, *inner);
    start_op.metadata = inner->metadata;
    start_op.control_predecessors = std::exchange(inner->control_predecessors, {});
    auto body = std::make_unique<Computation>(start_op.name + ".async_wrapped");
    if (inner->attributes.rare && !inner->rare().async_execution_thread.empty()) {
      start_op.mutable_rare().async_execution_thread =
          std::exchange(inner->attributes.rare->async_execution_thread, {});
      body->execution_thread = start_op.rare().async_execution_thread;
    }
    fill_defaults(opcode, inner->attributes, kImpliedApiVersion);
    for (size_t i = 0; i < start_op.operands.size(); ++i) {
      auto parameter = std::make_unique<Instruction>();
      parameter->name = start_op.name + ".param_" + std::to_string(i);
      parameter->shape = start_op.operand(i).shape;
      parameter->attributes.parameter_number = static_cast<int64_t>(i);
      inner->operands.push_back(body->append(std::move(parameter)));
    }
    body->set_root(body->append(std::move(inner)));
    if (!computations_.emplace(body->name(), body.get()).second) {
      cursor_.fail("a second computation named '" + body->name() + "'", start);
    }
    start_op.called = {module_.add_computation(std::move(body))};
  }

  void infer_missing_shape(Instruction& instruction, const char* start) {
    try {
      instruction.shape = infer_shape(instruction);
    } catch (const std::invalid_argument& e) {
      cursor_.fail("the shape is left out and cannot be inferred: " + std::string(e.what()), start);
    }
    // Parameters, custom calls and the like have the shape that they say.
    if (instruction.shape.element_type == ElementType::kInvalid) {
      cursor_.fail("the shape is left out and cannot be inferred: nothing determines it", start);
    }
  }

  /// Returns OP when the opcode is one of the short forms OP-start, OP-update, OP-done.
  std::optional<Opcode> read_opcode(Instruction& instruction, const char* start) {
    const std::string_view word = cursor_.identifier("a shape or an opcode");
    if (const auto opcode = opcode_from_name(word)) {
      instruction.opcode = *opcode;
      const int arity = opcode_arity(*opcode);
      if (arity > 0) instruction.operands.reserve(static_cast<size_t>(arity));
      return std::nullopt;
    }
    constexpr std::pair<std::string_view, Opcode> kShortForms[] = {
        {"-start", Opcode::kAsyncStart},
        {"-update", Opcode::kAsyncUpdate},
        {"-done", Opcode::kAsyncDone}};
    for (const auto& [ending, opcode] : kShortForms) {
      if (!word.ends_with(ending)) continue;
      const auto wrapped = opcode_from_name(word.substr(0, word.size() - ending.size()));
      if (!wrapped) continue;
      instruction.opcode = opcode;
      return wrapped;
    }
    cursor_.fail("expected an opcode, found '" + std::string(word) + "'", start);
  }

  void read_operands(Computation& computation, Scope& scope, Instruction& instruction, int depth) {
    if (depth > kMaxDepth) cursor_.fail("operands are nested too deeply");
    while (!cursor_.consume(')')) {
      if (!instruction.operands.empty()) cursor_.expect(',', "or ')' between operands");
      instruction.operands.push_back(read_operand(computation, scope, depth));
    }
  }

  /// `name`, `shape name`, or a nested operation `shape? opcode(operands)`.
  Instruction* read_operand(Computation& computation, Scope& scope, int depth) {
    cursor_.skip_space();
    const char* start = cursor_.position();
    if (at_shape(cursor_)) read_shape(cursor_);
    cursor_.skip_space();
    const char* at = cursor_.position();
    const std::string_view name = cursor_.name("an operand");
    if (cursor_.raw_peek() == '(') {
      cursor_.reset(start);
      const std::string fresh = std::string(name) + ".nested" + std::to_string(++num_nested_);
      return read_operation(computation, scope, std::make_unique<Instruction>(), fresh, depth + 1);
    }
    const auto it = scope.find(name);
    if (it == scope.end()) {
      cursor_.fail("unknown operand '" + std::string(name) + "' in computation '" +
                       computation.name() + "': an operand must stand above its use",
                   at);
    }
    return it->second;
  }

  void read_named_attribute(const Scope& scope, Instruction& instruction) {
    const std::string_view name = cursor_.identifier("an attribute");
    cursor_.expect('=', "after attribute '" + std::string(name) + "'");
    if (names_computations(name)) {
      read_called(name, instruction);
    } else if (name == "control-predecessors") {
      cursor_.expect('{', "before control-predecessors");
      while (!cursor_.consume('}')) {
        cursor_.consume(',');
        const std::string_view predecessor = cursor_.name("an instruction");
        const auto it = scope.find(predecessor);
        if (it == scope.end()) {
          cursor_.fail("unknown control predecessor '" + std::string(predecessor) + "'");
        }
        instruction.control_predecessors.push_back(it->second);
      }
    } else {
      read_attribute(cursor_, name, instruction);
    }
  }

  void read_called(std::string_view name, Instruction& instruction) {
    std::vector<Computation*> computations;
    if (name == "branch_computations" || name == "called_computations") {
      cursor_.expect('{', "before a list of computations");
      while (!cursor_.consume('}')) {
        cursor_.consume(',');
        computations.push_back(read_computation_name(instruction));
      }
    } else {
      computations.push_back(read_computation_name(instruction));
    }
    // XLA's order: while {body, condition}, conditional {true, false}, {select, scatter}.
    auto& called = instruction.called;
    const bool goes_first = name == "body" || name == "true_computation" || name == "select";
    called.insert(goes_first ? called.begin() : called.end(), computations.begin(),
                  computations.end());
  }

  Computation* read_computation_name(const Instruction& instruction) {
    cursor_.skip_space();
    const char* start = cursor_.position();
    if (cursor_.peek() == '{') {
      inline_names_.push_back(instruction.name + ".inline" +
                              std::to_string(inline_names_.size() + 1));
      return read_body(inline_names_.back(), start);
    }
    const std::string_view name = cursor_.name("a computation");
    const auto it = computations_.find(std::string(name));
    if (it == computations_.end()) {
      cursor_.fail("unknown computation '" + std::string(name) +
                       "': a computation must stand above its caller",
                   start);
    }
    return it->second;
  }

  TextCursor cursor_;
  Module module_;
  std::unordered_map<std::string, Computation*> computations_;
  std::deque<std::string> inline_names_;  // names are looked at while more are added
  int num_nested_ = 0;
  int body_depth_ = 0;
};

}  // namespace
}  // namespace detail

Module read_hlo_text(std::string_view text, std::string_view path) {
  return detail::TextReader(text, path).read();
}

std::vector<Module> read_hlo_text_modules(std::string_view text, std::string_view path) {
  constexpr std::string_view kSeparator = "// -----";
  std::vector<Module> modules;
  size_t begin = 0;
  while (begin <= text.size()) {
    size_t end = begin;
    while (true) {  // the next separator at the start of a line
      end = text.find(kSeparator, end);
      if (end == std::string_view::npos) {
        end = text.size();
        break;
      }
      if (end == 0 || text[end - 1] == '\n') break;
      end += kSeparator.size();
    }
    const std::string_view part = text.substr(begin, end - begin);
    if (part.find_first_not_of(" \n\r\t") != std::string_view::npos || end == text.size()) {
      if (!modules.empty() && part.find_first_not_of(" \n\r\t") == std::string_view::npos) break;
      const std::string where =
          modules.empty() && end == text.size()
              ? std::string(path)
              : std::string(path) + " (module " + std::to_string(modules.size() + 1) + ")";
      modules.push_back(read_hlo_text(part, where));
    }
    if (end == text.size()) break;
    const size_t newline = text.find('\n', end);
    begin = newline == std::string_view::npos ? text.size() : newline + 1;
  }
  return modules;
}

}  // namespace lagom::hlo

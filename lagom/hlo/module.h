#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lagom/hlo/attributes.h"
#include "lagom/hlo/literal.h"
#include "lagom/hlo/opcode.h"
#include "lagom/hlo/shape.h"

namespace lagom::hlo {

class Computation;
class Module;

/// One operation in a computation. Operands and called computations are not owned: they live in
/// the same computation and module.
struct Instruction {
  std::string name;  ///< Unique in its computation, without '%'.
  Opcode opcode = Opcode::kParameter;
  Shape shape;
  std::vector<Instruction*> operands;
  std::vector<Instruction*> control_predecessors;
  /// In XLA's order: while {body, condition}; conditional {branch 0, 1, ...} with true first;
  /// select-and-scatter {select, scatter}; the others their one computation.
  std::vector<Computation*> called;
  Attributes attributes;
  std::shared_ptr<const Literal> literal;  ///< Constants only; shared between copies.
  Box<Metadata> metadata;
  int64_t id = 0;  ///< Id of the proto it was read from; 0 = none. Not part of equality.

  const RareAttributes& rare() const;  ///< The rare attributes, defaults when there are none.
  RareAttributes& mutable_rare() { return attributes.rare.ensure(); }
  Instruction& operand(size_t i) const { return *operands[i]; }
};

/// A function of HLO: instructions in an order where operands precede their users.
class Computation {
 public:
  explicit Computation(std::string name) : name_(std::move(name)) {}
  Computation(const Computation&) = delete;
  Computation& operator=(const Computation&) = delete;

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  const std::vector<std::unique_ptr<Instruction>>& instructions() const { return instructions_; }
  size_t size() const { return instructions_.size(); }

  /// Appends at the end. The caller keeps names unique (see `unique_name`).
  Instruction* append(std::unique_ptr<Instruction> instruction);
  /// Inserts before `position`, which must be in this computation.
  void insert_before(const Instruction* position,
                     std::vector<std::unique_ptr<Instruction>> instructions);
  /// Takes the whole list out, or replaces it; for passes that rebuild a computation.
  std::vector<std::unique_ptr<Instruction>> release_instructions();
  void set_instructions(std::vector<std::unique_ptr<Instruction>> instructions);

  Instruction* root() const { return root_; }
  void set_root(Instruction* root) { root_ = root; }
  /// Parameters by number.
  std::vector<Instruction*> parameters() const;
  /// nullptr when there is none of that name; linear.
  Instruction* find(std::string_view name) const;
  /// Parameter and root shapes.
  ProgramShape program_shape() const;

  std::string execution_thread;  ///< Empty = main.
  bool is_fusion = false;
  int64_t id = 0;               ///< Id in the proto it was read from; 0 = none.
  std::string unknown_fields;   ///< Wire bytes of fields not decoded.

 private:
  std::string name_;
  std::vector<std::unique_ptr<Instruction>> instructions_;
  Instruction* root_ = nullptr;
};

/// The tables of newer dumps that map stack_frame_id to source positions. Ids are 1-based.
struct StackFrameIndex {
  struct FileLocation {
    int64_t file_name_id = 0, function_name_id = 0, line = 0, end_line = 0, column = 0,
            end_column = 0;
    friend bool operator==(const FileLocation&, const FileLocation&) = default;
  };
  struct Frame {
    int64_t file_location_id = 0, parent_frame_id = 0;
    friend bool operator==(const Frame&, const Frame&) = default;
  };
  std::vector<std::string> file_names, function_names;
  std::vector<FileLocation> file_locations;
  std::vector<Frame> frames;
  bool empty() const { return file_names.empty() && frames.empty() && file_locations.empty(); }
  friend bool operator==(const StackFrameIndex&, const StackFrameIndex&) = default;
};

/// An output that may (or must) reuse the buffer of a parameter.
struct InputOutputAlias {
  Dims output_index;
  int64_t parameter_number = 0;
  Dims parameter_index;
  bool must_alias = false;
  friend bool operator==(const InputOutputAlias&, const InputOutputAlias&) = default;
};

struct BufferDonor {
  int64_t parameter_number = 0;
  Dims parameter_index;
  friend bool operator==(const BufferDonor&, const BufferDonor&) = default;
};

/// A program: computations with callees before callers, one of them the entry.
class Module {
 public:
  explicit Module(std::string name = "module") : name(std::move(name)) {}
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;

  /// Deep copy; literals are shared.
  Module clone() const;

  Computation* entry() const { return entry_; }
  void set_entry(Computation* computation) { entry_ = computation; }
  const std::vector<std::unique_ptr<Computation>>& computations() const { return computations_; }
  Computation* add_computation(std::unique_ptr<Computation> computation);
  /// Inserts before `position` (callees precede callers).
  Computation* add_computation_before(const Computation* position,
                                      std::unique_ptr<Computation> computation);
  Computation* find_computation(std::string_view name) const;
  size_t num_instructions() const;
  /// Removes computations that nothing reaches from the entry; returns how many.
  size_t remove_unreached_computations();

  std::string name;
  /// Shapes with layouts that the caller sees; empty parameters and an invalid result when the
  /// module does not say (then the entry computation's shapes hold).
  Box<ProgramShape> entry_layout;
  bool is_scheduled = false;
  std::vector<InputOutputAlias> input_output_aliases;
  std::vector<BufferDonor> buffer_donors;
  StringMap frontend_attributes;
  StackFrameIndex stack_frames;
  std::vector<RawAttribute> raw;  ///< Header attributes not decoded (num_partitions=2, ...).
  bool is_dynamic = false;
  int64_t id = 0;
  std::string unknown_fields;  ///< Wire bytes of module fields not decoded.

 private:
  std::vector<std::unique_ptr<Computation>> computations_;
  Computation* entry_ = nullptr;
};

/// Who reads each instruction of a computation. A snapshot: it does not follow later edits.
class UserIndex {
 public:
  explicit UserIndex(const Computation& computation);
  /// Users in order, each once per instruction even when it reads the value twice.
  const std::vector<Instruction*>& of(const Instruction* instruction) const;

 private:
  std::unordered_map<const Instruction*, std::vector<Instruction*>> users_;
};

/// Where an instruction comes from, "model.py:42" by its metadata or the stack-frame tables; empty
/// when neither says.
std::string source_location(const Module& module, const Instruction& instruction);

/// The first difference between two modules, or empty when they are equal: names, computations,
/// instructions in order, shapes, layouts, attributes, literals, metadata, tables. Ids, undecoded
/// wire bytes and the header attributes that only text has are not compared.
std::string describe_difference(const Module& a, const Module& b);

}  // namespace lagom::hlo

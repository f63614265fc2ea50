#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/util/primitive_type.h"

namespace lagom::testing {

/// Writes the bytes of small HloModuleProtos by hand, so that the tests of the XLA client and of
/// the measurement do not depend on the HLO library.
///
///   TinyModule module("add");
///   auto a = module.parameter(PrimitiveType::kF32, {4});
///   std::string bytes = module.finish(module.op("add", PrimitiveType::kF32, {4}, {a, a}));
class TinyModule {
 public:
  using Dims = std::vector<int64_t>;

  explicit TinyModule(std::string name) : name_(std::move(name)) {}

  /// `minor_to_major` empty: row-major. Returns the instruction's id, as do all below.
  int64_t parameter(PrimitiveType type, const Dims& dims, const Dims& minor_to_major = {});
  int64_t op(std::string_view opcode, PrimitiveType type, const Dims& dims,
             const std::vector<int64_t>& operands, const Dims& minor_to_major = {});
  int64_t constant_f32(float value);  ///< A scalar.
  int64_t constant_pred(bool value);  ///< A scalar.
  int64_t broadcast_scalar(PrimitiveType type, const Dims& dims, int64_t scalar);
  /// [m,k] x [k,n] -> [m,n].
  int64_t dot_f32(int64_t m, int64_t n, int64_t lhs, int64_t rhs);
  int64_t custom_call(std::string_view target, PrimitiveType type, const Dims& dims,
                      const std::vector<int64_t>& operands);
  /// A loop over an f32 array whose body adds 1 and whose condition never fails.
  int64_t endless_loop(const Dims& dims, int64_t initial);
  /// The first output takes over the memory of parameter `number`.
  void alias_output_with_parameter(int64_t number) { aliased_parameter_ = number; }
  /// A tuple of values; for use as the root only.
  int64_t tuple(const std::vector<int64_t>& operands);

  std::string finish(int64_t root);

 private:
  struct Instruction {
    int64_t id;
    std::string shape;
    std::string bytes;
  };
  int64_t add(std::string_view opcode, const std::string& shape,
              const std::vector<int64_t>& operands, const std::string& more = {});
  const std::string& shape_of(int64_t id) const;

  std::string name_;
  std::vector<Instruction> instructions_;
  std::vector<int64_t> parameters_;
  std::vector<std::string> other_computations_;
  int64_t next_id_ = 1;
  int64_t aliased_parameter_ = -1;
};

/// f32[n] x -> x + x, twice the input.
std::string double_module(int64_t n);

/// (f32[n,n], f32[n,n]) -> their product; some milliseconds for n = 512.
std::string matmul_module(int64_t n);

/// f32[n,n] x -> tanh(x) multiplied `times` times by itself: slower the larger `times` is.
std::string matmul_chain_module(int64_t n, int times);

/// A module on which XLA's own checks end the process instead of giving an error.
std::string aborting_module();

}  // namespace lagom::testing

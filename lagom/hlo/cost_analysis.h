#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "lagom/hlo/module.h"

namespace lagom::hlo {

/// What an instruction or a program costs, by the shapes alone.
struct Cost {
  double flops = 0;            ///< Arithmetic operations; a fused multiply-add counts as two.
  double transcendentals = 0;  ///< exp, log, tanh, sqrt, power, sine... each counts once.
  double bytes_read = 0;       ///< Operands, each as often as it is read.
  double bytes_written = 0;    ///< Results.

  double bytes_accessed() const { return bytes_read + bytes_written; }
  Cost& operator+=(const Cost& other);
  Cost scaled(double factor) const;
};

struct CostOptions {
  /// Multiply a loop's body and condition by its trip count where that is known. XLA counts one
  /// iteration always.
  bool multiply_trip_counts = true;
  double unknown_trip_count = 1;  ///< Iterations of a loop of unknown length.
};

/// Costs after XLA's HloCostAnalysis:
/// - element by element: one operation per element of the result; convert and compare count, copy,
///   broadcast, reshape and other moves do not;
/// - dot: 2 per element of the result and of the contracted dimensions; complex numbers count as
///   one number;
/// - convolution: 2 per pair of a kernel element and an input element that really meet, so padding
///   and dilation holes are free;
/// - reduce: (elements in - elements out) times the reducer; reduce-window: elements out times
///   (window - 1); select-and-scatter, scatter, map, sort (n log2 n), fft, cholesky and
///   triangular-solve likewise;
/// - bytes: operands plus result, sub-byte types as whole bytes; slice, dynamic-slice and gather
///   read what they return, dynamic-update-slice and scatter touch the updates, a tuple writes
///   8 bytes an element; parameters, constants, get-tuple-element, bitcasts and transposes that
///   only change the layout move nothing;
/// - fusion: the arithmetic inside, and the bytes that cross its border;
/// - call: the computation; conditional: its dearest branch.
/// It differs from XLA's in three places: loops (see CostOptions), FFTs (n log2 n over the
/// transformed dimensions only), and custom calls, which XLA leaves out and which here count their
/// operands and result (nothing for sharding and layout marks) and no arithmetic.
///
/// Computations are analysed once each. The module must be verified, and must not change while the
/// analysis is used.
class CostAnalysis {
 public:
  explicit CostAnalysis(const Module& module, const CostOptions& options = {});

  /// The whole program: the entry computation.
  Cost total();
  Cost of(const Computation& computation);
  /// One execution of the instruction; a loop, call or fusion includes what it calls.
  Cost of(const Instruction& instruction);

 private:
  Cost arithmetic(const Instruction& instruction);
  Cost bytes(const Instruction& instruction);
  Cost called(const Instruction& instruction, size_t index);

  const Module& module_;
  CostOptions options_;
  std::unordered_map<const Computation*, Cost> computations_;
};

/// How often a loop's body runs: from the backend_config's known_trip_count, or from a counter that
/// starts at a constant, is compared with a constant in the condition, and has a constant added in
/// the body. nullopt when neither tells.
std::optional<int64_t> trip_count(const Instruction& loop);

/// Multiplications of a convolution that meet an input element: padding, dilation holes left out.
double convolution_products(const Instruction& convolution);

}  // namespace lagom::hlo

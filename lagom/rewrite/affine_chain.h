#pragma once

#include <optional>
#include <vector>

#include "lagom/hlo/builder.h"
#include "lagom/hlo/module.h"

namespace lagom::rewrite {

/// Additions, subtractions, multiplications and divisions of one array by values that are constant
/// along most of its dimensions: y = x * scale + shift, as normalisations by given statistics are.
struct AffineChain {
  /// One operation, the chain's first innermost.
  struct Step {
    const hlo::Instruction* operation = nullptr;
    hlo::Instruction* broadcast = nullptr;  ///< The operand that is constant along dimensions.
    bool is_left = false;                   ///< Whether that is the operation's left side.
  };
  hlo::Instruction* x = nullptr;
  std::vector<Step> steps;
  hlo::Dims feature_dims;  ///< Dimensions along which scale and shift vary, ascending; not empty.
  bool has_scale = false;  ///< Some step multiplies or divides.

  /// The longest chain that ends at the instruction; nullopt when there is none. f32 and f64.
  static std::optional<AffineChain> ending_at(const hlo::Instruction& instruction);

  /// Operations but the last, and the broadcasts.
  std::vector<const hlo::Instruction*> inner_nodes() const;

  struct Vectors {
    hlo::Instruction* scale = nullptr;  ///< [sizes of feature_dims]; nullptr: 1.
    hlo::Instruction* shift = nullptr;  ///< The same; nullptr: 0.
  };
  Vectors emit_vectors(hlo::Builder& builder) const;
};

}  // namespace lagom::rewrite

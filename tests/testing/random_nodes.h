#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/hlo/builder.h"
#include "lagom/hlo/evaluator.h"
#include "lagom/hlo/module.h"

/// Generated nodes on which every rule of lagom/rewrite is proven (tests/rewrite/proof_test.cpp).
///
/// A *family* draws nodes of one kind from choices. The proof iterates rewrite::all_rules() and
/// fails for a rule that no family reaches: a new rule comes with a family, or widens one.
namespace lagom::testing {

/// Where a generator's decisions come from. Every choice is shrunk towards its low end (or first
/// option) when a proof fails, so the plainest value should stand there: size 1, no padding, f32.
class Choices {
 public:
  virtual ~Choices() = default;
  /// A whole number in [low, high], both ends included.
  virtual int64_t integer(int64_t low, int64_t high) = 0;

  bool flip() { return integer(0, 1) == 1; }
  /// True once in `n` times.
  bool rarely(int64_t n) { return integer(0, n - 1) == n - 1; }
  template <typename T>
  const T& element(const std::vector<T>& options) {
    return options[static_cast<size_t>(integer(0, static_cast<int64_t>(options.size()) - 1))];
  }
};

/// Choices from a generator of random numbers, for tests that do not shrink.
class RandomChoices : public Choices {
 public:
  explicit RandomChoices(uint32_t seed) : generator_(seed) {}
  int64_t integer(int64_t low, int64_t high) override;

 private:
  std::mt19937 generator_;
};

/// A program around one node, and its inputs.
struct RandomNode {
  RandomNode();

  hlo::Module module{"random"};
  hlo::Computation* entry = nullptr;
  /// What rules are asked about. The entry's root is the node itself unless the generator set
  /// another (a tuple of several outputs, something that uses the node).
  hlo::Instruction* node = nullptr;
  /// One per parameter, row-major. The proof rounds them to the parameters' types.
  std::vector<hlo::Values> arguments;
  /// How many products or values are summed, one after another, on the way to one output value:
  /// the proof's tolerance grows with its square root. 0: counted from the module (`summed_terms`).
  double terms = 0;
  /// The largest sum of absolute values on the way to an output. 0: found by evaluating the module
  /// with every argument made positive, which is right for sums of products.
  double magnitude = 0;
  /// HLO leaves the value open and XLA's choice is not the evaluator's (which of equal elements a
  /// select-and-scatter picks): XLA's result of the node itself is not looked at.
  bool xla_may_differ = false;
};

/// Makes a RandomNode: builder, names, parameters with values.
class NodeMaker {
 public:
  explicit NodeMaker(Choices& choices);

  Choices& choices;
  RandomNode result;
  hlo::NameTable names;
  hlo::Builder builder;  ///< Appends to the entry.

  /// A parameter of normal(0, 1) values (booleans for pred, -3..3 for integers).
  hlo::Instruction* parameter(hlo::ElementType type, hlo::Dims dims, std::string_view name = "x");
  /// A parameter with these values, row-major.
  hlo::Instruction* parameter(hlo::ElementType type, hlo::Dims dims, hlo::Values values,
                              std::string_view name = "x");
  /// Whole numbers in [low, high]: floats with ties, indices.
  hlo::Instruction* whole_parameter(hlo::ElementType type, hlo::Dims dims, int64_t low,
                                    int64_t high, std::string_view name = "x");

  /// f32, bf16 or f16.
  hlo::ElementType float_type();
  /// `rank` distinct numbers 0 .. rank - 1 in any order: dimension labels, permutations, layouts.
  hlo::Dims permutation(int64_t rank);
  /// Gives an instruction's shape a layout of any order, one time in four.
  void maybe_odd_layout(hlo::Instruction* instruction);

  /// The finished node; root too, when none was set.
  RandomNode finish(hlo::Instruction* node);
};

/// One kind of nodes.
struct NodeFamily {
  std::string name;
  std::function<RandomNode(Choices&)> make;
};

/// Every family, in a fixed order: those below, joined.
const std::vector<NodeFamily>& node_families();

/// tests/testing/random_nodes_convolution.cpp
std::vector<NodeFamily> convolution_families();
/// One plain node: a convolution of parameters "input" and "kernel" of these dimensions.
RandomNode make_convolution(Choices& choices, hlo::ElementType type, hlo::Dims input_dims,
                            hlo::Dims kernel_dims, hlo::ConvolutionSpec spec);
/// tests/testing/random_nodes_pooling.cpp
std::vector<NodeFamily> pooling_families();
/// tests/testing/random_nodes_dots.cpp
std::vector<NodeFamily> dot_families();
/// tests/testing/random_nodes_reductions.cpp
std::vector<NodeFamily> reduction_families();
/// tests/testing/random_nodes_affine.cpp
std::vector<NodeFamily> affine_families();
/// tests/testing/random_nodes_gather.cpp
std::vector<NodeFamily> gather_families();

}  // namespace lagom::testing

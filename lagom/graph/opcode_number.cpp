#include <array>
#include <span>
#include <string_view>

#include "lagom/graph/op_graph.h"

namespace lagom::graph {
namespace {

// In the order of the data set's numbers, from 1; two names that XLA no longer has keep theirs.
constexpr std::string_view kNames[] = {
    "abs",
    "add",
    "add-dependency",
    "after-all",
    "all-reduce",
    "all-to-all",
    "atan2",
    "batch-norm-grad",
    "batch-norm-inference",
    "batch-norm-training",
    "bitcast",
    "bitcast-convert",
    "broadcast",
    "call",
    "ceil",
    "cholesky",
    "clamp",
    "collective-permute",
    "count-leading-zeros",
    "compare",
    "complex",
    "concatenate",
    "conditional",
    "constant",
    "convert",
    "convolution",
    "copy",
    "copy-done",
    "copy-start",
    "cosine",
    "custom-call",
    "divide",
    "domain",
    "dot",
    "dynamic-slice",
    "dynamic-update-slice",
    "exponential",
    "exponential-minus-one",
    "fft",
    "floor",
    "fusion",
    "gather",
    "get-dimension-size",
    "set-dimension-size",
    "get-tuple-element",
    "imag",
    "infeed",
    "iota",
    "is-finite",
    "log",
    "log-plus-one",
    "and",
    "not",
    "or",
    "xor",
    "map",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "outfeed",
    "pad",
    "parameter",
    "partition-id",
    "popcnt",
    "power",
    "real",
    "recv",
    "recv-done",
    "reduce",
    "reduce-precision",
    "reduce-window",
    "remainder",
    "replica-id",
    "reshape",
    "reverse",
    "rng",
    "rng-get-and-update-state",
    "rng-bit-generator",
    "round-nearest-afz",
    "rsqrt",
    "scatter",
    "select",
    "select-and-scatter",
    "send",
    "send-done",
    "shift-left",
    "shift-right-arithmetic",
    "shift-right-logical",
    "sign",
    "sine",
    "slice",
    "sort",
    "sqrt",
    "subtract",
    "tanh",
    "trace",
    "transpose",
    "triangular-solve",
    "tuple",
    "tuple-select",
    "while",
    "cbrt",
    "all-gather",
    "collective-permute-start",
    "collective-permute-done",
    "logistic",
    "dynamic-reshape",
    "all-reduce-start",
    "all-reduce-done",
    "reduce-scatter",
    "all-gather-start",
    "all-gather-done",
    "opt-barrier",
    "async-start",
    "async-done",
    "async-update",
    "round-nearest-even",
    "stochastic-convert",
    "tan",
};
static_assert(std::size(kNames) == 120);

// What XLA got later, in the order of our numbers from kFirstExtendedOpcode: append only.
constexpr std::string_view kExtendedNames[] = {
    "acos",       "acosh", "asin",
    "asinh",      "atanh", "collective-broadcast",
    "cosh",       "erf",   "ragged-all-to-all",
    "ragged-dot", "scan",  "sinh",
    "topk",
};

using Numbers = std::array<uint8_t, 256>;

void add(Numbers& numbers, std::span<const std::string_view> names, int first) {
  for (size_t i = 0; i < names.size(); ++i) {
    const auto known = hlo::opcode_from_name(names[i]);
    if (known)
      numbers[static_cast<size_t>(*known)] = static_cast<uint8_t>(first + static_cast<int>(i));
  }
}

}  // namespace

uint8_t opcode_number(hlo::Opcode opcode, int feature_version) {
  static const auto kOfVersion = [] {
    std::array<Numbers, kMaxFeatureVersion> numbers{};
    for (Numbers& version : numbers) add(version, kNames, 1);
    for (size_t v = 1; v < numbers.size(); ++v) {
      add(numbers[v], kExtendedNames, kFirstExtendedOpcode);
    }
    return numbers;
  }();
  return kOfVersion.at(static_cast<size_t>(feature_version - 1))[static_cast<size_t>(opcode)];
}

}  // namespace lagom::graph

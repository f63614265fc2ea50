#include "tests/testing/evaluator.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "tests/testing/indices.h"
#include "tests/testing/reference_convolution.h"

namespace lagom::testing {
namespace {

using hlo::Dims;
using hlo::Instruction;
using hlo::Opcode;

bool contains(const Dims& dims, int64_t d) {
  return std::find(dims.begin(), dims.end(), d) != dims.end();
}

class Evaluator {
 public:
  explicit Evaluator(const std::vector<Values>& arguments) : arguments_(arguments) {}

  // By reference into a map whose nodes do not move.
  const Values& value(const Instruction& instruction) {
    const auto it = values_.find(&instruction);
    if (it != values_.end()) return it->second;
    Values result = compute(instruction);
    if (static_cast<int64_t>(result.size()) != instruction.shape.num_elements()) {
      throw std::invalid_argument("evaluator: '" + instruction.name + "' has shape " +
                                  instruction.shape.to_string() + " but " +
                                  std::to_string(result.size()) + " values");
    }
    return values_[&instruction] = std::move(result);
  }

 private:
  Values compute(const Instruction& i) {
    switch (i.opcode) {
      case Opcode::kParameter:
        return arguments_.at(static_cast<size_t>(i.attributes.parameter_number));
      case Opcode::kConstant:
        return i.literal->row_major_values();
      case Opcode::kConvert:
      case Opcode::kCopy:
      case Opcode::kReshape:
      case Opcode::kOptimizationBarrier:
        return value(i.operand(0));
      case Opcode::kIota:
        return by_index(
            i, [&](const Dims& at) { return static_cast<double>(at[i.attributes.dimensions[0]]); });
      case Opcode::kBroadcast:
        return from_operand(i, [&](const Dims& at) {
          Dims source;
          for (int64_t d : i.attributes.dimensions) source.push_back(at[d]);
          return source;
        });
      case Opcode::kTranspose:
        return from_operand(i, [&](const Dims& at) {
          Dims source(at.size());
          for (size_t d = 0; d < at.size(); ++d) source[i.attributes.dimensions[d]] = at[d];
          return source;
        });
      case Opcode::kSlice:
        return from_operand(i, [&](Dims at) {
          for (size_t d = 0; d < at.size(); ++d) {
            at[d] = i.attributes.slice[d].start + at[d] * i.attributes.slice[d].stride;
          }
          return at;
        });
      case Opcode::kReverse:
        return from_operand(i, [&](Dims at) {
          for (int64_t d : i.attributes.dimensions) at[d] = i.shape.dimensions[d] - 1 - at[d];
          return at;
        });
      case Opcode::kPad:
        return pad(i);
      case Opcode::kConcatenate:
        return concatenate(i);
      case Opcode::kDot:
        return dot(i);
      case Opcode::kConvolution:
        return reference_convolution(i, value(i.operand(0)), value(i.operand(1)));
      case Opcode::kReduce:
        return reduce(i);
      case Opcode::kReduceWindow:
        return reduce_window(i);
      case Opcode::kSelectAndScatter:
        return select_and_scatter(i);
      case Opcode::kSelect: {
        const Values& predicate = value(i.operand(0));
        const Values& on_true = value(i.operand(1));
        const Values& on_false = value(i.operand(2));
        Values result(on_true.size());
        for (size_t n = 0; n < result.size(); ++n) {
          result[n] = predicate[predicate.size() == 1 ? 0 : n] != 0 ? on_true[n] : on_false[n];
        }
        return result;
      }
      default:
        return elementwise(i);
    }
  }

  template <typename Function>
  Values by_index(const Instruction& i, Function&& function) {
    Values result;
    for_each_index(i.shape.dimensions, [&](const Dims& at) { result.push_back(function(at)); });
    return result;
  }

  // Each element is one of the operand's, at the index that `source` gives.
  template <typename Function>
  Values from_operand(const Instruction& i, Function&& source) {
    const Values& x = value(i.operand(0));
    const Dims& dims = i.operand(0).shape.dimensions;
    return by_index(i, [&](const Dims& at) { return x.at(linear_index(dims, source(at))); });
  }

  Values pad(const Instruction& i) {
    const Values& x = value(i.operand(0));
    const double fill = value(i.operand(1))[0];
    const Dims& dims = i.operand(0).shape.dimensions;
    return by_index(i, [&](Dims at) {
      for (size_t d = 0; d < at.size(); ++d) {
        const hlo::PadDim& pad = i.attributes.padding[d];
        const int64_t position = at[d] - pad.low;
        if (position < 0 || position % (pad.interior + 1) != 0) return fill;
        at[d] = position / (pad.interior + 1);
        if (at[d] >= dims[d]) return fill;
      }
      return x.at(linear_index(dims, at));
    });
  }

  Values concatenate(const Instruction& i) {
    const int64_t dim = i.attributes.dimensions[0];
    return by_index(i, [&](Dims at) {
      size_t part = 0;
      while (at[dim] >= i.operand(part).shape.dimensions[dim]) {
        at[dim] -= i.operand(part++).shape.dimensions[dim];
      }
      return value(i.operand(part)).at(linear_index(i.operand(part).shape.dimensions, at));
    });
  }

  Values dot(const Instruction& i) {
    const hlo::DotDims& dims = *i.attributes.dot;
    const Dims& lhs_dims = i.operand(0).shape.dimensions;
    const Dims& rhs_dims = i.operand(1).shape.dimensions;
    const Values& lhs = value(i.operand(0));
    const Values& rhs = value(i.operand(1));
    Dims contracted;
    for (int64_t d : dims.lhs_contracting) contracted.push_back(lhs_dims[d]);
    return by_index(i, [&](const Dims& at) {
      Dims a(lhs_dims.size()), b(rhs_dims.size());
      size_t next = 0;
      for (size_t n = 0; n < dims.lhs_batch.size(); ++n, ++next) {
        a[dims.lhs_batch[n]] = b[dims.rhs_batch[n]] = at[next];
      }
      for (size_t d = 0; d < a.size(); ++d) {
        if (!contains(dims.lhs_batch, d) && !contains(dims.lhs_contracting, d)) a[d] = at[next++];
      }
      for (size_t d = 0; d < b.size(); ++d) {
        if (!contains(dims.rhs_batch, d) && !contains(dims.rhs_contracting, d)) b[d] = at[next++];
      }
      double sum = 0;
      for_each_index(contracted, [&](const Dims& k) {
        for (size_t n = 0; n < k.size(); ++n) {
          a[dims.lhs_contracting[n]] = b[dims.rhs_contracting[n]] = k[n];
        }
        sum += lhs.at(linear_index(lhs_dims, a)) * rhs.at(linear_index(rhs_dims, b));
      });
      return sum;
    });
  }

  double apply(const Instruction& i, double accumulator, double element) {
    return evaluate(*i.called[0]->root(), {{accumulator}, {element}})[0];
  }

  Values reduce(const Instruction& i) {
    const Values& x = value(i.operand(0));
    Values result(static_cast<size_t>(i.shape.num_elements()), value(i.operand(1))[0]);
    size_t next = 0;
    for_each_index(i.operand(0).shape.dimensions, [&](const Dims& at) {
      Dims kept;
      for (size_t d = 0; d < at.size(); ++d) {
        if (!contains(i.attributes.dimensions, d)) kept.push_back(at[d]);
      }
      double& sum = result.at(linear_index(i.shape.dimensions, kept));
      sum = apply(i, sum, x[next++]);
    });
    return result;
  }

  Values reduce_window(const Instruction& i) {
    const Values& x = value(i.operand(0));
    const Dims& dims = i.operand(0).shape.dimensions;
    const double init = value(i.operand(1))[0];
    Dims window_dims;
    for (const hlo::WindowDim& dim : i.attributes.window) window_dims.push_back(dim.size);
    return by_index(i, [&](const Dims& at) {
      double result = init;
      for_each_index(window_dims, [&](const Dims& tap) {
        Dims source(at.size());
        for (size_t d = 0; d < at.size(); ++d) {
          const hlo::WindowDim& dim = i.attributes.window[d];
          const int64_t position = at[d] * dim.stride + tap[d] * dim.window_dilation - dim.pad_low;
          if (position < 0 || position % dim.base_dilation != 0) return;
          source[d] = position / dim.base_dilation;
          if (source[d] >= dims[d]) return;
        }
        result = apply(i, result, x.at(linear_index(dims, source)));
      });
      return result;
    });
  }

  Values select_and_scatter(const Instruction& i) {
    const Values& x = value(i.operand(0));
    const Values& source = value(i.operand(1));
    const Dims& dims = i.shape.dimensions;
    Values result(x.size(), value(i.operand(2))[0]);
    Dims window_dims;
    for (const hlo::WindowDim& dim : i.attributes.window) window_dims.push_back(dim.size);
    size_t next = 0;
    for_each_index(i.operand(1).shape.dimensions, [&](const Dims& at) {
      std::optional<size_t> chosen;
      for_each_index(window_dims, [&](const Dims& tap) {
        Dims index(at.size());
        for (size_t d = 0; d < at.size(); ++d) {
          const hlo::WindowDim& dim = i.attributes.window[d];
          index[d] = at[d] * dim.stride + tap[d] - dim.pad_low;
          if (index[d] < 0 || index[d] >= dims[d]) return;
        }
        const size_t candidate = linear_index(dims, index);
        if (!chosen || apply(i, x[*chosen], x[candidate]) == 0) chosen = candidate;
      });
      const double update = source[next++];
      if (!chosen) return;
      double& sum = result[*chosen];
      sum = evaluate(*i.called[1]->root(), {{sum}, {update}})[0];
    });
    return result;
  }

  Values elementwise(const Instruction& i) {
    Values result(static_cast<size_t>(i.shape.num_elements()));
    for (size_t n = 0; n < result.size(); ++n) {
      const double a = value(i.operand(0)).at(n);
      const double b = i.operands.size() > 1 ? value(i.operand(1)).at(n) : 0;
      result[n] = scalar(i, a, b);
    }
    return result;
  }

  static double scalar(const Instruction& i, double a, double b) {
    switch (i.opcode) {
      case Opcode::kAdd:
        return a + b;
      case Opcode::kSubtract:
        return a - b;
      case Opcode::kMultiply:
        return a * b;
      case Opcode::kDivide:
        return a / b;
      case Opcode::kMaximum:
        return std::max(a, b);
      case Opcode::kMinimum:
        return std::min(a, b);
      case Opcode::kAnd:
        return a != 0 && b != 0;
      case Opcode::kOr:
        return a != 0 || b != 0;
      case Opcode::kNot:
        return a == 0;
      case Opcode::kNegate:
        return -a;
      case Opcode::kAbs:
        return std::fabs(a);
      case Opcode::kExp:
        return std::exp(a);
      case Opcode::kTanh:
        return std::tanh(a);
      case Opcode::kSqrt:
        return std::sqrt(a);
      case Opcode::kCompare: {
        const std::string& direction = i.attributes.comparison_direction;
        if (direction == "EQ") return a == b;
        if (direction == "NE") return a != b;
        if (direction == "GE") return a >= b;
        if (direction == "GT") return a > b;
        if (direction == "LE") return a <= b;
        return a < b;
      }
      default:
        throw std::invalid_argument("evaluator: no definition of " +
                                    std::string(hlo::opcode_name(i.opcode)));
    }
  }

  const std::vector<Values>& arguments_;
  std::unordered_map<const Instruction*, Values> values_;
};

}  // namespace

Values evaluate(const Instruction& instruction, const std::vector<Values>& arguments) {
  return Evaluator(arguments).value(instruction);
}

}  // namespace lagom::testing

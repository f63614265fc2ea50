#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "lagom/hlo/evaluator_detail.h"
#include "lagom/hlo/evaluator_operations.h"

namespace lagom::hlo::evaluation {
namespace {

// Accumulators and elements of one call of a reducer with `count` arrays, and its results.
class ReducerCall {
 public:
  ReducerCall(ScalarFunction& function, size_t count)
      : function_(function), arguments_(2 * count) {}

  // sums[a][sum_at] = reducer(sums[..][sum_at], elements[..][element_at])
  void operator()(std::vector<Values>& sums, size_t sum_at,
                  const std::vector<const Values*>& elements, size_t element_at) {
    const size_t count = sums.size();
    for (size_t a = 0; a < count; ++a) {
      arguments_[a] = sums[a][sum_at];
      arguments_[count + a] = (*elements[a])[element_at];
    }
    const std::span<const double> results = function_(arguments_);
    for (size_t a = 0; a < count; ++a) sums[a][sum_at] = results[a];
  }

 private:
  ScalarFunction& function_;
  std::vector<double> arguments_;
};

// Walks a box of sums and elements side by side; dimensions along which sums stand still are those
// that are reduced.
class Accumulation {
 public:
  Accumulation(ScalarFunction& function, std::vector<Values>& sums,
               std::vector<const Values*> elements)
      : function_(function),
        call_(function, sums.size()),
        sums_(sums),
        elements_(std::move(elements)) {}

  void run(const Dims& dims, const Dims& sum_strides, int64_t sum_start,
           const Dims& element_strides, int64_t element_start) {
    const int64_t length = dims.empty() ? 1 : dims.back();
    const int64_t sum_step = dims.empty() ? 0 : sum_strides.back();
    const int64_t element_step = dims.empty() ? 0 : element_strides.back();
    const auto walk = [&](auto&& row) {
      for_each_row<2>(dims, {&sum_strides, &element_strides}, {sum_start, element_start}, row);
    };
    if (sums_.size() == 1) {
      double* const sums = sums_[0].data();
      const double* const elements = elements_[0]->data();
      const ElementType type = function_.element_type();
      const NumberType number = NumberType::of(type);
      const bool known = visit_reducer(function_.binary_opcode(), type, [&](auto reduce) {
        walk([&](const auto& at) {
          const double* element = elements + at[1];
          if (sum_step == 0) {
            double sum = sums[at[0]];
            for (int64_t n = 0; n < length; ++n, element += element_step) {
              sum = reduce(sum, *element, number);
            }
            sums[at[0]] = sum;
            return;
          }
          double* sum = sums + at[0];
          for (int64_t n = 0; n < length; ++n, sum += sum_step, element += element_step) {
            *sum = reduce(*sum, *element, number);
          }
        });
      });
      if (known) return;
    }
    walk([&](const auto& at) {
      for (int64_t n = 0; n < length; ++n) {
        call_(sums_, static_cast<size_t>(at[0] + n * sum_step), elements_,
              static_cast<size_t>(at[1] + n * element_step));
      }
    });
  }

 private:
  ScalarFunction& function_;
  ReducerCall call_;
  std::vector<Values>& sums_;
  std::vector<const Values*> elements_;
};

// Results of a reducer before the first element, and its arrays.
struct ReduceArrays {
  std::vector<Values> sums;
  std::vector<const Values*> elements;
};

ReduceArrays start_reduce(Context& context, const Instruction& i, Operands operands) {
  ReduceArrays arrays;
  const size_t count = operands.size() / 2;
  for (size_t a = 0; a < count; ++a) {
    const Shape& shape = i.shape.is_tuple() ? i.shape.tuple_shapes.at(a) : i.shape;
    arrays.sums.push_back(context.allocate(i, shape));
    std::fill(arrays.sums.back().begin(), arrays.sums.back().end(),
              operands[count + a].numbers().at(0));
    arrays.elements.push_back(&operands[a].numbers());
  }
  return arrays;
}

Value finish(const Instruction& i, std::vector<Values> sums) {
  if (!i.shape.is_tuple()) return std::move(sums[0]);
  return Value::tuple({std::make_move_iterator(sums.begin()), std::make_move_iterator(sums.end())});
}

// The output positions of one dimension at which a tap meets an element: `count` of them, from
// `position` in steps, and the elements in step with them.
struct Meetings {
  int64_t count = 0;
  int64_t position = 0, position_step = 1;
  int64_t element = 0, element_step = 1;
};

Meetings find_meetings(const WindowDim& dim, int64_t tap, int64_t size, int64_t positions) {
  const int64_t offset = tap * dim.window_dilation - dim.pad_low;
  Meetings result;
  result.position_step = dim.base_dilation / std::gcd(dim.stride, dim.base_dilation);
  result.element_step = result.position_step * dim.stride / dim.base_dilation;
  for (int64_t o = 0; o < std::min(dim.base_dilation, positions); ++o) {
    const int64_t at = o * dim.stride + offset;
    if (at % dim.base_dilation != 0) continue;
    int64_t element = at / dim.base_dilation;
    const int64_t skipped =
        element >= 0 ? 0 : (-element + result.element_step - 1) / result.element_step;
    element += skipped * result.element_step;
    const int64_t position = o + skipped * result.position_step;
    if (element >= size || position >= positions) return result;
    result.count = std::min((size - 1 - element) / result.element_step,
                            (positions - 1 - position) / result.position_step) +
                   1;
    result.position = position;
    result.element = element;
    return result;
  }
  return result;
}

// Calls visit(tap index per dimension) in row-major order.
template <typename Visitor>
void for_each_tap(const Window& window, Visitor&& visit) {
  std::vector<int64_t> tap(window.size(), 0);
  while (true) {
    visit(tap);
    size_t d = window.size();
    while (d > 0 && ++tap[d - 1] == window[d - 1].size) tap[--d] = 0;
    if (d == 0) return;
  }
}

double window_elements(const Window& window) {
  double product = 1;
  for (const WindowDim& dim : window) product *= static_cast<double>(dim.size);
  return product;
}

}  // namespace

Value reduce(Context& context, const Instruction& i, Operands operands) {
  ScalarFunction function(context, i, *i.called[0], operands.size(), operands.size() / 2);
  ReduceArrays arrays = start_reduce(context, i, operands);
  const Dims& dims = i.operand(0).shape.dimensions;
  context.charge(i, static_cast<double>(i.operand(0).shape.num_elements()));
  // Strides of the sums along the operand's dimensions: 0 along reduced ones.
  Dims strides(dims.size(), 0);
  int64_t stride = 1;
  const Dims& reduced = i.attributes.dimensions;
  for (size_t d = dims.size(); d-- > 0;) {
    if (std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(d)) != reduced.end()) {
      continue;
    }
    strides[d] = stride;
    stride *= dims[d];
  }
  Accumulation(function, arrays.sums, arrays.elements)
      .run(dims, strides, 0, row_major_strides(dims), 0);
  return finish(i, std::move(arrays.sums));
}

Value reduce_window(Context& context, const Instruction& i, Operands operands) {
  ScalarFunction function(context, i, *i.called[0], operands.size(), operands.size() / 2);
  ReduceArrays arrays = start_reduce(context, i, operands);
  const Window& window = i.attributes.window;
  const Shape& output = i.shape.is_tuple() ? i.shape.tuple_shapes.at(0) : i.shape;
  const Dims& input = i.operand(0).shape.dimensions;
  context.charge(i, static_cast<double>(output.num_elements()) * window_elements(window));
  if (output.num_elements() == 0) return finish(i, std::move(arrays.sums));
  Accumulation accumulation(function, arrays.sums, arrays.elements);
  const Dims element_strides = row_major_strides(input);
  const Dims sum_strides = row_major_strides(output.dimensions);
  Dims box(window.size()), sum_steps(window.size()), element_steps(window.size());
  // Every sum meets its taps in row-major order, as if it were computed alone.
  for_each_tap(window, [&](const std::vector<int64_t>& tap) {
    int64_t sum_start = 0, element_start = 0;
    for (size_t d = 0; d < window.size(); ++d) {
      const Meetings meetings = find_meetings(window[d], tap[d], input[d], output.dimensions[d]);
      if (meetings.count == 0) return;
      box[d] = meetings.count;
      sum_start += meetings.position * sum_strides[d];
      sum_steps[d] = meetings.position_step * sum_strides[d];
      element_start += meetings.element * element_strides[d];
      element_steps[d] = meetings.element_step * element_strides[d];
    }
    accumulation.run(box, sum_steps, sum_start, element_steps, element_start);
  });
  return finish(i, std::move(arrays.sums));
}

Value select_and_scatter(Context& context, const Instruction& i, Operands operands) {
  ScalarFunction select(context, i, *i.called[0], 2);
  ScalarFunction scatter(context, i, *i.called[1], 2);
  const Values& x = operands[0].numbers();
  const Values& source = operands[1].numbers();
  const Window& window = i.attributes.window;
  const Dims& dims = i.shape.dimensions;
  const Dims& positions = i.operand(1).shape.dimensions;
  const Dims strides = row_major_strides(dims);
  context.charge(i, static_cast<double>(source.size()) * window_elements(window));
  Values result = context.allocate(i);
  std::fill(result.begin(), result.end(), operands[2].numbers().at(0));

  std::vector<int64_t> at(positions.size(), 0);
  for (const double update : source) {
    std::optional<size_t> chosen;
    for_each_tap(window, [&](const std::vector<int64_t>& tap) {
      int64_t offset = 0;
      for (size_t d = 0; d < window.size(); ++d) {
        const int64_t element =
            at[d] * window[d].stride + tap[d] * window[d].window_dilation - window[d].pad_low;
        if (element < 0 || element >= dims[d]) return;
        offset += element * strides[d];
      }
      const auto candidate = static_cast<size_t>(offset);
      const std::array<double, 2> pair = {chosen ? x[*chosen] : 0, x[candidate]};
      if (!chosen || select(pair)[0] == 0) chosen = candidate;
    });
    if (chosen) {
      const std::array<double, 2> pair = {result[*chosen], update};
      result[*chosen] = scatter(pair)[0];
    }
    for (size_t d = at.size(); d > 0 && ++at[d - 1] == positions[d - 1];) at[--d] = 0;
  }
  return result;
}

}  // namespace lagom::hlo::evaluation

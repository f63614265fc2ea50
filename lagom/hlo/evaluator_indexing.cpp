#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "lagom/hlo/evaluator_detail.h"

namespace lagom::hlo::evaluation {
namespace {

bool contains(const Dims& dims, int64_t d) {
  return std::find(dims.begin(), dims.end(), d) != dims.end();
}

// Start indices of a dynamic slice, moved so that the slice lies inside.
int64_t clamped_start(Operands starts, const Dims& dims, const Dims& sizes) {
  Dims index;
  for (const Value& start : starts) {
    for (double number : start.numbers()) index.push_back(static_cast<int64_t>(number));
  }
  const Dims strides = row_major_strides(dims);
  int64_t offset = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    offset += std::clamp<int64_t>(index.at(d), 0, dims[d] - sizes[d]) * strides[d];
  }
  return offset;
}

// Index vectors of gather and scatter: where each stands among the indices, and how its numbers
// follow one another.
struct IndexVectors {
  Dims batch_dims;     ///< Dimensions of the indices but the index vector's.
  Dims batch_strides;  ///< In the indices.
  Dims batch_places;   ///< Their own dimension number in the indices.
  int64_t step = 0;    ///< Between the numbers of one vector.

  IndexVectors(const Dims& dims, int64_t index_vector_dim) {
    const Dims strides = row_major_strides(dims);
    for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
      if (d == index_vector_dim) {
        step = strides[d];
        continue;
      }
      batch_dims.push_back(dims[d]);
      batch_strides.push_back(strides[d]);
      batch_places.push_back(d);
    }
  }
};

// One window of the operand for every index vector: what gather and scatter share.
struct WindowWalk {
  const Dims& operand_dims;
  Dims operand_strides;
  Dims window;         ///< Size in every dimension of the operand.
  Dims slice_strides;  ///< Of the gathered (or updating) array, along the operand's dimensions.
  Dims batch_strides;  ///< Of that array, along the batch dimensions.
  const Dims& index_map;
  const Dims& operand_batching;
  Dims batching_places;  ///< Which batch dimension each operand batching dimension follows.

  WindowWalk(const Dims& operand, const Dims& slices, const Dims& window_size,
             const Dims& window_dims, const Dims& dropped, const Dims& map, const Dims& batching,
             const Dims& index_batching, const IndexVectors& vectors)
      : operand_dims(operand),
        operand_strides(row_major_strides(operand)),
        window(window_size),
        slice_strides(operand.size(), 0),
        index_map(map),
        operand_batching(batching) {
    const Dims strides = row_major_strides(slices);
    size_t next = 0;
    for (int64_t d = 0; d < static_cast<int64_t>(operand.size()); ++d) {
      if (!contains(dropped, d) && !contains(batching, d)) {
        slice_strides[d] = strides[window_dims.at(next++)];
      }
    }
    for (int64_t d = 0; d < static_cast<int64_t>(slices.size()); ++d) {
      if (!contains(window_dims, d)) batch_strides.push_back(strides[d]);
    }
    for (int64_t d : index_batching) {
      const auto place = std::find(vectors.batch_places.begin(), vectors.batch_places.end(), d);
      batching_places.push_back(place - vectors.batch_places.begin());
    }
  }

  // visit(start per dimension of the operand, offset of the slice)
  template <typename Visitor>
  void run(const Values& indices, const IndexVectors& vectors, Visitor&& visit) const {
    const size_t rank = vectors.batch_dims.size();
    for (int64_t d : vectors.batch_dims) {
      if (d == 0) return;
    }
    Dims at(rank, 0), start(operand_dims.size());
    int64_t index_offset = 0, slice_offset = 0;
    while (true) {
      std::fill(start.begin(), start.end(), 0);
      for (size_t n = 0; n < index_map.size(); ++n) {
        start[index_map[n]] = static_cast<int64_t>(
            indices[static_cast<size_t>(index_offset + static_cast<int64_t>(n) * vectors.step)]);
      }
      for (size_t n = 0; n < operand_batching.size(); ++n) {
        start[operand_batching[n]] = at[batching_places[n]];
      }
      visit(start, slice_offset);
      size_t d = rank;
      while (d > 0) {
        --d;
        index_offset += vectors.batch_strides[d];
        slice_offset += batch_strides[d];
        if (++at[d] < vectors.batch_dims[d]) break;
        index_offset -= vectors.batch_strides[d] * vectors.batch_dims[d];
        slice_offset -= batch_strides[d] * vectors.batch_dims[d];
        at[d] = 0;
        if (d == 0) return;
      }
      if (rank == 0) return;
    }
  }
};

}  // namespace

Value dynamic_slice(Context& context, const Instruction& i, Operands operands) {
  Values result = context.allocate(i);
  const Dims& dims = i.operand(0).shape.dimensions;
  if (result.empty()) return result;
  const int64_t start = clamped_start(operands.subspan(1), dims, i.shape.dimensions);
  copy_box(i.shape.dimensions, operands[0].numbers().data() + start, row_major_strides(dims),
           result.data(), row_major_strides(i.shape.dimensions));
  return result;
}

Value dynamic_update_slice(Context& context, const Instruction& i, Operands operands) {
  context.charge(i, static_cast<double>(i.shape.num_elements()));
  Values result = operands[0].numbers();
  const Dims& dims = i.operand(1).shape.dimensions;
  if (operands[1].numbers().empty()) return result;
  const int64_t start = clamped_start(operands.subspan(2), i.shape.dimensions, dims);
  copy_box(dims, operands[1].numbers().data(), row_major_strides(dims), result.data() + start,
           row_major_strides(i.shape.dimensions));
  return result;
}

Value gather(Context& context, const Instruction& i, Operands operands) {
  const GatherDims& dims = *i.attributes.gather;
  Values result = context.allocate(i);
  if (result.empty()) return result;
  const Dims& operand_dims = i.operand(0).shape.dimensions;
  const IndexVectors vectors(i.operand(1).shape.dimensions, dims.index_vector_dim);
  const WindowWalk walk(operand_dims, i.shape.dimensions, dims.slice_sizes, dims.offset_dims,
                        dims.collapsed_slice_dims, dims.start_index_map, dims.operand_batching_dims,
                        dims.start_indices_batching_dims, vectors);
  const double* const x = operands[0].numbers().data();
  walk.run(operands[1].numbers(), vectors, [&](const Dims& start, int64_t slice) {
    int64_t offset = 0;
    for (size_t d = 0; d < start.size(); ++d) {
      offset += std::clamp<int64_t>(start[d], 0, operand_dims[d] - walk.window[d]) *
                walk.operand_strides[d];
    }
    copy_box(walk.window, x + offset, walk.operand_strides, result.data() + slice,
             walk.slice_strides);
  });
  return result;
}

Value scatter(Context& context, const Instruction& i, Operands operands) {
  const ScatterDims& dims = *i.attributes.scatter;
  const size_t count = (operands.size() - 1) / 2;
  const Dims& operand_dims = i.operand(0).shape.dimensions;
  const Dims& updates_dims = i.operand(count + 1).shape.dimensions;
  ScalarFunction combine(context, i, *i.called[0], 2 * count, count);
  context.charge(i, static_cast<double>(i.operand(0).shape.num_elements() +
                                        i.operand(count + 1).shape.num_elements()));
  std::vector<Values> results;
  for (size_t a = 0; a < count; ++a) results.push_back(operands[a].numbers());

  Dims window(operand_dims.size(), 1);
  size_t next = 0;
  for (int64_t d = 0; d < static_cast<int64_t>(operand_dims.size()); ++d) {
    if (contains(dims.inserted_window_dims, d) || contains(dims.input_batching_dims, d)) continue;
    window[d] = updates_dims[dims.update_window_dims.at(next++)];
  }
  const IndexVectors vectors(i.operand(count).shape.dimensions, dims.index_vector_dim);
  const WindowWalk walk(operand_dims, updates_dims, window, dims.update_window_dims,
                        dims.inserted_window_dims, dims.scatter_dims_to_operand_dims,
                        dims.input_batching_dims, dims.scatter_indices_batching_dims, vectors);
  const int64_t length = window.empty() ? 1 : window.back();
  const int64_t step = window.empty() ? 0 : walk.operand_strides.back();
  const int64_t update_step = window.empty() ? 0 : walk.slice_strides.back();
  std::vector<double> arguments(2 * count);
  walk.run(operands[count].numbers(), vectors, [&](const Dims& start, int64_t slice) {
    int64_t offset = 0;
    for (size_t d = 0; d < start.size(); ++d) {
      // A window that does not fit is left out as a whole.
      if (start[d] < 0 || start[d] > operand_dims[d] - window[d]) return;
      offset += start[d] * walk.operand_strides[d];
    }
    for_each_row<2>(window, {&walk.operand_strides, &walk.slice_strides}, {offset, slice},
                    [&](const auto& at) {
                      for (int64_t n = 0; n < length; ++n) {
                        const auto to = static_cast<size_t>(at[0] + n * step);
                        const auto from = static_cast<size_t>(at[1] + n * update_step);
                        for (size_t a = 0; a < count; ++a) {
                          arguments[a] = results[a][to];
                          arguments[count + a] = operands[count + 1 + a].numbers()[from];
                        }
                        const std::span<const double> combined = combine(arguments);
                        for (size_t a = 0; a < count; ++a) results[a][to] = combined[a];
                      }
                    });
  });
  if (!i.shape.is_tuple()) return std::move(results[0]);
  return Value::tuple(
      {std::make_move_iterator(results.begin()), std::make_move_iterator(results.end())});
}

Value sort(Context& context, const Instruction& i, Operands operands) {
  ScalarFunction less(context, i, *i.called[0], 2 * operands.size());
  const Dims& dims = i.operand(0).shape.dimensions;
  const auto dimension = static_cast<size_t>(i.attributes.dimensions.at(0));
  const Dims strides = row_major_strides(dims);
  const auto length = static_cast<size_t>(dims.at(dimension));
  const auto step = static_cast<size_t>(strides[dimension]);
  const size_t count = operands.size();
  const size_t total = operands[0].numbers().size();
  context.charge(i, static_cast<double>(total) * (std::log2(static_cast<double>(length) + 1) + 1));
  std::vector<Values> results;
  for (const Value& operand : operands) results.push_back(operand.numbers());

  std::vector<size_t> order(length);
  std::vector<double> arguments(2 * count);
  for (size_t row = 0; total > 0 && row < total / length; ++row) {
    const size_t start = row / step * step * length + row % step;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      for (size_t o = 0; o < count; ++o) {
        arguments[2 * o] = operands[o].numbers()[start + a * step];
        arguments[2 * o + 1] = operands[o].numbers()[start + b * step];
      }
      return less(arguments)[0] != 0;
    });
    for (size_t o = 0; o < count; ++o) {
      for (size_t n = 0; n < length; ++n) {
        results[o][start + n * step] = operands[o].numbers()[start + order[n] * step];
      }
    }
  }
  if (!i.shape.is_tuple()) return std::move(results[0]);
  return Value::tuple(
      {std::make_move_iterator(results.begin()), std::make_move_iterator(results.end())});
}

Value top_k(Context& context, const Instruction& i, Operands operands) {
  const Values& x = operands[0].numbers();
  const auto length = static_cast<size_t>(i.operand(0).shape.dimensions.back());
  const auto k = static_cast<size_t>(i.rare().k);
  const bool largest = i.rare().largest;
  if (k > length) fail(i, "k is larger than the dimension");
  Values values = context.allocate(i, i.shape.tuple_shapes.at(0));
  Values indices = context.allocate(i, i.shape.tuple_shapes.at(1));
  context.charge(i, static_cast<double>(x.size()));
  std::vector<size_t> order(length);
  for (size_t row = 0; length > 0 && row < x.size() / length; ++row) {
    const double* const from = x.data() + row * length;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return largest ? from[a] > from[b] : from[a] < from[b];
    });
    for (size_t n = 0; n < k; ++n) {
      values[row * k + n] = from[order[n]];
      indices[row * k + n] = static_cast<double>(order[n]);
    }
  }
  return Value::tuple({std::move(values), std::move(indices)});
}

}  // namespace lagom::hlo::evaluation

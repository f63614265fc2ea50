#include <algorithm>

#include "lagom/hlo/shape_inference_detail.h"

namespace lagom::hlo::inference {
namespace {

bool contains(const Dims& dims, int64_t dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

void check_pairs(const Shape& lhs, const Dims& lhs_dims, const Shape& rhs, const Dims& rhs_dims,
                 const char* what) {
  if (lhs_dims.size() != rhs_dims.size()) {
    fail("{} dimensions: lhs has {}, rhs has {}", what, text(lhs_dims), text(rhs_dims));
  }
  for (size_t i = 0; i < lhs_dims.size(); ++i) {
    if (lhs.dimensions[lhs_dims[i]] != rhs.dimensions[rhs_dims[i]]) {
      fail("{} dimensions {} of {} and {} of {} differ in size", what, lhs_dims[i], text(lhs),
           rhs_dims[i], text(rhs));
    }
  }
}

void check_dot_side(const Dims& batch, const Dims& contracting, int64_t rank, const char* what) {
  Dims all = batch;
  all.insert(all.end(), contracting.begin(), contracting.end());
  check_dims(all, rank, what);
}

ElementType dot_type(const Instruction& instruction) {
  const ElementType lhs = instruction.operand(0).shape.element_type;
  const ElementType rhs = instruction.operand(1).shape.element_type;
  const bool mixable = is_floating(lhs) || is_complex(lhs);
  return preferred_type(instruction, mixable ? common_type(lhs, rhs, "dot") : lhs);
}

// Sizes of start_indices without its index vector, [..batch].
Dims index_batch_dims(const Shape& indices, int64_t index_vector_dim) {
  if (index_vector_dim < 0 || index_vector_dim > indices.rank()) {
    fail("index_vector_dim {} is outside the indices {}", index_vector_dim, text(indices));
  }
  Dims batch = indices.dimensions;
  if (index_vector_dim < indices.rank()) batch.erase(batch.begin() + index_vector_dim);
  return batch;
}

int64_t index_vector_size(const Shape& indices, int64_t index_vector_dim) {
  return index_vector_dim == indices.rank() ? 1 : indices.dimensions[index_vector_dim];
}

void check_integer(const Shape& indices, const char* what) {
  if (!is_integer(indices.element_type)) {
    fail("{}: expected integer indices, found {}", what, text(indices));
  }
}

// Indices are one scalar per dimension, or (older programs) one vector.
void check_start_indices(const Instruction& instruction, size_t first, int64_t rank) {
  const size_t count = instruction.operands.size() - first;
  if (count == 1 && array_operand(instruction, first).rank() == 1) {
    const Shape& vector = array_operand(instruction, first);
    check_integer(vector, "start indices");
    if (vector.dimensions[0] != rank) {
      fail("expected {} start indices, found {}", rank, text(vector));
    }
    return;
  }
  if (count != static_cast<size_t>(rank)) fail("expected {} start indices, found {}", rank, count);
  for (size_t i = first; i < instruction.operands.size(); ++i) {
    check_integer(array_operand(instruction, i), "start indices");
    if (!array_operand(instruction, i).is_scalar()) {
      fail("expected scalar start indices, found {}", text(instruction.operand(i).shape));
    }
  }
}

}  // namespace

Shape infer_dot(const Instruction& instruction) {
  if (instruction.operands.size() < 2) {
    fail("dot: expected 2 operands, found {}", instruction.operands.size());
  }
  const Shape& lhs = array_operand(instruction, 0);
  const Shape& rhs = array_operand(instruction, 1);
  if (!instruction.attributes.dot) fail("dot: dimension numbers are missing");
  const DotDims& dims = *instruction.attributes.dot;
  check_dot_side(dims.lhs_batch, dims.lhs_contracting, lhs.rank(), "dot lhs dimensions");
  check_dot_side(dims.rhs_batch, dims.rhs_contracting, rhs.rank(), "dot rhs dimensions");
  check_pairs(lhs, dims.lhs_batch, rhs, dims.rhs_batch, "dot: batch");
  // A sparse operand has fewer elements than the dense one it meets.
  if (instruction.operands.size() == 2) {
    check_pairs(lhs, dims.lhs_contracting, rhs, dims.rhs_contracting, "dot: contracting");
  }
  Dims out;
  for (int64_t d : dims.lhs_batch) out.push_back(lhs.dimensions[d]);
  for (int64_t d = 0; d < lhs.rank(); ++d) {
    if (!contains(dims.lhs_batch, d) && !contains(dims.lhs_contracting, d)) {
      out.push_back(lhs.dimensions[d]);
    }
  }
  for (int64_t d = 0; d < rhs.rank(); ++d) {
    if (!contains(dims.rhs_batch, d) && !contains(dims.rhs_contracting, d)) {
      out.push_back(rhs.dimensions[d]);
    }
  }
  return Shape::array(dot_type(instruction), std::move(out));
}

// Three modes by the role of the ragged dimension: not contracted or batch (groups of rows, the
// group dimension of rhs disappears), contracting (one result per group, in front), batch.
Shape infer_ragged_dot(const Instruction& instruction) {
  const Shape& lhs = array_operand(instruction, 0);
  const Shape& rhs = array_operand(instruction, 1);
  const Shape& group_sizes = array_operand(instruction, 2);
  if (!instruction.attributes.dot) fail("ragged-dot: dimension numbers are missing");
  const DotDims& dims = *instruction.attributes.dot;
  check_dot_side(dims.lhs_batch, dims.lhs_contracting, lhs.rank(), "ragged-dot lhs dimensions");
  Dims rhs_all = dims.rhs_contracting;
  rhs_all.insert(rhs_all.end(), dims.rhs_group.begin(), dims.rhs_group.end());
  check_dot_side(dims.rhs_batch, rhs_all, rhs.rank(), "ragged-dot rhs dimensions");
  check_dims(dims.lhs_ragged, lhs.rank(), "ragged-dot lhs ragged dimensions");
  if (dims.lhs_ragged.size() != 1 || group_sizes.rank() < 1) {
    fail("ragged-dot: expected one ragged dimension and an array of group sizes, found {} and {}",
         text(dims.lhs_ragged), text(group_sizes));
  }
  check_pairs(lhs, dims.lhs_batch, rhs, dims.rhs_batch, "ragged-dot: batch");
  check_pairs(lhs, dims.lhs_contracting, rhs, dims.rhs_contracting, "ragged-dot: contracting");
  Dims out;
  if (contains(dims.lhs_contracting, dims.lhs_ragged[0])) {
    out.push_back(group_sizes.dimensions.back());
  }
  for (int64_t d : dims.lhs_batch) out.push_back(lhs.dimensions[d]);
  for (int64_t d = 0; d < lhs.rank(); ++d) {
    if (!contains(dims.lhs_batch, d) && !contains(dims.lhs_contracting, d)) {
      out.push_back(lhs.dimensions[d]);
    }
  }
  for (int64_t d = 0; d < rhs.rank(); ++d) {
    if (!contains(dims.rhs_batch, d) && !contains(rhs_all, d)) out.push_back(rhs.dimensions[d]);
  }
  return Shape::array(dot_type(instruction), std::move(out));
}

Shape infer_gather(const Instruction& instruction) {
  const Shape& operand = array_operand(instruction, 0);
  const Shape& indices = array_operand(instruction, 1);
  check_integer(indices, "gather");
  if (!instruction.attributes.gather) fail("gather: dimension numbers are missing");
  const GatherDims& dims = *instruction.attributes.gather;
  const Dims batch = index_batch_dims(indices, dims.index_vector_dim);
  if (static_cast<int64_t>(dims.slice_sizes.size()) != operand.rank()) {
    fail("gather: expected {} slice sizes, found {}", operand.rank(), text(dims.slice_sizes));
  }
  Dims dropped = dims.collapsed_slice_dims;
  dropped.insert(dropped.end(), dims.operand_batching_dims.begin(),
                 dims.operand_batching_dims.end());
  check_dims(dropped, operand.rank(), "gather: collapsed and batching dimensions");
  check_dims(dims.start_index_map, operand.rank(), "gather: start_index_map");
  check_dims(dims.start_indices_batching_dims, indices.rank(), "gather: indices batching");
  check_pairs(operand, dims.operand_batching_dims, indices, dims.start_indices_batching_dims,
              "gather: batching");
  const int64_t vector_size = index_vector_size(indices, dims.index_vector_dim);
  if (static_cast<int64_t>(dims.start_index_map.size()) != vector_size) {
    fail("gather: start_index_map {} for index vectors of size {}", text(dims.start_index_map),
         vector_size);
  }
  Dims slice;  // Slice sizes that stay in the result.
  for (int64_t d = 0; d < operand.rank(); ++d) {
    if (dims.slice_sizes[d] < 0 || dims.slice_sizes[d] > operand.dimensions[d]) {
      fail("gather: slice sizes {} do not fit in {}", text(dims.slice_sizes), text(operand));
    }
    if (!contains(dropped, d)) {
      slice.push_back(dims.slice_sizes[d]);
    } else if (dims.slice_sizes[d] > 1) {
      fail("gather: dimension {} is collapsed, so its slice size must be 1, found {}", d,
           dims.slice_sizes[d]);
    }
  }
  const int64_t out_rank = static_cast<int64_t>(batch.size() + slice.size());
  if (dims.offset_dims.size() != slice.size()) {
    fail("gather: expected {} offset dimensions, found {}", slice.size(), text(dims.offset_dims));
  }
  check_dims(dims.offset_dims, out_rank, "gather: offset_dims");
  Dims out;
  size_t next_batch = 0, next_slice = 0;
  for (int64_t d = 0; d < out_rank; ++d) {
    out.push_back(contains(dims.offset_dims, d) ? slice[next_slice++] : batch[next_batch++]);
  }
  return Shape::array(operand.element_type, std::move(out));
}

Shape infer_scatter(const Instruction& instruction) {
  const size_t num_operands = instruction.operands.size();
  if (num_operands < 3 || num_operands % 2 == 0) {
    fail("scatter: expected arrays, indices and as many updates, found {} operands", num_operands);
  }
  const size_t n = num_operands / 2;
  if (!instruction.attributes.scatter) fail("scatter: dimension numbers are missing");
  const ScatterDims& dims = *instruction.attributes.scatter;
  called_computation(instruction, 0, 2 * n);
  const Shape& indices = array_operand(instruction, n);
  check_integer(indices, "scatter");
  const Dims batch = index_batch_dims(indices, dims.index_vector_dim);
  std::vector<Shape> results;
  for (size_t i = 0; i < n; ++i) {
    const Shape& operand = array_operand(instruction, i);
    const Shape& updates = array_operand(instruction, n + 1 + i);
    check_dims(dims.update_window_dims, updates.rank(), "scatter: update_window_dims");
    Dims inserted = dims.inserted_window_dims;
    inserted.insert(inserted.end(), dims.input_batching_dims.begin(),
                    dims.input_batching_dims.end());
    check_dims(inserted, operand.rank(), "scatter: inserted and batching dimensions");
    check_dims(dims.scatter_dims_to_operand_dims, operand.rank(),
               "scatter: scatter_dims_to_operand_dims");
    if (static_cast<int64_t>(dims.scatter_dims_to_operand_dims.size()) !=
        index_vector_size(indices, dims.index_vector_dim)) {
      fail("scatter: scatter_dims_to_operand_dims {} does not fit index vectors of size {}",
           text(dims.scatter_dims_to_operand_dims),
           index_vector_size(indices, dims.index_vector_dim));
    }
    if (dims.update_window_dims.size() + inserted.size() != operand.dimensions.size() ||
        dims.update_window_dims.size() + batch.size() != updates.dimensions.size()) {
      fail("scatter: updates {} do not fit operand {}, indices {} and window dimensions {}",
           text(updates), text(operand), text(indices), text(dims.update_window_dims));
    }
    Dims window_operand_dims;
    for (int64_t d = 0; d < operand.rank(); ++d) {
      if (!contains(inserted, d)) window_operand_dims.push_back(d);
    }
    size_t next_window = 0, next_batch = 0;
    for (int64_t d = 0; d < updates.rank(); ++d) {
      const int64_t size = updates.dimensions[d];
      if (contains(dims.update_window_dims, d)) {
        const int64_t limit = operand.dimensions[window_operand_dims[next_window++]];
        if (size > limit) {
          fail("scatter: dimension {} of the updates {} is larger than the operand {}", d,
               text(updates), text(operand));
        }
      } else if (size != batch[next_batch++]) {
        fail("scatter: dimension {} of the updates {} differs from the indices {}", d,
             text(updates), text(indices));
      }
    }
    results.push_back(Shape::array(operand.element_type, operand.dimensions));
  }
  return n == 1 ? results[0] : Shape::tuple(std::move(results));
}

Shape infer_dynamic_slice(const Instruction& instruction) {
  if (instruction.operands.empty()) fail("dynamic-slice: no operands");
  const Shape& operand = array_operand(instruction, 0);
  check_start_indices(instruction, /*first=*/1, operand.rank());
  const Dims& sizes = instruction.rare().dynamic_slice_sizes;
  if (static_cast<int64_t>(sizes.size()) != operand.rank()) {
    fail("dynamic-slice: expected {} slice sizes, found {}", operand.rank(), text(sizes));
  }
  for (int64_t d = 0; d < operand.rank(); ++d) {
    if (sizes[d] < 0 || sizes[d] > operand.dimensions[d]) {
      fail("dynamic-slice: sizes {} do not fit in {}", text(sizes), text(operand));
    }
  }
  return Shape::array(operand.element_type, sizes);
}

Shape infer_dynamic_update_slice(const Instruction& instruction) {
  if (instruction.operands.size() < 2) {
    fail("dynamic-update-slice: expected an array, an update and start indices, found {} operands",
         instruction.operands.size());
  }
  const Shape& operand = array_operand(instruction, 0);
  const Shape& update = array_operand(instruction, 1);
  check_start_indices(instruction, /*first=*/2, operand.rank());
  bool fits = update.rank() == operand.rank();
  for (int64_t d = 0; fits && d < operand.rank(); ++d) {
    fits = update.dimensions[d] <= operand.dimensions[d];
  }
  if (!fits)
    fail("dynamic-update-slice: update {} does not fit in {}", text(update), text(operand));
  return Shape::array(operand.element_type, operand.dimensions);
}

}  // namespace lagom::hlo::inference

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

/// Reductions over the rows of a tensor that belong together: what a node gathers from its
/// neighbours.
///
/// Each output row has a *segment* of input rows. Rows are wide (one graph x C configurations is
/// [N, C, F], a row of C * F values), results are the same bit for bit for any number of threads:
/// every output row is summed by one thread, in the order of its edges, and gradients go through
/// the transposed lists the same way. float, double and bfloat16; bfloat16 is summed in float.
namespace lagom::tensor {

/// For each row, a list of rows of the other side.
struct Csr {
  std::vector<int64_t> offsets;    ///< [rows + 1]
  std::vector<int32_t> neighbors;  ///< [edges]
  std::vector<int32_t> edges;      ///< [edges]: the edge's number in the lists it was made from.

  int64_t num_rows() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t degree(int64_t row) const {
    return offsets[static_cast<size_t>(row) + 1] - offsets[static_cast<size_t>(row)];
  }
};

/// Edges from input rows to output rows, listed by either end.
class SegmentIndex {
 public:
  /// Edge e carries input row `inputs[e]` to output row `outputs[e]`; of one output row they keep
  /// their order. Throws std::invalid_argument for a row that is not there.
  SegmentIndex(int64_t num_outputs, int64_t num_inputs, std::span<const int32_t> outputs,
               std::span<const int32_t> inputs);

  int64_t num_outputs() const { return by_output_.num_rows(); }
  int64_t num_inputs() const { return by_input_.num_rows(); }
  int64_t num_edges() const { return static_cast<int64_t>(by_output_.neighbors.size()); }
  const Csr& by_output() const { return by_output_; }
  const Csr& by_input() const { return by_input_; }

 private:
  Csr by_output_, by_input_;
};
using SegmentIndexPtr = std::shared_ptr<const SegmentIndex>;

/// x: [inputs, ...]; result [outputs, ...]: the sum of each segment's rows, times the edge's weight
/// where there are `weights` ([edges], x's dtype). Zero for an empty segment. Gradients for x and
/// weights. Throws c10::ValueError for another shape or dtype.
at::Tensor segment_sum(const at::Tensor& x, const SegmentIndexPtr& index,
                       const std::optional<at::Tensor>& weights = std::nullopt);
/// The mean; zero for an empty segment.
at::Tensor segment_mean(const at::Tensor& x, const SegmentIndexPtr& index);
/// The largest of each column; zero for an empty segment. The gradient goes to the first row that
/// has it.
at::Tensor segment_max(const at::Tensor& x, const SegmentIndexPtr& index);

/// The plain kernel behind the first two, without gradients: out[i] = scale[i] * sum over csr's
/// list of row i of weight[e] * x[neighbour]; each factor is 1 where its pointer is null.
template <typename T>
void segment_sum_rows(const Csr& csr, const T* x, int64_t width, const T* weights,
                      const double* scale, T* out);

}  // namespace lagom::tensor

#pragma once

// What the sources of fused_kernels.h share.

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "lagom/cost_model/fused_kernels.h"

// Compiled for the newest instructions as well; the program picks when it starts.
#define LAGOM_CLONES \
  __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))

namespace lagom::cost_model::detail {

inline constexpr int64_t kTileRows = 256;  // rows (node x configuration) of a tile
inline constexpr int64_t kMaxParts = 16;

struct Range {
  int64_t begin, end;
};
/// Nodes are dealt to so many parts, whatever the threads.
inline int64_t num_parts(int64_t nodes, int64_t configs) {
  return std::clamp<int64_t>(nodes * configs / kTileRows, 1, kMaxParts);
}
inline int64_t tile_nodes(int64_t configs) {
  return std::max<int64_t>(1, kTileRows / configs);
}

/// Calls f(part, first node, nodes) for every tile, tiles of a part in order on one thread.
template <typename F>
void for_each_tile(int64_t nodes, int64_t configs, F&& f) {
  const int64_t parts = num_parts(nodes, configs);
  at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const Range range = {nodes * part / parts, nodes * (part + 1) / parts};
      for (int64_t node = range.begin; node < range.end; node += tile_nodes(configs)) {
        f(part, node, std::min(tile_nodes(configs), range.end - node));
      }
    }
  });
}

/// Buffers of a tile, which threads keep.
inline float* scratch(size_t which, int64_t size) {
  thread_local std::array<std::vector<float>, 10> buffers;
  std::vector<float>& buffer = buffers[which];
  if (buffer.size() < static_cast<size_t>(size)) buffer.resize(static_cast<size_t>(size));
  return buffer.data();
}

inline void add_to(std::vector<float>& sum, const std::vector<float>& part) {
  if (sum.empty()) {
    sum = part;
    return;
  }
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
}

/// In place.
void normalize_in_place(float* x, int64_t rows, int64_t width, const ColumnNorm& norm);
/// The tile's normalised rows: in scratch `buffer`, or x itself without a norm.
const float* normalized(const float* x, int64_t nodes, int64_t width, const ColumnNorm* norm,
                        size_t buffer);
/// Adds each column's sum over the rows to `sums` [width].
void add_column_sums(const float* x, int64_t rows, int64_t width, float* sums);

}  // namespace lagom::cost_model::detail

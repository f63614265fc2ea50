#pragma once

#include <cstdint>
#include <vector>

#include "lagom/graph/op_graph.h"

namespace lagom::graph {

/// The distinct 18-vectors of a graph's layout configurations, numbered as they come. A graph has a
/// few hundred to a few thousand of them, each used over and over, so a configuration is kept as
/// one number per configurable node.
class LayoutDictionary {
 public:
  LayoutDictionary();

  /// The number of these kLayoutConfigFeatures values.
  uint32_t code(const int8_t* values);
  /// [size, 18]
  const std::vector<int8_t>& values() const { return values_; }
  uint32_t size() const { return size_; }

 private:
  size_t slot_of(const int8_t* values) const;
  void grow();

  uint32_t size_ = 0;
  std::vector<int8_t> values_;
  std::vector<uint32_t> slots_;  ///< Open addressing: code + 1, 0 for a free slot.
};

}  // namespace lagom::graph

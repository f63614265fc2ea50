#include "tests/testing/npz_arrays.h"

#include "lagom/graph/op_graph.h"

namespace lagom::testing {
namespace {

using formats::Array;

NpzArrays two_nodes() {
  std::vector<float> features(2 * graph::kNodeFeatures, 0);
  features[graph::kNodeFeatures] = 1;
  return {{"node_opcode", Array::of<uint8_t>({2}, {63, 26})},
          {"node_feat", Array::of<float>({2, graph::kNodeFeatures}, features)},
          {"edge_index", Array::of<int64_t>({1, 2}, {1, 0})}};
}

}  // namespace

NpzArrays small_layout_graph() {
  NpzArrays arrays = two_nodes();
  std::vector<float> layouts(3 * graph::kLayoutConfigFeatures, -1);
  layouts[0] = layouts[2 * graph::kLayoutConfigFeatures] = 1;
  layouts[1] = layouts[2 * graph::kLayoutConfigFeatures + 1] = 0;
  arrays["node_splits"] = Array::of<int64_t>({1, 2}, {0, 2});
  arrays["node_config_ids"] = Array::of<int64_t>({1}, {1});
  arrays["node_config_feat"] = Array::of<float>({3, 1, graph::kLayoutConfigFeatures}, layouts);
  arrays["config_runtime"] = Array::of<int64_t>({3}, {1000, 2000, 1010});
  return arrays;
}

NpzArrays small_tile_graph() {
  NpzArrays arrays = two_nodes();
  std::vector<float> features(2 * graph::kTileConfigFeatures, 0);
  features[0] = 128;
  arrays["config_feat"] = Array::of<float>({2, graph::kTileConfigFeatures}, features);
  arrays["config_runtime"] = Array::of<int64_t>({2}, {3000, 1000});
  arrays["config_runtime_normalizers"] = Array::of<int64_t>({2}, {2000, 1000});
  return arrays;
}

void write_npz(const std::string& path, const NpzArrays& arrays) {
  formats::NpzWriter writer(path);
  for (const auto& [name, array] : arrays) writer.add(name, array);
  writer.finish();
}

}  // namespace lagom::testing

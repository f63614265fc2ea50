#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "lagom/graph/op_graph.h"
#include "lagom/rank/ranker.h"

namespace lagom::testing {

/// A random graph with random configurations, and runtimes that follow from them: what a network
/// can learn.
struct SyntheticGraph {
  struct Options {
    int64_t num_nodes = 12, num_config_nodes = 4, num_configs = 6;
    bool has_forms = false, has_flags = false, is_tile = false;
    unsigned seed = 1;
  };
  explicit SyntheticGraph(const Options& options);

  rank::ConfiguredGraph view() const {
    return {.name = "synthetic",
            .node_opcode = opcode,
            .node_feat = features,
            .edge_index = edges,
            .num_configs = num_configs,
            .config_feat = tiles,
            .node_config_ids = config_ids,
            .node_config_feat = layouts,
            .node_config_form = forms,
            .node_config_barrier = barriers,
            .config_flags = flags};
  }

  int64_t num_configs = 0;
  std::vector<uint8_t> opcode;
  std::vector<float> features;
  std::vector<int64_t> edges, config_ids;
  std::vector<int8_t> layouts;
  std::vector<int16_t> forms;
  std::vector<uint8_t> barriers;
  std::vector<float> flags, tiles;
  std::vector<double> runtimes;
};

inline SyntheticGraph::SyntheticGraph(const Options& options) : num_configs(options.num_configs) {
  std::mt19937 random(options.seed);
  const auto n = static_cast<size_t>(options.num_nodes);
  const auto c = static_cast<size_t>(options.num_configs);
  const auto draw = [&](int count) {
    return static_cast<int>(random() % static_cast<unsigned>(count));
  };
  for (size_t i = 0; i < n; ++i) {
    opcode.push_back(static_cast<uint8_t>(1 + draw(119)));
    for (int64_t k = 0; k < graph::kNodeFeatures; ++k) {
      features.push_back(static_cast<float>(draw(50)) / 10);
    }
    features[i * graph::kNodeFeatures] = draw(4) == 0;  // is_root
    for (int edge = 0; i > 0 && edge < 2; ++edge) {
      edges.push_back(static_cast<int64_t>(i));
      edges.push_back(draw(static_cast<int>(i)));
    }
  }
  const auto nc = options.is_tile ? size_t{0} : static_cast<size_t>(options.num_config_nodes);
  for (size_t i = 0; i < nc; ++i) config_ids.push_back(static_cast<int64_t>(i * n / nc));
  std::vector<double> weights;
  for (size_t i = 0; i < nc * graph::kLayoutConfigFeatures + 24; ++i) weights.push_back(draw(7));
  for (size_t row = 0; row < c; ++row) {
    double runtime = 100;
    for (size_t i = 0; i < nc * graph::kLayoutConfigFeatures; ++i) {
      layouts.push_back(static_cast<int8_t>(draw(5) - 1));
      runtime += weights[i] * layouts.back();
    }
    for (size_t i = 0; options.has_forms && i < nc; ++i) {
      forms.push_back(static_cast<int16_t>(draw(9)));
      barriers.push_back(static_cast<uint8_t>(draw(4)));
      runtime += forms.back();
    }
    for (size_t i = 0; options.has_flags && i < 7; ++i) {
      flags.push_back(static_cast<float>(draw(3) - 1));
      runtime += 3 * flags.back();
    }
    for (size_t i = 0; options.is_tile && i < 24; ++i) {
      tiles.push_back(static_cast<float>(draw(64)));
      runtime += weights[i] * tiles.back() / 16;
    }
    runtimes.push_back(std::max(1.0, runtime) + 1e-3 * static_cast<double>(row));
  }
}

}  // namespace lagom::testing

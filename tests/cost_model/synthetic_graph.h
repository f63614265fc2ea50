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
    int64_t num_graphs = 0;  ///< Each configuration is one of so many; 0: all share one.
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
            .config_flags = flags,
            .graph_splits = splits,
            .config_graph = config_graph};
  }

  int64_t num_configs = 0;
  std::vector<uint8_t> opcode;
  std::vector<float> features;
  std::vector<int64_t> edges, config_ids, splits;
  std::vector<int32_t> config_graph;
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
  const auto graphs = static_cast<size_t>(std::max<int64_t>(options.num_graphs, 1));
  for (size_t g = 0; options.num_graphs > 0 && g <= graphs; ++g) {
    splits.push_back(static_cast<int64_t>(n * g / graphs));
  }
  for (size_t i = 0; i < n; ++i) {
    opcode.push_back(static_cast<uint8_t>(1 + draw(119)));
    for (int64_t k = 0; k < graph::kNodeFeatures; ++k) {
      features.push_back(static_cast<float>(draw(50)) / 10);
    }
    features[i * graph::kNodeFeatures] = draw(4) == 0;  // is_root
    // The first node of the same graph.
    size_t first = 0;
    for (const int64_t split : splits) {
      if (static_cast<size_t>(split) <= i) first = static_cast<size_t>(split);
    }
    for (int edge = 0; i > first && edge < 2; ++edge) {
      edges.push_back(static_cast<int64_t>(i));
      edges.push_back(static_cast<int64_t>(first) + draw(static_cast<int>(i - first)));
    }
  }
  const bool is_whole = options.is_tile || options.num_graphs > 0;
  const auto nc = is_whole ? size_t{0} : static_cast<size_t>(options.num_config_nodes);
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
    for (size_t g = row % graphs; options.num_graphs > 0 && config_graph.size() <= row;) {
      config_graph.push_back(static_cast<int32_t>(g));
      runtime += 20 * static_cast<double>((g * 5) % 7);
    }
    runtimes.push_back(std::max(1.0, runtime) + 1e-3 * static_cast<double>(row));
  }
}

}  // namespace lagom::testing

#include "lagom/collect/program_graph.h"

#include <set>
#include <stdexcept>

namespace lagom::collect {

ProgramGraph::ProgramGraph(std::string name, const hlo::Module& module,
                           const std::vector<rewrite::Configuration>& configurations,
                           const EncodingOptions& options)
    : name_(std::move(name)),
      features_(configuration_features(module, configurations)),
      num_configs_(static_cast<int64_t>(configurations.size())) {
  if (configurations.empty()) throw std::invalid_argument(name_ + ": there is no configuration");
  if (options.encoding == Encoding::kRewritten) {
    graphs_ = make_rewritten_graphs(module, configurations, options.graph);
    features_ = {.config_flags = std::move(features_.config_flags)};
    return;
  }
  graphs_.graph = graph::make_op_graph(module, options.graph);
  layouts_.assign(features_.node_config_feat.begin(), features_.node_config_feat.end());
}

rank::ConfiguredGraph ProgramGraph::view() const {
  return {.name = name_,
          .feature_version = graphs_.graph.feature_version,
          .list_padding = graphs_.graph.list_padding,
          .node_opcode = graphs_.graph.node_opcode,
          .node_feat = graphs_.graph.node_feat,
          .edge_index = graphs_.graph.edge_index,
          .node_splits = graphs_.graph.node_splits,
          .num_configs = num_configs_,
          .node_config_ids = features_.node_config_ids,
          .node_config_feat = layouts_,
          .node_config_form = features_.node_config_form,
          .node_config_barrier = features_.node_config_barrier,
          .config_flags = features_.config_flags,
          .graph_splits = graphs_.graph_splits,
          .config_graph = graphs_.config_graph};
}

std::vector<rewrite::Configuration> sample_configurations(const tune::SearchSpace& space,
                                                          int64_t count, int64_t max_changes,
                                                          std::mt19937_64& random) {
  std::vector<rewrite::Configuration> out = {{}};
  std::set<std::string> seen = {out.front().to_string()};
  // A small space repeats itself: it is given up after so many draws.
  for (int64_t draw = 0; draw < 20 * count && static_cast<int64_t>(out.size()) < count; ++draw) {
    rewrite::Configuration configuration;
    const auto changes = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(max_changes));
    for (int64_t i = 0; i < changes; ++i) {
      if (!space.mutate(configuration, random)) return out;
    }
    if (seen.insert(configuration.to_string()).second) out.push_back(std::move(configuration));
  }
  return out;
}

}  // namespace lagom::collect

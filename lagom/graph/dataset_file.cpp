#include "lagom/graph/dataset_file.h"

namespace lagom::graph {
namespace {

using formats::Array;
using formats::NpzWriter;

void add_runtimes(NpzWriter& writer, const TuningTable& table) {
  const int64_t configs = table.num_configs();
  writer.add("config_runtime", Array::of<int64_t>({configs}, table.config_runtime));
  writer.add("config_runtime_normalizers",
             Array::of<int64_t>({configs}, table.config_runtime_normalizers));
}

}  // namespace

void add_graph(NpzWriter& writer, const OpGraph& graph) {
  const int64_t nodes = graph.num_nodes();
  writer.add("node_opcode", Array::of<uint8_t>({nodes}, graph.node_opcode));
  writer.add("node_feat",
             Array::of<float>({nodes, num_node_features(graph.feature_version)}, graph.node_feat));
  writer.add("edge_index", Array::of<int64_t>({graph.num_edges(), 2}, graph.edge_index));
  writer.add("node_splits", Array::of<int64_t>({1, static_cast<int64_t>(graph.node_splits.size())},
                                               graph.node_splits));
  writer.add("feature_version", Array::of<int32_t>({}, {graph.feature_version}));
  writer.add("list_padding", Array::of<int32_t>({}, {graph.list_padding}));
}

void write_graph_npz(const std::filesystem::path& path, const OpGraph& graph) {
  NpzWriter writer(path);
  add_graph(writer, graph);
  writer.finish();
}

void write_layout_npz(const std::filesystem::path& path, const OpGraph& graph,
                      const TuningTable& table) {
  NpzWriter writer(path);
  add_graph(writer, graph);
  add_runtimes(writer, table);
  const auto nodes = static_cast<int64_t>(table.node_config_ids.size());
  writer.add("node_config_ids", Array::of<int64_t>({nodes}, table.node_config_ids));
  writer.add(
      "node_config_feat",
      Array::of<float>({table.num_configs(), nodes, kLayoutConfigFeatures}, table.config_feat));
  writer.finish();
}

void write_tile_npz(const std::filesystem::path& path, const OpGraph& graph,
                    const TuningTable& table) {
  NpzWriter writer(path);
  add_graph(writer, graph);
  add_runtimes(writer, table);
  writer.add("config_feat",
             Array::of<float>({table.num_configs(), kTileConfigFeatures}, table.config_feat));
  writer.finish();
}

}  // namespace lagom::graph

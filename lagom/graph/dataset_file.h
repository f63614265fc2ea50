#pragma once

#include <filesystem>

#include "lagom/formats/npz.h"
#include "lagom/graph/op_graph.h"
#include "lagom/graph/tuning_data.h"

namespace lagom::graph {

/// Writes one graph as the data set's npz: node_opcode uint8, node_feat float32, edge_index int64,
/// node_splits int64 [1, s], and `feature_version` int32, which the data set's own files lack.
/// With a table also config_runtime (int64 ns), config_runtime_normalizers, and for layouts
/// node_config_ids int64 with node_config_feat float32 [c, nodes, 18], for tiles config_feat
/// float32 [c, 24]. Throws SystemError when it cannot be written.
void write_graph_npz(const std::filesystem::path& path, const OpGraph& graph);
void write_layout_npz(const std::filesystem::path& path, const OpGraph& graph,
                      const TuningTable& table);
void write_tile_npz(const std::filesystem::path& path, const OpGraph& graph,
                    const TuningTable& table);

/// Adds the graph's own arrays to a file that gets others besides.
void add_graph(formats::NpzWriter& writer, const OpGraph& graph);

}  // namespace lagom::graph

#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "lagom/formats/npz.h"
#include "lagom/graph/op_graph.h"
#include "lagom/graph/tuning_data.h"

namespace lagom::graph {

/// Writes one graph as the data set's npz: node_opcode uint8, node_feat float32, edge_index int64,
/// node_splits int64 [1, s], and `feature_version` and `list_padding` int32, which the data set's
/// own files lack.
/// With a table also config_runtime (int64 ns), config_runtime_normalizers, and for layouts
/// node_config_ids int64 with node_config_feat float32 [c, nodes, 18], for tiles config_feat
/// float32 [c, 24]. Throws SystemError when it cannot be written.
void write_graph_npz(const std::filesystem::path& path, const OpGraph& graph);
void write_layout_npz(const std::filesystem::path& path, const OpGraph& graph,
                      const TuningTable& table);
void write_tile_npz(const std::filesystem::path& path, const OpGraph& graph,
                    const TuningTable& table);

/// What was measured of a graph, beside the graph itself.
enum class GraphKind {
  kGraph,   ///< Nothing.
  kTile,    ///< A kernel: features per configuration.
  kLayout,  ///< A program: features per configuration and configurable node.
};
std::string_view graph_kind_name(GraphKind kind);  ///< "graph", "tile", "layout".

/// An npz of the data set without what may be large, the configurations of a layout graph.
struct MeasuredGraph {
  GraphKind kind = GraphKind::kGraph;
  OpGraph graph;
  std::vector<int64_t> config_runtime;              ///< [c] ns; zeros in files without labels.
  std::vector<int64_t> config_runtime_normalizers;  ///< [c] ns; empty where there are none.
  std::vector<float> config_feat;                   ///< [c, 24]; tiles only.
  std::vector<int64_t> node_config_ids;             ///< [nc]; layouts only.

  int64_t num_configs() const { return static_cast<int64_t>(config_runtime.size()); }
  int64_t num_config_nodes() const { return static_cast<int64_t>(node_config_ids.size()); }
};

/// Reads and checks all but `node_config_feat`. Any integer or float type is taken by value.
///
/// Files without `feature_version` are v1, without `list_padding` padded with 0, without
/// `node_splits` one segment. Edges that stand twice are kept: a call that names a computation
/// twice has them in the data set. Throws FormatError naming file, array and place: an array
/// missing, or of another shape or type; columns that are not those of the feature version; values
/// that are NaN or infinite; node numbers, edge ends and splits outside the graph; an edge from a
/// node to itself; a configurable node twice; runtimes that are negative, or 0 beside others that
/// are not; counts of configurations that differ.
MeasuredGraph read_measured_graph(const formats::NpzReader& file);

/// Names of the file's arrays that TpuGraphs does not have: what other tools put beside.
std::vector<std::string> extra_arrays(const formats::NpzReader& file);

/// Calls `visit` with the configurations of a layout graph, in order, in pieces of a few rows:
/// int8 [rows, nc, 18]. Needs memory for one piece, of about 8 MB, only; for all of a column-major
/// array, whose rows lie scattered (NumPy writes such when asked). Throws
/// FormatError for values that are no whole numbers of -128 to 127, and what `read` of an npz
/// throws.
using LayoutRowsVisitor = std::function<void(std::span<const int8_t>)>;
void for_each_layout_rows(const formats::NpzReader& file, const LayoutRowsVisitor& visit);

/// Adds the graph's own arrays to a file that gets others besides.
void add_graph(formats::NpzWriter& writer, const OpGraph& graph);

}  // namespace lagom::graph

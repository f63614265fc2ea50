#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lagom/graph/graph_cache.h"
#include "lagom/rank/ranker.h"

/// Graphs as the cost model takes them in, wherever they come from.
namespace lagom::cost_model {

/// Some configurations of a graph; parts that the graph does not have are empty.
struct ConfigRows {
  int64_t count = 0;
  std::vector<int8_t> layouts;    ///< [rows, nc, 18]
  std::vector<int16_t> forms;     ///< [rows, nc]
  std::vector<uint8_t> barriers;  ///< [rows, nc]
  std::vector<float> columns;     ///< [rows, config_columns]: of tiles, or flags.
  std::vector<int32_t> graphs;    ///< [rows]: which of GraphData's graphs each one is.
};

/// What must agree between a model and the graphs that it is asked about.
struct FeatureFormat {
  int feature_version = 1, list_padding = 0;
  int64_t config_columns = 0;  ///< Values per configuration: 24 of tiles, flags, or none.
  bool has_layouts = false;    ///< Values per configuration and configurable node.
  bool has_forms = false;      ///< Forms and barriers, too.
  /// Each configuration is a graph of its own (collect::Encoding::kRewritten).
  bool has_config_graphs = false;

  bool operator==(const FeatureFormat&) const = default;
  /// "feature version 1 padded with 0, layouts"
  std::string to_string() const;
};

class GraphData {
 public:
  virtual ~GraphData() = default;
  GraphData(const GraphData&) = delete;
  GraphData& operator=(const GraphData&) = delete;

  /// Rows in any order, also more than once. Throws std::invalid_argument for one that is not
  /// there.
  ConfigRows read(std::span<const int64_t> rows) const { return read(rows, std::nullopt); }
  /// The same of some configurable nodes only, places in `node_config_ids`; what concerns the whole
  /// graph comes in any case.
  virtual ConfigRows read(std::span<const int64_t> rows,
                          std::optional<std::span<const int64_t>> places) const = 0;

  std::string id, path;
  FeatureFormat format;
  std::span<const uint8_t> node_opcode;
  std::span<const float> node_feat;
  std::span<const int64_t> edge_index, node_config_ids;
  std::span<const int64_t> node_splits;  ///< First nodes of computations; empty when not known.
  /// With has_config_graphs: first nodes of the graphs, then num_nodes(). No edge lies between two,
  /// edges stand graph by graph; graph 0 is the program as it is.
  std::span<const int64_t> graph_splits;
  int64_t num_configs = 0;

  int64_t num_nodes() const { return static_cast<int64_t>(node_opcode.size()); }
  int64_t num_config_nodes() const { return static_cast<int64_t>(node_config_ids.size()); }

 protected:
  GraphData() = default;
};

/// What was measured of a graph's rows.
struct Labels {
  /// Rows to train on: each distinct configuration once, by its first row.
  std::vector<int64_t> rows;
  /// Of those: the mean of equal configurations, as graph::comparable_runtimes.
  std::vector<double> runtimes;
  /// Half the width of each one's confidence interval, in the same unit; empty when not measured.
  std::vector<double> uncertainties;
  std::vector<double> all_runtimes;  ///< [num_configs]: of every row, for evaluation.
};

struct LabeledGraph {
  std::shared_ptr<const GraphData> data;
  std::optional<Labels> labels;  ///< None for test files.
  std::string device;            ///< Where they were measured, by who opened it; empty: not known.
};

/// Opens a compact graph, or an npz, which is made compact in a temporary file that goes with the
/// object. Throws SystemError and FormatError, the latter also for a graph without configurations.
LabeledGraph open_graph(const std::filesystem::path& path);

/// A graph that is in memory; refers to the same spans. Throws FormatError when sizes do not fit.
std::shared_ptr<const GraphData> view_graph(const rank::ConfiguredGraph& graph);

/// Throws FormatError, saying both, when a graph's format is not that of a model.
void require_format(const GraphData& graph, const FeatureFormat& expected);

}  // namespace lagom::cost_model

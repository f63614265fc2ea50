#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lagom/graph/op_graph.h"
#include "lagom/hlo/module.h"

/// TpuGraphs' raw measurements: `ModuleTuningData` (a program and runs of it under different
/// layouts) and `TuningData` (kernels and runs of each under different tiles).
namespace lagom::graph {

/// One run of a program or kernel.
struct TuningRun {
  bool is_error = false;
  bool is_default = false;
  std::optional<int64_t> runtime_ns;                ///< compute_time_ns; absent without a profile.
  std::optional<TileConfig> tile;                   ///< Present, perhaps empty, for kernels.
  std::optional<std::vector<NodeLayouts>> layouts;  ///< By configurable node, for programs.
};

struct TuningModule {
  hlo::Module module;
  uint64_t fingerprint = 0;
  std::vector<int64_t> config_nodes;  ///< Numbers of the configurable nodes, as in an OpGraph.
  std::vector<TuningRun> runs;
};

enum class TuningKind {
  kLayout,  ///< ModuleTuningData.
  kTile,    ///< TuningData.
};

/// What the bytes are; nullopt for neither. Neither message has a mark, so the module decides: a
/// field 1 that is an HLO module, or one that holds runs of one.
std::optional<TuningKind> tuning_kind(std::string_view bytes);

/// One module for layouts, all kernels for tiles. `path` names the bytes in errors. Throws
/// FormatError: damaged bytes, a module that cannot be read, configurable nodes that are not there,
/// a run with layouts for another number of nodes.
std::vector<TuningModule> read_tuning_data(std::string_view bytes, std::string_view path);

/// A module's measurements as the data set has them. Rows are the runs that its own filters keep.
struct TuningTable {
  std::vector<int64_t> config_runtime;              ///< [c] ns
  std::vector<int64_t> config_runtime_normalizers;  ///< [c] ns, of the default.
  std::vector<float> config_feat;        ///< [c, 24] for tiles, or [c, nodes, 18] for layouts.
  std::vector<int64_t> node_config_ids;  ///< [nodes]; layouts only.
  int64_t num_configs() const { return static_cast<int64_t>(config_runtime.size()); }
};

/// Keeps runs with layouts, a profile and no error. Without a default run among them there is no
/// row. Throws FormatError for a kept run that took no time, and when there are no configurable
/// nodes.
TuningTable layout_table(const TuningModule& module, std::string_view path);

/// The kernels' tables, in order; one without rows for a kernel that the data set leaves out: with
/// a single run, or a run without a tile. Keeps runs without error that took more than 1 ns. As in
/// the data set, kernels of one name share the last one's normaliser. Throws FormatError for a
/// kernel that is not left out and has no default run.
std::vector<TuningTable> tile_tables(const std::vector<TuningModule>& kernels,
                                     std::string_view path);

}  // namespace lagom::graph

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lagom/formats/array_file.h"
#include "lagom/graph/dataset_file.h"

/// Graphs of the data set in a compact form that is mapped, not read, so that a training step
/// touches the configurations that it samples and no others.
///
/// A *configuration* is a row of the npz. Of a layout graph it is kept as one *code* per
/// configurable node, a row number in the graph's *dictionary* of distinct layouts: 2 bytes (4
/// where there are more than 65,536) instead of 72.
namespace lagom::graph {

inline constexpr std::string_view kGraphCacheEnding = ".graph";

class GraphCache {
 public:
  /// Maps the file and compares everything but configurations and extra arrays with its checksums.
  /// Throws SystemError and FormatError as ArrayFile, and FormatError for a file that is no graph.
  explicit GraphCache(const std::filesystem::path& path);

  const std::string& path() const { return file_.path(); }
  GraphKind kind() const { return kind_; }
  int feature_version() const { return feature_version_; }
  int list_padding() const { return list_padding_; }
  int64_t num_nodes() const { return static_cast<int64_t>(node_opcode_.size()); }
  int64_t num_edges() const { return static_cast<int64_t>(edge_index_.size() / 2); }
  int64_t num_configs() const { return static_cast<int64_t>(config_runtime_.size()); }
  int64_t num_config_nodes() const { return static_cast<int64_t>(node_config_ids_.size()); }
  /// False where the runtimes are the zeros of test files.
  bool has_labels() const { return has_labels_; }

  // As OpGraph and MeasuredGraph have them; they live as long as this object.
  std::span<const uint8_t> node_opcode() const { return node_opcode_; }
  std::span<const float> node_feat() const { return node_feat_; }
  std::span<const int64_t> edge_index() const { return edge_index_; }
  std::span<const int64_t> node_splits() const { return node_splits_; }
  std::span<const int64_t> config_runtime() const { return config_runtime_; }
  std::span<const int64_t> config_runtime_normalizers() const { return normalizers_; }
  std::span<const float> config_feat() const { return config_feat_; }  ///< [c, 24], tiles.
  std::span<const int64_t> node_config_ids() const { return node_config_ids_; }
  /// The dictionary of layouts, int8 [d, 18].
  std::span<const int8_t> layouts() const { return layouts_; }
  int64_t num_layouts() const {
    return static_cast<int64_t>(layouts_.size()) / kLayoutConfigFeatures;
  }

  /// The file with all its arrays, for those that the npz had beside TpuGraphs' own; opening does
  /// not compare their checksums.
  const formats::ArrayFile& arrays() const { return file_; }

  /// Codes of these rows: out [rows, nc]. Throws std::invalid_argument for a row that is not there
  /// and for an `out` of another size, FormatError for damaged codes.
  void read_layout_codes(std::span<const int64_t> rows, std::span<uint32_t> out) const;
  /// The same as layouts: out [rows, nc, 18].
  void read_layouts(std::span<const int64_t> rows, std::span<int8_t> out) const {
    read_layouts(rows, std::nullopt, out);
  }
  /// Of some configurable nodes only, by their places in `node_config_ids`: out [rows, places, 18].
  /// Throws std::invalid_argument for a place that is not there.
  void read_layouts(std::span<const int64_t> rows, std::optional<std::span<const int64_t>> places,
                    std::span<int8_t> out) const;

  /// Throws FormatError for a graph of another feature version than `version` (a model's, say).
  void require_feature_version(int version) const;
  /// Throws FormatError when there are no labels: what cannot be evaluated.
  void require_labels() const;
  /// Reads everything and compares checksums and codes. Throws FormatError.
  void verify() const;
  /// Fingerprint of the npz that it was made from (formats::NpzReader).
  uint64_t source() const { return source_; }

 private:
  void check_rows(std::span<const int64_t> rows) const;
  void read_codes(std::span<const int64_t> rows, std::optional<std::span<const int64_t>> places,
                  std::span<uint32_t> out) const;
  void read_measurements();

  formats::ArrayFile file_;
  GraphKind kind_ = GraphKind::kGraph;
  int feature_version_ = 0, list_padding_ = 0;
  bool has_labels_ = false;
  uint64_t source_ = 0;
  std::span<const uint8_t> node_opcode_;
  std::span<const float> node_feat_, config_feat_;
  std::span<const int64_t> edge_index_, node_splits_, config_runtime_, normalizers_,
      node_config_ids_;
  std::span<const int8_t> layouts_;
  std::span<const uint16_t> codes16_;  ///< [c, nc], or in the other one where there are many.
  std::span<const uint32_t> codes32_;
};

/// Checks an npz (see read_measured_graph) and writes its compact form, which takes its name when
/// it is complete. Arrays that TpuGraphs does not have are taken along as they are.
///
/// Memory: the graph's arrays up to three times, the dictionary, one extra array's row, and 25 MB;
/// the configurations pass by. Throws SystemError and FormatError; the latter also for an extra
/// array with more than 4 dimensions or a name that is longer than 40 bytes or one of ours.
void transcode_graph(const std::filesystem::path& npz, const std::filesystem::path& out);

struct TranscodeReport {
  int64_t written = 0, up_to_date = 0;
  bool was_stopped = false;
  std::vector<std::string> failures;  ///< Messages of files that were refused.
};
/// Hears of each file before it is begun: number from 0, how many there are, path. Stops the work
/// by returning false.
using TranscodeProgress = std::function<bool(size_t, size_t, const std::string&)>;
/// Transcodes every npz below a folder to the same place below `out`, and writes `out`/index.jsonl.
/// Files that are there already and come from equal contents are kept, so it can be stopped at any
/// time and started again. A file that is refused does not stop the others.
TranscodeReport transcode_folder(const std::filesystem::path& folder,
                                 const std::filesystem::path& out,
                                 const TranscodeProgress& progress = {});

}  // namespace lagom::graph

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <stdexcept>

#include "lagom/graph/dataset_file.h"
#include "lagom/util/error.h"

namespace lagom::graph {
namespace {

using formats::Array;
using formats::NpyHeader;
using formats::NpzReader;

/// Of one piece of node_config_feat.
constexpr int64_t kPieceBytes = int64_t{8} << 20;
constexpr int64_t kAny = -1;
constexpr const char* kLayouts = "node_config_feat";

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t size : shape) {
    text += (text.empty() ? "" : ", ") + (size == kAny ? std::string("any") : std::to_string(size));
  }
  return "[" + text + "]";
}

/// Reads arrays of one file with their shapes checked first.
class CheckedReader {
 public:
  explicit CheckedReader(const NpzReader& file) : file_(file) {}

  [[noreturn]] void fail(std::string_view array, const std::string& what) const {
    throw FormatError(file_.path(), array, what);
  }

  size_t rank(std::string_view name) const { return file_.header(name).shape.size(); }
  bool has(std::string_view name) const { return file_.contains(name); }

  /// kAny stands for any size.
  NpyHeader header(std::string_view name, const std::vector<int64_t>& expected) const {
    NpyHeader header = file_.header(name);
    const bool fits =
        std::equal(header.shape.begin(), header.shape.end(), expected.begin(), expected.end(),
                   [](int64_t found, int64_t wanted) { return wanted == kAny || found == wanted; });
    if (!fits) {
      fail(name, "has shape " + shape_text(header.shape) + ", expected " + shape_text(expected));
    }
    if (number_format(header.element_type).is_complex()) fail(name, "holds complex numbers");
    return header;
  }

  template <typename T>
  std::vector<T> values(std::string_view name, const std::vector<int64_t>& expected) const {
    header(name, expected);
    try {
      return formats::values_as<T>(file_.read(name));
    } catch (const std::invalid_argument& e) {
      fail(name, e.what());
    }
  }

  /// [rows, columns] of finite numbers.
  std::vector<float> features(std::string_view name, int64_t rows, int64_t columns) const {
    std::vector<float> found = values<float>(name, {rows, columns});
    const auto bad =
        std::find_if(found.begin(), found.end(), [](float value) { return !std::isfinite(value); });
    if (bad == found.end()) return found;
    const auto at = bad - found.begin();
    fail(name, "row " + std::to_string(at / columns) + ", column " + std::to_string(at % columns) +
                   " is " + (std::isnan(*bad) ? "NaN" : "infinite"));
  }

  int64_t scalar(std::string_view name, int64_t absent) const {
    return has(name) ? values<int64_t>(name, {}).front() : absent;
  }

 private:
  const NpzReader& file_;
};

void read_graph(const CheckedReader& file, OpGraph& graph) {
  const int64_t version = file.scalar("feature_version", 1);
  if (version < 1 || version > kMaxFeatureVersion) {
    file.fail("feature_version",
              std::to_string(version) + ", expected 1 to " + std::to_string(kMaxFeatureVersion));
  }
  const int64_t padding = file.scalar("list_padding", 0);
  if (padding != 0 && padding != -1) {
    file.fail("list_padding", std::to_string(padding) + ", expected 0 or -1");
  }
  graph.feature_version = static_cast<int>(version);
  graph.list_padding = static_cast<int>(padding);
  graph.node_opcode = file.values<uint8_t>("node_opcode", {kAny});
  const int64_t nodes = graph.num_nodes();
  if (nodes == 0) file.fail("node_opcode", "the graph has no nodes");
  graph.node_feat = file.features("node_feat", nodes, num_node_features(graph.feature_version));

  graph.edge_index = file.values<int64_t>("edge_index", {kAny, 2});
  const std::string problem = edge_problem(graph.edge_index, nodes);
  if (!problem.empty()) file.fail("edge_index", problem);

  if (!file.has("node_splits")) {
    graph.node_splits = {0, nodes};
    return;
  }
  // [1, s] in the data set, a plain list elsewhere.
  graph.node_splits = file.values<int64_t>("node_splits", file.rank("node_splits") == 1
                                                              ? std::vector<int64_t>{kAny}
                                                              : std::vector<int64_t>{1, kAny});
  const auto& splits = graph.node_splits;
  if (splits.empty() || splits.front() != 0 || splits.back() != nodes ||
      !std::is_sorted(splits.begin(), splits.end())) {
    file.fail("node_splits", "do not ascend from 0 to " + std::to_string(nodes));
  }
}

void read_runtimes(const CheckedReader& file, MeasuredGraph& measured) {
  measured.config_runtime = file.values<int64_t>("config_runtime", {kAny});
  const auto& runtimes = measured.config_runtime;
  // Zeros throughout are what test files have instead of labels.
  const bool has_labels =
      std::any_of(runtimes.begin(), runtimes.end(), [](int64_t ns) { return ns != 0; });
  for (size_t c = 0; has_labels && c < runtimes.size(); ++c) {
    if (runtimes[c] > 0) continue;
    file.fail("config_runtime", "row " + std::to_string(c) + " is " + std::to_string(runtimes[c]) +
                                    " ns, expected more than 0");
  }
  constexpr const char* kNormalizers = "config_runtime_normalizers";
  if (!file.has(kNormalizers)) return;
  measured.config_runtime_normalizers =
      file.values<int64_t>(kNormalizers, {measured.num_configs()});
  for (const int64_t ns : measured.config_runtime_normalizers) {
    if (ns > 0) continue;
    file.fail(kNormalizers, "a value is " + std::to_string(ns) + " ns, expected more than 0");
  }
}

void read_config_nodes(const CheckedReader& file, MeasuredGraph& measured) {
  measured.node_config_ids = file.values<int64_t>("node_config_ids", {kAny});
  std::vector<int64_t> sorted = measured.node_config_ids;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    const std::string node = "node " + std::to_string(sorted[i]);
    if (sorted[i] < 0 || sorted[i] >= measured.graph.num_nodes()) {
      file.fail("node_config_ids",
                node + ", the graph has " + std::to_string(measured.graph.num_nodes()));
    }
    if (i > 0 && sorted[i] == sorted[i - 1]) file.fail("node_config_ids", node + " stands twice");
  }
  file.header(kLayouts,
              {measured.num_configs(), measured.num_config_nodes(), kLayoutConfigFeatures});
}

/// float32 as the data set has it; false when a value is no int8.
bool to_int8(const Buffer& data, std::vector<int8_t>& out) {
  const auto* const values = reinterpret_cast<const float*>(data.data());
  out.resize(data.size() / sizeof(float));
  bool all_fit = true;
  for (size_t i = 0; i < out.size(); ++i) {
    // Bounded first: a float outside of the integer's range must not be converted.
    const float bounded = std::min(std::max(values[i], -128.0f), 127.0f);
    const auto whole = static_cast<int32_t>(bounded);
    out[i] = static_cast<int8_t>(whole);
    all_fit &= static_cast<float>(whole) == values[i];
  }
  return all_fit;
}

void read_int8(const NpzReader& file, const Array& piece, int64_t first_row,
               std::vector<int8_t>& values) {
  if (piece.element_type == PrimitiveType::kF32 && to_int8(piece.data, values)) return;
  try {
    values = formats::values_as<int8_t>(piece);
  } catch (const std::invalid_argument& e) {
    throw FormatError(file.path(), kLayouts,
                      "rows from " + std::to_string(first_row) + ": " + e.what());
  }
}

}  // namespace

std::string_view graph_kind_name(GraphKind kind) {
  constexpr std::string_view kNames[] = {"graph", "tile", "layout"};
  return kNames[static_cast<size_t>(kind)];
}

MeasuredGraph read_measured_graph(const NpzReader& npz) {
  const CheckedReader file(npz);
  MeasuredGraph measured;
  read_graph(file, measured.graph);
  const bool is_tile = file.has("config_feat"), is_layout = file.has(kLayouts);
  if (is_tile && is_layout) file.fail("config_feat", "stands beside node_config_feat");
  if (!is_tile && !is_layout) {
    for (const char* name : {"config_runtime", "node_config_ids"}) {
      if (file.has(name)) file.fail(name, "there is neither config_feat nor node_config_feat");
    }
    return measured;
  }
  read_runtimes(file, measured);
  if (is_tile) {
    measured.kind = GraphKind::kTile;
    if (measured.config_runtime_normalizers.empty() && measured.num_configs() > 0) {
      file.fail("config_runtime_normalizers", "is missing, a tile's runtimes need it");
    }
    measured.config_feat =
        file.features("config_feat", measured.num_configs(), kTileConfigFeatures);
  } else {
    measured.kind = GraphKind::kLayout;
    read_config_nodes(file, measured);
  }
  return measured;
}

std::vector<std::string> extra_arrays(const NpzReader& file) {
  static const std::set<std::string, std::less<>> kKnown = {"node_opcode",
                                                            "node_feat",
                                                            "edge_index",
                                                            "node_splits",
                                                            "config_runtime",
                                                            "config_feat",
                                                            "node_config_ids",
                                                            "node_config_feat",
                                                            "list_padding",
                                                            "feature_version",
                                                            "config_runtime_normalizers"};
  std::vector<std::string> extra;
  for (std::string& name : file.names()) {
    if (!kKnown.contains(name)) extra.push_back(std::move(name));
  }
  return extra;
}

void for_each_layout_rows(const NpzReader& file, const LayoutRowsVisitor& visit) {
  std::vector<int8_t> values;
  if (file.header(kLayouts).is_fortran_order) {
    read_int8(file, file.read(kLayouts), /*first_row=*/0, values);
    visit(values);
    return;
  }
  NpzReader::Rows rows = file.rows(kLayouts);
  const NpyHeader& header = rows.header();
  const auto row_bytes =
      static_cast<int64_t>(header.data_bytes()) / std::max<int64_t>(rows.num_rows(), 1);
  const int64_t rows_at_once = std::max<int64_t>(kPieceBytes / std::max<int64_t>(row_bytes, 1), 1);
  for (int64_t row = 0; row < rows.num_rows(); row += rows_at_once) {
    read_int8(file, rows.next(rows_at_once), row, values);
    visit(values);
  }
}

}  // namespace lagom::graph

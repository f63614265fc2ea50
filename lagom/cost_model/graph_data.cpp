#include "lagom/cost_model/graph_data.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <stdexcept>

#include "lagom/graph/collection.h"
#include "lagom/graph/duplicates.h"
#include "lagom/util/error.h"

namespace lagom::cost_model {
namespace {

using graph::GraphCache;
using graph::kLayoutConfigFeatures;

using Places = std::optional<std::span<const int64_t>>;

template <typename T>
void gather_rows(std::span<const T> all, size_t width, std::span<const int64_t> rows,
                 std::vector<T>& out) {
  if (all.empty()) return;
  out.resize(rows.size() * width);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(all.begin() + rows[i] * static_cast<std::ptrdiff_t>(width), width,
                out.begin() + static_cast<std::ptrdiff_t>(i * width));
  }
}

/// all: [configs, nodes, width]; out: [rows, places, width].
template <typename T>
void gather_nodes(std::span<const T> all, size_t nodes, size_t width, std::span<const int64_t> rows,
                  const Places& places, std::vector<T>& out) {
  if (!places) return gather_rows(all, nodes * width, rows, out);
  if (all.empty()) return;
  out.resize(rows.size() * places->size() * width);
  auto to = out.begin();
  for (const int64_t row : rows) {
    for (const int64_t place : *places) {
      const auto from = (static_cast<size_t>(row) * nodes + static_cast<size_t>(place)) * width;
      to = std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(from), width, to);
    }
  }
}

/// Values of an array that a file may have; T must be its type.
template <typename T>
std::span<const T> optional_values(const GraphCache& graph, std::string_view name, int64_t rows) {
  const auto* entry = graph.arrays().find(name);
  if (entry == nullptr) return {};
  const std::span<const T> values = graph.arrays().values<T>(name, 2);
  if (entry->shape[0] != rows) {
    throw FormatError(graph.path(), name, "has another number of rows than config_runtime");
  }
  return values;
}

/// What is wrong with the graphs of configurations, as GraphData::graph_splits describes them;
/// empty when nothing is.
std::string config_graph_problem(const GraphData& graph, std::span<const int32_t> config_graph) {
  const auto splits = graph.graph_splits;
  const int64_t graphs = static_cast<int64_t>(splits.size()) - 1;
  if (graphs < 1 || splits.front() != 0 || splits.back() != graph.num_nodes() ||
      std::adjacent_find(splits.begin(), splits.end(), std::greater_equal<>()) != splits.end()) {
    return "do not ascend from 0 to the number of nodes";
  }
  if (!graph.node_config_ids.empty()) return "stand beside configurable nodes";
  if (static_cast<int64_t>(config_graph.size()) != graph.num_configs ||
      std::any_of(config_graph.begin(), config_graph.end(),
                  [&](int32_t g) { return g < 0 || g >= graphs; })) {
    return "are not what config_graph refers to";
  }
  int64_t at = 0;
  for (size_t e = 0; e < graph.edge_index.size(); e += 2) {
    const int64_t user = graph.edge_index[e], operand = graph.edge_index[e + 1];
    while (at < graphs && user >= splits[static_cast<size_t>(at) + 1]) ++at;
    const int64_t first = splits[static_cast<size_t>(at)];
    const int64_t last = splits[static_cast<size_t>(at) + 1];
    if (std::min(user, operand) < first || std::max(user, operand) >= last) {
      return "do not part edge " + std::to_string(e / 2) + " from those of other graphs";
    }
  }
  return "";
}

class CachedGraph : public GraphData {
 public:
  explicit CachedGraph(const std::filesystem::path& path) : cache(path) {
    const auto rows = cache.num_configs();
    forms_ = optional_values<int16_t>(cache, "node_config_form", rows);
    barriers_ = optional_values<uint8_t>(cache, "node_config_barrier", rows);
    columns_ = cache.kind() == graph::GraphKind::kTile
                   ? cache.config_feat()
                   : optional_values<float>(cache, "config_flags", rows);
    node_opcode = cache.node_opcode();
    node_feat = cache.node_feat();
    edge_index = cache.edge_index();
    node_config_ids = cache.node_config_ids();
    node_splits = cache.node_splits();
    num_configs = rows;
    format = {.feature_version = cache.feature_version(),
              .list_padding = cache.list_padding(),
              .config_columns = rows == 0 ? 0 : static_cast<int64_t>(columns_.size()) / rows,
              .has_layouts = cache.kind() == graph::GraphKind::kLayout,
              // A kernel that only flags change has the array, with no columns.
              .has_forms = cache.arrays().find("node_config_form") != nullptr,
              .has_config_graphs = cache.arrays().find("graph_splits") != nullptr};
    if (format.has_config_graphs) {
      graph_splits = cache.arrays().values<int64_t>("graph_splits", 1);
      graphs_ = cache.arrays().values<int32_t>("config_graph", 1);
      const std::string problem = config_graph_problem(*this, graphs_);
      if (!problem.empty()) throw FormatError(cache.path(), "graph_splits", problem);
    }
    const auto cells = static_cast<size_t>(rows * num_config_nodes());
    if ((!forms_.empty() && forms_.size() != cells) ||
        (!barriers_.empty() && barriers_.size() != cells)) {
      throw FormatError(cache.path(), "node_config_form",
                        "is not [configurations, configurable nodes]");
    }
  }

  ConfigRows read(std::span<const int64_t> rows, Places places) const override {
    const auto nc = static_cast<size_t>(num_config_nodes());
    ConfigRows out{.count = static_cast<int64_t>(rows.size())};
    if (format.has_layouts) {
      out.layouts.resize(rows.size() * (places ? places->size() : nc) * kLayoutConfigFeatures);
      cache.read_layouts(rows, places, out.layouts);
    } else {
      for (const int64_t row : rows) {
        if (row < 0 || row >= num_configs) {
          throw std::invalid_argument(path + ": there is no configuration " + std::to_string(row));
        }
      }
    }
    gather_nodes(forms_, nc, 1, rows, places, out.forms);
    gather_nodes(barriers_, nc, 1, rows, places, out.barriers);
    gather_rows(columns_, static_cast<size_t>(format.config_columns), rows, out.columns);
    gather_rows(graphs_, 1, rows, out.graphs);
    return out;
  }

  GraphCache cache;

 private:
  std::span<const int16_t> forms_;
  std::span<const uint8_t> barriers_;
  std::span<const float> columns_;
  std::span<const int32_t> graphs_;
};

class ViewedGraph : public GraphData {
 public:
  explicit ViewedGraph(const rank::ConfiguredGraph& graph) : graph_(graph) {
    id = path = graph.name;
    node_opcode = graph.node_opcode;
    node_feat = graph.node_feat;
    edge_index = graph.edge_index;
    node_config_ids = graph.node_config_ids;
    node_splits = graph.node_splits;
    num_configs = graph.num_configs;
    columns_ = graph.config_feat.empty() ? graph.config_flags : graph.config_feat;
    const auto cells = static_cast<size_t>(num_configs * num_config_nodes());
    require(node_feat.size() == node_opcode.size() * static_cast<size_t>(graph::num_node_features(
                                                         graph.feature_version)),
            "node_feat");
    require(graph::edge_problem(edge_index, num_nodes()).empty(), "edge_index");
    require(graph.node_config_feat.size() == cells * kLayoutConfigFeatures, "node_config_feat");
    require(graph.node_config_form.empty() || graph.node_config_form.size() == cells,
            "node_config_form");
    require(graph.node_config_barrier.size() == graph.node_config_form.size(),
            "node_config_barrier");
    require(num_configs > 0 && columns_.size() % static_cast<size_t>(num_configs) == 0,
            "config_feat");
    for (const int64_t node : node_config_ids) {
      require(node >= 0 && node < num_nodes(), "node_config_ids");
    }
    format = {.feature_version = graph.feature_version,
              .list_padding = graph.list_padding,
              .config_columns = static_cast<int64_t>(columns_.size()) / num_configs,
              .has_layouts = graph.config_feat.empty(),
              // Without configurable nodes flags tell a measured data set's graph.
              .has_forms = !graph.node_config_form.empty() ||
                           (node_config_ids.empty() && !graph.config_flags.empty() &&
                            graph.graph_splits.empty()),
              .has_config_graphs = !graph.graph_splits.empty()};
    if (format.has_config_graphs) {
      graph_splits = graph.graph_splits;
      require(config_graph_problem(*this, graph.config_graph).empty(), "graph_splits");
    }
  }

  ConfigRows read(std::span<const int64_t> rows, Places places) const override {
    for (const int64_t row : rows) {
      if (row < 0 || row >= num_configs) {
        throw std::invalid_argument(path + ": there is no configuration " + std::to_string(row));
      }
    }
    const auto nc = static_cast<size_t>(num_config_nodes());
    ConfigRows out{.count = static_cast<int64_t>(rows.size())};
    gather_nodes(graph_.node_config_feat, nc, kLayoutConfigFeatures, rows, places, out.layouts);
    gather_nodes(graph_.node_config_form, nc, 1, rows, places, out.forms);
    gather_nodes(graph_.node_config_barrier, nc, 1, rows, places, out.barriers);
    gather_rows(columns_, static_cast<size_t>(format.config_columns), rows, out.columns);
    gather_rows(graph_.config_graph, 1, rows, out.graphs);
    return out;
  }

 private:
  void require(bool fits, const char* array) const {
    if (!fits) throw FormatError(path, array, "does not fit the graph's other arrays");
  }

  rank::ConfiguredGraph graph_;
  std::span<const float> columns_;
};

/// A name that is removed at the end of a scope; what is mapped stays.
struct TemporaryName {
  explicit TemporaryName(const std::filesystem::path& npz)
      : path(std::filesystem::temp_directory_path() /
             ("lagom-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + "-" +
              npz.stem().string() + ".graph")) {}
  ~TemporaryName() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  static inline std::atomic<int> counter = 0;
  std::filesystem::path path;
};

Labels labels_of(const GraphCache& cache) {
  const graph::DuplicateGroups groups = graph::find_duplicates(cache);
  Labels labels{.rows = groups.first_row, .all_runtimes = graph::comparable_runtimes(cache)};
  labels.runtimes = graph::merge_rows(groups, labels.all_runtimes, graph::MergeRule::kMean);
  const auto ratios = optional_values<float>(cache, "config_ratio", cache.num_configs());
  if (ratios.size() == 2 * labels.all_runtimes.size()) {
    for (const int64_t row : labels.rows) {
      const auto at = static_cast<size_t>(row);
      labels.uncertainties.push_back((ratios[2 * at + 1] - ratios[2 * at]) / 2.0);
    }
  }
  return labels;
}

}  // namespace

std::string FeatureFormat::to_string() const {
  std::string text = "feature version " + std::to_string(feature_version) + " padded with " +
                     std::to_string(list_padding);
  if (has_layouts) text += ", layouts";
  if (has_forms) text += ", forms";
  if (has_config_graphs) text += ", a graph per configuration";
  if (config_columns > 0) {
    text += ", " + std::to_string(config_columns) + " values per configuration";
  }
  return text;
}

LabeledGraph open_graph(const std::filesystem::path& path) {
  const graph::GraphFile file = graph::graph_file(path);
  std::shared_ptr<CachedGraph> graph;
  if (path.extension() == graph::kGraphCacheEnding) {
    graph = std::make_shared<CachedGraph>(path);
  } else {
    const TemporaryName compact(path);
    graph::transcode_graph(path, compact.path);
    graph = std::make_shared<CachedGraph>(compact.path);
  }
  graph->id = file.id();
  graph->path = path.string();
  if (graph->num_configs == 0) {
    throw FormatError(graph->path, "", "has no configurations that a model could rank");
  }
  LabeledGraph result{.data = graph};
  if (graph->cache.has_labels()) result.labels = labels_of(graph->cache);
  return result;
}

std::shared_ptr<const GraphData> view_graph(const rank::ConfiguredGraph& graph) {
  return std::make_shared<ViewedGraph>(graph);
}

void require_format(const GraphData& graph, const FeatureFormat& expected) {
  if (graph.format == expected) return;
  throw FormatError(
      graph.path, "",
      "is of " + graph.format.to_string() + ", the model was trained on " + expected.to_string());
}

}  // namespace lagom::cost_model

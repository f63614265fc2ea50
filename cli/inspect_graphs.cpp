#include "cli/inspect_graphs.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "lagom/graph/audit.h"
#include "lagom/graph/collection.h"
#include "lagom/graph/column_statistics.h"
#include "lagom/util/error.h"

namespace lagom::cli {
namespace {

using graph::GraphAudit;
using graph::GraphCache;
using graph::GraphFile;
using nlohmann::ordered_json;

ordered_json to_json(const GraphAudit& audit) {
  return {{"configs", audit.rows},
          {"distinct", audit.distinct},
          {"fastest", audit.fastest},
          {"slowest", audit.slowest},
          {"repeated", audit.noise.repeated_groups},
          {"noise", audit.noise.relative_deviation},
          {"largest_repeat_spread", audit.noise.largest_spread},
          {"drift", audit.drift},
          {"gap", audit.gap},
          {"block_z", audit.block_z},
          {"findings", audit.findings}};
}

ordered_json to_json(const graph::ColumnStatistics& statistics,
                     const std::vector<std::string>& names) {
  ordered_json columns = ordered_json::array();
  const std::vector<double> deviation = statistics.deviation();
  for (size_t c = 0; c < names.size(); ++c) {
    columns.push_back({{"name", names[c]},
                       {"min", statistics.min()[c]},
                       {"max", statistics.max()[c]},
                       {"mean", statistics.mean()[c]},
                       {"deviation", deviation[c]}});
  }
  return columns;
}

ordered_json statistics_json(const std::vector<GraphFile>& training) {
  const graph::FeatureStatistics s = graph::feature_statistics(training);
  const auto& config_names = s.configs.num_columns() == graph::kTileConfigFeatures
                                 ? graph::tile_config_feature_names()
                                 : graph::layout_config_feature_names();
  return {{"collection", training.front().place.collection},
          {"graphs", s.graphs},
          {"feature_version", s.feature_version},
          {"list_padding", s.list_padding},
          {"nodes", s.nodes.rows()},
          {"node_feat", to_json(s.nodes, graph::node_feature_names(s.feature_version))},
          {"config_rows", s.configs.rows()},
          {"config_feat", to_json(s.configs, config_names)}};
}

/// Of the graphs of one collection and split.
struct SplitCounts {
  int64_t graphs = 0, nodes = 0, configs = 0, unlabelled = 0;
  std::set<std::string> programs;
};

using Counts = std::map<std::pair<std::string, std::string>, SplitCounts>;

SplitCounts& count(Counts& counts, const GraphFile& file, int64_t nodes, int64_t configs) {
  SplitCounts& split = counts[{file.place.collection, file.place.split}];
  ++split.graphs;
  split.nodes += nodes;
  split.configs += configs;
  split.programs.insert(file.program());
  return split;
}

ordered_json to_json(const Counts& counts) {
  ordered_json splits = ordered_json::array();
  for (const auto& [place, split] : counts) {
    splits.push_back({{"collection", place.first},
                      {"split", place.second},
                      {"graphs", split.graphs},
                      {"programs", split.programs.size()},
                      {"nodes", split.nodes},
                      {"configs", split.configs},
                      {"without_labels", split.unlabelled}});
  }
  return splits;
}

/// By the headers of the arrays: the data set's own files are large.
ordered_json inspect_npz_folder(const std::string& path, const GraphInspectOptions& options) {
  if (options.audit || options.stats) {
    throw FormatError(path, "", "there are no .graph files in it: lagom convert " + path + " OUT");
  }
  Counts counts;
  const auto length = [](const formats::NpzReader& npz, const char* name) {
    const auto& shape = npz.header(name).shape;
    return shape.empty() ? 0 : shape[0];
  };
  for (const GraphFile& file : graph::list_graphs(path, ".npz")) {
    const formats::NpzReader npz(file.path);
    const bool is_measured = npz.contains("config_runtime");
    count(counts, file, length(npz, "node_opcode"),
          is_measured ? length(npz, "config_runtime") : 0);
  }
  if (counts.empty()) throw SystemError(path + ": there are no .graph and no .npz files in it");
  return {{"file", path}, {"kind", "folder of npz"}, {"splits", to_json(counts)}};
}

void print_audit(const ordered_json& audit, const char* indent) {
  std::printf("%s%ld configurations, %ld distinct", indent, audit["configs"].get<long>(),
              audit["distinct"].get<long>());
  if (audit["repeated"].get<long>() > 0) {
    std::printf(", noise of repeats %.4f %%, at most %.3f %%", 100 * audit["noise"].get<double>(),
                100 * audit["largest_repeat_spread"].get<double>());
  }
  std::printf("\n");
  for (const auto& finding : audit["findings"]) {
    std::printf("%s  suspicious: %s\n", indent, finding.get<std::string>().c_str());
  }
}

void print_statistics(const ordered_json& statistics) {
  std::printf("  %s, training columns over %ld nodes and %ld rows of configurations:\n",
              statistics["collection"].get<std::string>().c_str(), statistics["nodes"].get<long>(),
              statistics["config_rows"].get<long>());
  for (const char* kind : {"node_feat", "config_feat"}) {
    int constant = 0;
    for (const auto& column : statistics[kind]) {
      if (column["min"] == column["max"]) {
        ++constant;
        continue;
      }
      std::printf("    %-34s min %-11.6g max %-11.6g mean %-11.6g deviation %.6g\n",
                  column["name"].get<std::string>().c_str(), column["min"].get<double>(),
                  column["max"].get<double>(), column["mean"].get<double>(),
                  column["deviation"].get<double>());
    }
    std::printf("    %s: %zu columns, %d of them constant\n", kind, statistics[kind].size(),
                constant);
  }
}

}  // namespace

bool is_graph_file(const std::string& path) {
  std::string bytes(8, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return formats::is_array_file(bytes);
}

ordered_json inspect_graph(const std::string& path, const GraphInspectOptions& options) {
  const GraphCache cache(path);
  cache.verify();
  const GraphFile file = graph::graph_file(path);
  ordered_json j = {{"file", path},
                    {"kind", "graph"},
                    {"id", file.id()},
                    {"split", file.place.split},
                    {"measured", graph::graph_kind_name(cache.kind())},
                    {"feature_version", cache.feature_version()},
                    {"list_padding", cache.list_padding()},
                    {"nodes", cache.num_nodes()},
                    {"edges", cache.num_edges()},
                    {"duplicate_edges", graph::count_duplicate_edges(cache.edge_index())},
                    {"configs", cache.num_configs()},
                    {"config_nodes", cache.num_config_nodes()},
                    {"layouts", cache.num_layouts()},
                    {"has_labels", cache.has_labels()},
                    {"is_on_deny_list", graph::is_denied(file)}};
  if (options.audit) j["audit"] = to_json(graph::audit_graph(cache));
  return j;
}

ordered_json inspect_graph_folder(const std::string& path, const GraphInspectOptions& options) {
  const std::vector<GraphFile> files = graph::list_graphs(path, graph::kGraphCacheEnding);
  if (files.empty()) return inspect_npz_folder(path, options);
  Counts counts;
  ordered_json audits = ordered_json::array(), statistics = ordered_json::array();
  for (const GraphFile& file : files) {
    const GraphCache cache(file.path);
    SplitCounts& split = count(counts, file, cache.num_nodes(), cache.num_configs());
    split.unlabelled += !cache.has_labels();
    if (!options.audit) continue;
    audits.push_back({{"id", file.id()}, {"is_on_deny_list", graph::is_denied(file)}});
    audits.back().update(to_json(graph::audit_graph(cache)));
  }
  ordered_json j = {{"file", path}, {"kind", "folder of graphs"}, {"splits", to_json(counts)}};
  if (options.audit) j["audit"] = std::move(audits);
  if (!options.stats) return j;
  for (const auto& [place, split] : counts) {
    if (place.second != "train") continue;
    statistics.push_back(statistics_json(graph::select_graphs(files, place.first, place.second)));
  }
  j["statistics"] = std::move(statistics);
  return j;
}

void print_graph(const ordered_json& j) {
  std::printf("%s: graph, feature set v%d%s\n", j["file"].get<std::string>().c_str(),
              j["feature_version"].get<int>(),
              j["list_padding"].get<int>() == 0 ? "" : " padded with -1");
  std::printf("  %ld nodes, %ld edges", j["nodes"].get<long>(), j["edges"].get<long>());
  if (j["duplicate_edges"].get<long>() > 0) {
    std::printf(" (%ld stand twice)", j["duplicate_edges"].get<long>());
  }
  const std::string measured = j["measured"].get<std::string>();
  if (measured != "graph") {
    std::printf(", %ld %s configurations", j["configs"].get<long>(), measured.c_str());
  }
  if (measured == "layout") {
    std::printf(" of %ld nodes with %ld different layouts", j["config_nodes"].get<long>(),
                j["layouts"].get<long>());
  }
  std::printf("\n");
  if (measured != "graph" && !j["has_labels"].get<bool>()) {
    std::printf("  without labels: the runtimes are zeros\n");
  }
  if (j["is_on_deny_list"].get<bool>()) std::printf("  on the deny list\n");
  if (j.contains("audit")) print_audit(j["audit"], "  ");
}

void print_graph_folder(const ordered_json& j) {
  std::printf("%s: %s\n", j["file"].get<std::string>().c_str(),
              j["kind"].get<std::string>().c_str());
  for (const auto& split : j["splits"]) {
    const std::string collection = split["collection"].get<std::string>();
    std::printf("  %-20s %-6s %6ld graphs of %ld programs, %ld nodes, %ld configurations",
                collection.empty() ? "no collection" : collection.c_str(),
                split["split"].get<std::string>().c_str(), split["graphs"].get<long>(),
                split["programs"].get<long>(), split["nodes"].get<long>(),
                split["configs"].get<long>());
    if (split["without_labels"].get<long>() > 0) {
      std::printf(", %ld without labels", split["without_labels"].get<long>());
    }
    std::printf("\n");
  }
  if (j.contains("audit")) {
    for (const auto& audit : j["audit"]) {
      std::printf("  %s%s\n", audit["id"].get<std::string>().c_str(),
                  audit["is_on_deny_list"].get<bool>() ? " (on the deny list)" : "");
      print_audit(audit, "    ");
    }
  }
  if (j.contains("statistics")) {
    for (const auto& statistics : j["statistics"]) print_statistics(statistics);
  }
}

}  // namespace lagom::cli

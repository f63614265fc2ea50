#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "lagom/graph/collection.h"
#include "lagom/graph/graph_cache.h"
#include "lagom/graph/layout_dictionary.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "lagom/util/hash.h"

namespace lagom::graph {
namespace {

namespace fs = std::filesystem;
using formats::ArrayFileWriter;
using formats::NpzReader;

struct TooManyLayouts {};

/// Writes the rows' codes as they come. Throws TooManyLayouts when a Code cannot hold one.
template <typename Code>
void write_layouts(const NpzReader& npz, const MeasuredGraph& measured, ArrayFileWriter& out) {
  out.begin("node_config_codes", formats::primitive_type_of<Code>(),
            {measured.num_configs(), measured.num_config_nodes()});
  LayoutDictionary dictionary;
  std::vector<Code> codes;
  for_each_layout_rows(npz, [&](std::span<const int8_t> rows) {
    codes.clear();
    for (size_t i = 0; i < rows.size(); i += kLayoutConfigFeatures) {
      codes.push_back(static_cast<Code>(dictionary.code(rows.data() + i)));
    }
    if (dictionary.size() > uint64_t{1} << (8 * sizeof(Code))) throw TooManyLayouts();
    out.append(std::span<const Code>(codes));
  });
  out.add("node_config_layouts", {dictionary.size(), kLayoutConfigFeatures}, dictionary.values());
}

void write_extra(const NpzReader& npz, const std::string& name, ArrayFileWriter& out) {
  constexpr int64_t kPieceBytes = int64_t{8} << 20;
  const formats::NpyHeader header = npz.header(name);
  try {
    out.begin(name, header.element_type, header.shape);
  } catch (const std::invalid_argument& e) {
    throw FormatError(npz.path(), name, e.what());
  }
  if (header.shape.empty() || header.is_fortran_order) {
    out.append(std::span<const char>(npz.read(name).data));
    return;
  }
  NpzReader::Rows rows = npz.rows(name);
  const int64_t row_bytes =
      static_cast<int64_t>(header.data_bytes()) / std::max<int64_t>(rows.num_rows(), 1);
  const int64_t rows_at_once = std::max<int64_t>(kPieceBytes / std::max<int64_t>(row_bytes, 1), 1);
  for (int64_t row = 0; row < rows.num_rows(); row += rows_at_once) {
    out.append(std::span<const char>(rows.next(rows_at_once).data));
  }
}

template <typename Code>
void write_cache(const NpzReader& npz, const MeasuredGraph& measured, const fs::path& path) {
  const OpGraph& graph = measured.graph;
  const auto count = [](const auto& values) { return static_cast<int64_t>(values.size()); };
  ArrayFileWriter out(path);
  out.add<int32_t>("graph_cache", {}, {1});
  out.add<int32_t>("feature_version", {}, {graph.feature_version});
  out.add<int32_t>("list_padding", {}, {graph.list_padding});
  out.add<uint64_t>("source", {}, {npz.fingerprint()});
  out.add("node_opcode", {graph.num_nodes()}, graph.node_opcode);
  out.add("node_feat", {graph.num_nodes(), num_node_features(graph.feature_version)},
          graph.node_feat);
  out.add("edge_index", {graph.num_edges(), 2}, graph.edge_index);
  out.add("node_splits", {count(graph.node_splits)}, graph.node_splits);
  if (measured.kind != GraphKind::kGraph) {
    out.add("config_runtime", {measured.num_configs()}, measured.config_runtime);
    if (!measured.config_runtime_normalizers.empty()) {
      out.add("config_runtime_normalizers", {measured.num_configs()},
              measured.config_runtime_normalizers);
    }
  }
  if (measured.kind == GraphKind::kTile) {
    out.add("config_feat", {measured.num_configs(), kTileConfigFeatures}, measured.config_feat);
  } else if (measured.kind == GraphKind::kLayout) {
    out.add("node_config_ids", {measured.num_config_nodes()}, measured.node_config_ids);
    write_layouts<Code>(npz, measured, out);
  }
  for (const std::string& name : extra_arrays(npz)) write_extra(npz, name, out);
  out.finish();
}

/// True when `out` is whole and comes from an npz of these contents.
bool is_up_to_date(const NpzReader& npz, const fs::path& out) {
  std::error_code ec;
  if (!fs::exists(out, ec)) return false;
  try {
    return GraphCache(out).source() == npz.fingerprint();
  } catch (const FormatError&) {
    return false;  // of another version, or damaged: made anew
  }
}

std::string index_line(const fs::path& relative, const GraphPlace& place, const GraphCache& cache) {
  return nlohmann::ordered_json{{"file", relative.generic_string()},
                                {"kind", graph_kind_name(cache.kind())},
                                {"collection", place.collection},
                                {"split", place.split},
                                {"feature_version", cache.feature_version()},
                                {"nodes", cache.num_nodes()},
                                {"edges", cache.num_edges()},
                                {"configs", cache.num_configs()},
                                {"config_nodes", cache.num_config_nodes()},
                                {"layouts", cache.num_layouts()},
                                {"has_labels", cache.has_labels()},
                                {"source", hex64(cache.source())}}
             .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

}  // namespace

void transcode_graph(const fs::path& npz_path, const fs::path& out) {
  const NpzReader npz(npz_path);
  const MeasuredGraph measured = read_measured_graph(npz);
  try {
    write_cache<uint16_t>(npz, measured, out);
  } catch (const TooManyLayouts&) {
    write_cache<uint32_t>(npz, measured, out);
  }
}

TranscodeReport transcode_folder(const fs::path& folder, const fs::path& out,
                                 const TranscodeProgress& progress) {
  TranscodeReport report;
  std::string index;
  const std::vector<GraphFile> files = list_graphs(folder, ".npz");
  if (files.empty()) throw SystemError(folder.string() + ": there is no npz in it");
  for (size_t i = 0; i < files.size(); ++i) {
    const fs::path& source = files[i].path;
    if (progress && !progress(i, files.size(), source.string())) {
      report.was_stopped = true;
      break;
    }
    const fs::path relative = fs::relative(source, folder).replace_extension(kGraphCacheEnding);
    try {
      const bool is_done = is_up_to_date(NpzReader(source), out / relative);
      if (!is_done) transcode_graph(source, out / relative);
      ++(is_done ? report.up_to_date : report.written);
      index += index_line(relative, files[i].place, GraphCache(out / relative));
    } catch (const FormatError& e) {
      report.failures.emplace_back(e.what());
      // What an earlier npz of that name gave is no longer its form.
      std::error_code ec;
      fs::remove(out / relative, ec);
    }
  }
  write_file(out / "index.jsonl", index);
  return report;
}

}  // namespace lagom::graph

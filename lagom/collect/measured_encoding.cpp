#include "lagom/collect/measured_encoding.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "lagom/collect/kernel_descriptions.h"
#include "lagom/collect/rewritten_graphs.h"
#include "lagom/formats/npz.h"
#include "lagom/graph/dataset_file.h"
#include "lagom/hlo/edit.h"
#include "lagom/hlo/module_file.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/text_writer.h"
#include "lagom/tune/results.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"

namespace lagom::collect {
namespace {

namespace fs = std::filesystem;
using formats::Array;
using formats::NpzReader;
using formats::NpzWriter;
using json = nlohmann::ordered_json;
using rewrite::Configuration;

constexpr std::string_view kEncodings[] = {"decisions", "rewritten"};

/// Arrays that a graph of another feature version has anew.
bool describes_nodes(std::string_view name) {
  static const std::set<std::string_view> kNames = {
      "node_opcode",     "node_feat",    "edge_index",   "node_splits",
      "feature_version", "list_padding", "node_feat_v2", "node_opcode_v2"};
  return kNames.contains(name);
}

void add_rewritten(NpzWriter& writer, const hlo::Module& module,
                   const std::vector<Configuration>& configurations,
                   const graph::OpGraphOptions& options) {
  const RewrittenGraphs graphs = make_rewritten_graphs(module, configurations, options);
  const auto configs = static_cast<int64_t>(configurations.size());
  graph::add_graph(writer, graphs.graph);
  writer.add("node_config_ids", Array::of<int64_t>({0}, {}));
  writer.add("node_config_feat", Array::of<float>({configs, 0, graph::kLayoutConfigFeatures}, {}));
  writer.add("graph_splits", Array::of<int64_t>({static_cast<int64_t>(graphs.graph_splits.size())},
                                                graphs.graph_splits));
  writer.add("config_graph", Array::of<int32_t>({configs}, graphs.config_graph));
}

bool has_form(const Configuration& configuration, const std::string& rule) {
  return std::any_of(configuration.decisions.begin(), configuration.decisions.end(),
                     [&](const rewrite::Decision& decision) {
                       return decision.kind == rewrite::DecisionKind::kForm &&
                              decision.form == rule;
                     });
}

/// Some rows of an array that has one per configuration.
Array select_rows(const Array& array, const std::vector<size_t>& rows, size_t all) {
  Array selected{.element_type = array.element_type, .shape = array.shape, .data = {}};
  selected.shape.at(0) = static_cast<int64_t>(rows.size());
  const size_t row_bytes = array.data.size() / std::max<size_t>(all, 1);
  for (const size_t row : rows) {
    const auto begin = array.data.begin() + static_cast<std::ptrdiff_t>(row * row_bytes);
    selected.data.insert(selected.data.end(), begin,
                         begin + static_cast<std::ptrdiff_t>(row_bytes));
  }
  return selected;
}

/// HLO files by the names of their programs.
using ProgramFiles = std::map<std::string, fs::path>;
ProgramFiles program_files(const fs::path& folder) {
  ProgramFiles files;
  if (folder.empty()) return files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    files.emplace(tune::program_name(entry.path()), entry.path());
  }
  if (error) throw SystemError(folder.string() + ": cannot be read: " + error.message());
  return files;
}

/// A kernel's module, or that of a whole program, whose text is added.
hlo::Module module_of(json& j, const std::string& path, const ProgramFiles& programs) {
  if (j.contains("hlo")) return hlo::read_hlo_text(j["hlo"].get<std::string>(), path);
  const std::string name = j.at("programs").at(0).get<std::string>();
  const auto found = programs.find(name);
  if (found == programs.end()) {
    throw FormatError(path, "programs", "there is no HLO of the program '" + name + "'");
  }
  hlo::Module module = std::move(hlo::read_module_files(found->second).front());
  hlo::make_rerunnable(module);
  j["hlo"] = hlo::write_hlo_text(module);
  return module;
}

/// False for a kernel that is left out.
bool encode_file(const fs::path& stem, json j, const fs::path& out, const ProgramFiles& programs,
                 const EncodingOptions& options) {
  const std::string path = stem.string() + ".json";
  const hlo::Module module = module_of(j, path, programs);
  std::vector<Configuration> configurations;
  std::vector<size_t> rows;
  json kept = json::array();
  const json& texts = j.at("configurations");
  for (size_t row = 0; row < texts.size(); ++row) {
    auto configuration = Configuration::from_string(texts[row].get<std::string>(), path);
    if (!options.without_form.empty() && has_form(configuration, options.without_form)) continue;
    configurations.push_back(std::move(configuration));
    rows.push_back(row);
    kept.push_back(texts[row]);
  }
  const size_t all = texts.size();
  const NpzReader arrays(stem.string() + ".npz");
  if (arrays.header("config_runtime").shape != std::vector<int64_t>{static_cast<int64_t>(all)}) {
    throw FormatError(path, "configurations", "are not as many as the npz has rows");
  }
  if (rows.size() < all && rows.size() < 2) return false;
  fs::create_directories(out.parent_path());
  NpzWriter writer(out.string() + ".npz");
  const bool rewrites = options.encoding == Encoding::kRewritten;
  if (rewrites) {
    add_rewritten(writer, module, configurations, options.graph);
  } else {
    graph::add_graph(writer, graph::make_op_graph(module, options.graph));
  }
  for (const std::string& name : arrays.names()) {
    if (describes_nodes(name) || (rewrites && name.starts_with("node_config_"))) continue;
    const Array array = arrays.read(name);
    writer.add(name, name == "node_config_ids" ? array : select_rows(array, rows, all));
  }
  j["configurations"] = std::move(kept);
  write_file(out.string() + ".json", j.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
  writer.finish();
  return true;
}

}  // namespace

std::span<const std::string_view> option_names(Encoding) {
  return kEncodings;
}

int64_t encode_measured(const fs::path& folder, const fs::path& out, const EncodingOptions& options,
                        const std::function<bool(const fs::path&)>& progress) {
  int64_t count = 0;
  const ProgramFiles programs = program_files(options.programs);
  const bool is_done = for_each_kernel_description(
      folder, progress,
      [&](const fs::path& path, json j) {
        const fs::path stem = fs::path(path).replace_extension();
        try {
          count +=
              encode_file(stem, std::move(j), out / fs::relative(stem, folder), programs, options);
        } catch (const std::invalid_argument& e) {
          throw FormatError(path.string(), "configurations", e.what());
        }
      },
      /*with_programs=*/!options.programs.empty());
  if (is_done && count == 0) throw_no_kernels(folder);
  return count;
}

}  // namespace lagom::collect

#include "lagom/graph/collection.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "lagom/util/error.h"
#include "lagom/util/file.h"

namespace lagom::graph {
namespace {

namespace fs = std::filesystem;

/// "layout:xla:random" as the folders layout, xla, random.
std::vector<std::string> folders_of(std::string_view collection) {
  std::vector<std::string> folders(1);
  for (const char c : collection) {
    if (c == ':') {
      folders.emplace_back();
    } else {
      folders.back() += c;
    }
  }
  return folders;
}

}  // namespace

const std::vector<std::string>& all_collections() {
  static const std::vector<std::string> kNames = {"tile:xla", "layout:xla:random",
                                                  "layout:xla:default", "layout:nlp:random",
                                                  "layout:nlp:default"};
  return kNames;
}

const std::vector<std::string>& all_splits() {
  static const std::vector<std::string> kNames = {"train", "valid", "test"};
  return kNames;
}

GraphPlace graph_place(const fs::path& file) {
  std::vector<std::string> folders;
  for (const fs::path& part : file.parent_path().lexically_normal()) {
    folders.push_back(part.string());
  }
  const auto& splits = all_splits();
  if (folders.empty() || std::find(splits.begin(), splits.end(), folders.back()) == splits.end()) {
    return {};
  }
  const std::string split = folders.back();
  folders.pop_back();
  for (const std::string& collection : all_collections()) {
    const std::vector<std::string> expected = folders_of(collection);
    if (folders.size() >= expected.size() &&
        std::equal(expected.rbegin(), expected.rend(), folders.rbegin())) {
      return {.collection = collection, .split = split};
    }
  }
  return {};
}

GraphFile graph_file(const fs::path& path) {
  return {.path = path, .place = graph_place(path), .stem = path.stem().string()};
}

std::string GraphFile::program() const {
  return place.collection.starts_with("tile") ? stem.substr(0, stem.rfind('_')) : stem;
}

std::string GraphFile::id() const {
  return place.collection.empty() ? stem : place.collection + ":" + stem;
}

std::vector<GraphFile> list_graphs(const fs::path& folder, std::string_view ending) {
  std::vector<GraphFile> files;
  try {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file() && entry.path().extension() == ending) {
        files.push_back(graph_file(entry.path()));
      }
    }
  } catch (const fs::filesystem_error& e) {
    throw SystemError(folder.string() + ": cannot be listed: " + e.code().message());
  }
  std::sort(files.begin(), files.end(),
            [](const GraphFile& a, const GraphFile& b) { return a.path < b.path; });
  return files;
}

std::vector<GraphFile> select_graphs(const std::vector<GraphFile>& files,
                                     std::string_view collection, std::string_view split) {
  std::vector<GraphFile> selected;
  std::copy_if(files.begin(), files.end(), std::back_inserter(selected),
               [&](const GraphFile& file) {
                 return file.place.collection == collection && file.place.split == split;
               });
  return selected;
}

EvalIndices read_eval_indices(const fs::path& json) {
  EvalIndices indices;
  try {
    const auto parsed = nlohmann::json::parse(read_file(json));
    if (!parsed.is_object()) throw FormatError(json.string(), "", "expected an object");
    for (const auto& [stem, rows] : parsed.items()) {
      std::vector<int64_t>& list = indices[stem];
      for (const auto& row : rows) {
        if (!row.is_number_unsigned()) {
          throw FormatError(json.string(), stem,
                            "row " + row.dump() + ", expected a whole number of 0 or more");
        }
        list.push_back(row.get<int64_t>());
      }
    }
  } catch (const nlohmann::json::exception& e) {
    throw FormatError(json.string(), "", e.what());
  }
  return indices;
}

const std::vector<int64_t>& eval_rows(const EvalIndices& indices, const std::string& stem,
                                      int64_t num_configs, std::string_view path) {
  const auto it = indices.find(stem);
  if (it == indices.end()) throw std::invalid_argument("no rows to evaluate for '" + stem + "'");
  for (const int64_t row : it->second) {
    if (row >= 0 && row < num_configs) continue;
    throw FormatError(path, stem,
                      "row " + std::to_string(row) + ", the graph has " +
                          std::to_string(num_configs) + " configurations");
  }
  return it->second;
}

const std::vector<DeniedGraph>& denied_graphs() {
  static const std::vector<DeniedGraph> kGraphs = {
      {"layout:xla", "unet_3d.4x4.bf16", "2nd place: runtimes jump in blocks of rows"},
      {"layout:xla:default", "mlperf_bert_batch_24_2x2", "2nd place: left out of validation"},
      {"layout:xla", "magenta_dynamic", "2nd place: runtimes of more than one program"},
  };
  return kGraphs;
}

bool is_denied(const GraphFile& file) {
  const auto& graphs = denied_graphs();
  return std::any_of(graphs.begin(), graphs.end(), [&](const DeniedGraph& denied) {
    return file.place.collection.starts_with(denied.collection) &&
           file.stem.starts_with(denied.stem);
  });
}

}  // namespace lagom::graph

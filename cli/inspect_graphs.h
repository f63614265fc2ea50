#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lagom::cli {

struct GraphInspectOptions {
  bool stats = false;  ///< Folders: least, largest, mean and deviation of the training columns.
  bool audit = false;  ///< Repeats, noise and what is suspicious, per graph.
};

/// True for an array file that `lagom convert` wrote, by its first bytes.
bool is_graph_file(const std::string& path);

/// Of one compact graph; everything in it is compared with its checksums.
nlohmann::ordered_json inspect_graph(const std::string& path, const GraphInspectOptions& options);
/// Of a folder of compact graphs, per collection and split; of one that has only npz, counts alone.
nlohmann::ordered_json inspect_graph_folder(const std::string& path,
                                            const GraphInspectOptions& options);

// The same for people.
void print_graph(const nlohmann::ordered_json& inspection);
void print_graph_folder(const nlohmann::ordered_json& inspection);

}  // namespace lagom::cli

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// Where the files of TpuGraphs lie and what their names mean.
///
/// A *collection* is one of "tile:xla", "layout:xla:random", "layout:xla:default",
/// "layout:nlp:random", "layout:nlp:default": folders tile/xla, layout/xla/random... below a root,
/// each with the folders of its official splits train, valid and test. A *stem* is a file's name
/// without its last ending (stems have dots in them); a *program* may have many stems in a tile
/// collection and has one in a layout collection.
namespace lagom::graph {

const std::vector<std::string>& all_collections();
const std::vector<std::string>& all_splits();  ///< "train", "valid", "test".

/// Of one file; both are empty for a file that lies elsewhere.
struct GraphPlace {
  std::string collection, split;
};
/// By the last folders of the path.
GraphPlace graph_place(const std::filesystem::path& file);

struct GraphFile {
  std::filesystem::path path;
  GraphPlace place;
  std::string stem;

  /// The program it belongs to: of a tile's stem what stands before the last '_'.
  std::string program() const;
  /// "layout:xla:random:STEM", as submissions have it; the stem alone for a file that lies
  /// elsewhere.
  std::string id() const;
};
GraphFile graph_file(const std::filesystem::path& path);

/// All files of that ending (".npz", ".graph") in the folder and below, sorted by path. Throws
/// SystemError when it cannot be read.
std::vector<GraphFile> list_graphs(const std::filesystem::path& folder, std::string_view ending);
/// Those of one collection and split.
std::vector<GraphFile> select_graphs(const std::vector<GraphFile>& files,
                                     std::string_view collection, std::string_view split);

/// The configurations that the paper scores of each validation graph: stem to rows. Rows may stand
/// more than once and count as often. Throws SystemError and FormatError.
using EvalIndices = std::map<std::string, std::vector<int64_t>>;
EvalIndices read_eval_indices(const std::filesystem::path& json);
/// The rows of a stem that has `num_configs` configurations. Throws FormatError, naming `path`,
/// when one is past their end, std::invalid_argument when the stem has none.
const std::vector<int64_t>& eval_rows(const EvalIndices& indices, const std::string& stem,
                                      int64_t num_configs, std::string_view path);

/// Graphs that participants of the competition found broken: runtimes that cannot come from one
/// program. Nothing leaves them out by itself.
struct DeniedGraph {
  std::string_view collection;  ///< A prefix: "layout:xla" is both of its collections.
  std::string_view stem;        ///< A prefix, too.
  std::string_view why;
};
const std::vector<DeniedGraph>& denied_graphs();
bool is_denied(const GraphFile& file);

}  // namespace lagom::graph

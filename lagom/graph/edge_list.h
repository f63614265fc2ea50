#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Graphs to classify as a whole, in the form of MalNet (Freitas et al. 2021, arXiv 2011.07682):
/// a file of edges per graph, below folders that say what it is: ROOT/TYPE/FAMILY/NAME.edgelist.
namespace lagom::graph {

struct EdgeListGraph {
  int64_t num_nodes = 0;
  std::vector<int64_t> edge_index;  ///< [m, 2]: from, to.
};

/// A line per edge, two numbers from 0 with white space between; empty lines and those that begin
/// with '#' are passed over. Nodes are numbered anew by the order of their numbers, so that there
/// is none without an edge; a file without edges is a graph of one node. Throws SystemError, and
/// FormatError with the line.
EdgeListGraph read_edge_list(const std::filesystem::path& path);
void write_edge_list(const std::filesystem::path& path, const EdgeListGraph& graph,
                     std::string_view comment);

struct LabeledEdgeList {
  std::filesystem::path path;
  std::string label;
};
/// All .edgelist files below the folder, sorted by path. The label is the name of the folder at
/// `label_depth` below the root: 1 is MalNet's type, 2 its family. Throws SystemError, and
/// FormatError for a file that lies less deep and for a folder without any.
std::vector<LabeledEdgeList> list_edge_lists(const std::filesystem::path& root,
                                             int64_t label_depth);

inline constexpr int64_t kDegreeFeatures = 5;
/// Local degree profile (Cai & Wang 2018, arXiv 1811.03508): of each node its degree and the least,
/// largest, mean and standard deviation of its neighbours' degrees; directions, repeats and edges
/// from a node to itself do not count. [n, 5]; zeros for a node without neighbours.
std::vector<float> local_degree_profile(int64_t num_nodes, std::span<const int64_t> edge_index);

}  // namespace lagom::graph

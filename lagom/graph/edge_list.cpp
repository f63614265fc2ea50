#include "lagom/graph/edge_list.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

#include "lagom/util/error.h"
#include "lagom/util/file.h"

namespace lagom::graph {
namespace {

constexpr const char* kEnding = ".edgelist";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const size_t first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos ? "" : text.substr(first);
}

/// The number that the text begins with, which is taken off it.
int64_t take_number(std::string_view& text, const std::filesystem::path& path, int64_t line) {
  text = trimmed(text);
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) {
    throw FormatError(
        path.string(), "line " + std::to_string(line),
        "expected two numbers from 0, found '" + std::string(text.substr(0, 40)) + "'");
  }
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

/// Neighbours of node i, each once: neighbours[begin[i]...begin[i + 1]).
struct Neighbours {
  std::vector<int64_t> begin;
  std::vector<int64_t> nodes;
};

Neighbours neighbours_of(int64_t num_nodes, std::span<const int64_t> edges) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  pairs.reserve(edges.size());
  for (size_t e = 0; e + 1 < edges.size(); e += 2) {
    if (edges[e] == edges[e + 1]) continue;
    pairs.emplace_back(edges[e], edges[e + 1]);
    pairs.emplace_back(edges[e + 1], edges[e]);
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  Neighbours out{.begin = std::vector<int64_t>(static_cast<size_t>(num_nodes) + 1, 0), .nodes = {}};
  out.nodes.reserve(pairs.size());
  for (const auto& [from, to] : pairs) {
    ++out.begin[static_cast<size_t>(from) + 1];
    out.nodes.push_back(to);
  }
  std::partial_sum(out.begin.begin(), out.begin.end(), out.begin.begin());
  return out;
}

}  // namespace

EdgeListGraph read_edge_list(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  std::vector<int64_t> ends;
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = trimmed(std::string_view(text).substr(at, end - at));
    at = end + 1;
    ++number;
    if (line.empty() || line.front() == '#') continue;
    ends.push_back(take_number(line, path, number));
    ends.push_back(take_number(line, path, number));
    if (!trimmed(line).empty()) {
      throw FormatError(path.string(), "line " + std::to_string(number),
                        "expected two numbers, found more");
    }
  }
  std::vector<int64_t> names = ends;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (int64_t& end : ends) {
    end = std::lower_bound(names.begin(), names.end(), end) - names.begin();
  }
  return {.num_nodes = std::max<int64_t>(1, std::ssize(names)), .edge_index = std::move(ends)};
}

void write_edge_list(const std::filesystem::path& path, const EdgeListGraph& graph,
                     std::string_view comment) {
  std::string text = "# " + std::string(comment) + "\n# Nodes: " + std::to_string(graph.num_nodes) +
                     " Edges: " + std::to_string(graph.edge_index.size() / 2) + "\n";
  for (size_t e = 0; e + 1 < graph.edge_index.size(); e += 2) {
    text +=
        std::to_string(graph.edge_index[e]) + " " + std::to_string(graph.edge_index[e + 1]) + "\n";
  }
  write_file(path, text);
}

std::vector<LabeledEdgeList> list_edge_lists(const std::filesystem::path& root,
                                             int64_t label_depth) {
  std::vector<LabeledEdgeList> files;
  try {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.path().extension() != kEnding) continue;
      const std::filesystem::path below = std::filesystem::relative(entry.path(), root);
      if (std::distance(below.begin(), below.end()) <= label_depth) {
        throw FormatError(entry.path().string(), "",
                          "expected " + std::to_string(label_depth) + " folders between it and " +
                              root.string() + ", the last of which is its label");
      }
      files.push_back(
          {.path = entry.path(), .label = std::next(below.begin(), label_depth - 1)->string()});
    }
  } catch (const std::filesystem::filesystem_error& error) {
    throw SystemError(error.what());
  }
  if (files.empty()) throw FormatError(root.string(), "", "has no .edgelist files below it");
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

std::vector<float> local_degree_profile(int64_t num_nodes, std::span<const int64_t> edge_index) {
  const Neighbours all = neighbours_of(num_nodes, edge_index);
  const auto degree = [&](int64_t node) {
    const auto at = static_cast<size_t>(node);
    return static_cast<double>(all.begin[at + 1] - all.begin[at]);
  };
  std::vector<float> features(static_cast<size_t>(num_nodes * kDegreeFeatures), 0);
  for (int64_t node = 0; node < num_nodes; ++node) {
    const auto i = static_cast<size_t>(node);
    if (all.begin[i] == all.begin[i + 1]) continue;
    double least = degree(all.nodes[static_cast<size_t>(all.begin[i])]), largest = least;
    double sum = 0, squares = 0;
    for (int64_t k = all.begin[i]; k < all.begin[i + 1]; ++k) {
      const double d = degree(all.nodes[static_cast<size_t>(k)]);
      least = std::min(least, d);
      largest = std::max(largest, d);
      sum += d;
      squares += d * d;
    }
    const double mean = sum / degree(node);
    const double variance = std::max(0.0, squares / degree(node) - mean * mean);
    const double values[] = {degree(node), least, largest, mean, std::sqrt(variance)};
    std::transform(std::begin(values), std::end(values),
                   features.begin() + static_cast<std::ptrdiff_t>(i * kDegreeFeatures),
                   [](double value) { return static_cast<float>(value); });
  }
  return features;
}

}  // namespace lagom::graph

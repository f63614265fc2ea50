#include "lagom/graph/duplicates.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lagom/util/error.h"
#include "lagom/util/hash.h"

namespace lagom::graph {
namespace {

/// Bytes that are equal exactly where the configurations are.
class ConfigBytes {
 public:
  explicit ConfigBytes(const GraphCache& graph) {
    for (const formats::ArrayFile::Entry& entry : graph.arrays().entries()) {
      if (!describes_configurations(entry.name)) continue;
      if (entry.shape.empty() || entry.shape[0] != graph.num_configs()) {
        throw FormatError(graph.path(), entry.name, "does not have a row per configuration");
      }
      if (graph.num_configs() == 0) continue;
      const std::string_view bytes = graph.arrays().bytes(entry);
      parts_.push_back(
          {.bytes = bytes, .row_bytes = bytes.size() / static_cast<size_t>(entry.shape[0])});
    }
  }

  std::string of(int64_t row) const {
    std::string bytes;
    for (const Part& part : parts_) {
      bytes += part.bytes.substr(static_cast<size_t>(row) * part.row_bytes, part.row_bytes);
    }
    return bytes;
  }

 private:
  struct Part {
    std::string_view bytes;
    size_t row_bytes = 0;
  };

  /// Codes stand for layouts: a dictionary has each once.
  static bool describes_configurations(std::string_view name) {
    return name == "config_feat" || name == "config_graph" || name.starts_with("config_flags") ||
           (name.starts_with("node_config_") && name != "node_config_ids" &&
            name != "node_config_layouts");
  }

  std::vector<Part> parts_;
};

/// Calls `visit(values of the group)` for each group of two rows or more.
template <typename Visitor>
void for_each_repeated(const DuplicateGroups& groups, std::span<const double> values,
                       Visitor&& visit) {
  std::vector<std::vector<double>> of_group(groups.first_row.size());
  for (size_t row = 0; row < values.size(); ++row) {
    of_group[static_cast<size_t>(groups.group_of_row[row])].push_back(values[row]);
  }
  for (const std::vector<double>& group : of_group) {
    if (group.size() > 1) visit(group);
  }
}

void check_rows(const DuplicateGroups& groups, std::span<const double> values) {
  if (values.size() == groups.group_of_row.size()) return;
  throw std::invalid_argument(std::to_string(values.size()) + " values for " +
                              std::to_string(groups.num_rows()) + " rows");
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

DuplicateGroups find_duplicates(const GraphCache& graph) {
  DuplicateGroups groups;
  const ConfigBytes configs(graph);
  std::unordered_multimap<uint64_t, int64_t> groups_by_hash;
  for (int64_t row = 0; row < graph.num_configs(); ++row) {
    const std::string bytes = configs.of(row);
    const uint64_t hash = hash64(bytes);
    int64_t group = groups.num_groups();
    const auto [begin, end] = groups_by_hash.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      if (configs.of(groups.first_row[static_cast<size_t>(it->second)]) == bytes)
        group = it->second;
    }
    if (group == groups.num_groups()) {
      groups_by_hash.emplace(hash, group);
      groups.first_row.push_back(row);
    }
    groups.group_of_row.push_back(group);
  }
  return groups;
}

std::vector<double> comparable_runtimes(const GraphCache& graph) {
  const auto runtimes = graph.config_runtime(), normalizers = graph.config_runtime_normalizers();
  std::vector<double> values(runtimes.begin(), runtimes.end());
  for (size_t row = 0; row < normalizers.size(); ++row) {
    values[row] /= static_cast<double>(normalizers[row]);
  }
  return values;
}

std::vector<double> merge_rows(const DuplicateGroups& groups, std::span<const double> values,
                               MergeRule rule) {
  check_rows(groups, values);
  std::vector<double> merged(groups.first_row.size());
  std::vector<double> rows(merged.size(), 0);
  for (size_t g = 0; g < merged.size(); ++g) {
    merged[g] = rule == MergeRule::kMean ? 0 : values[static_cast<size_t>(groups.first_row[g])];
  }
  for (size_t row = 0; row < values.size(); ++row) {
    const auto g = static_cast<size_t>(groups.group_of_row[row]);
    rows[g] += 1;
    if (rule == MergeRule::kMean) merged[g] += values[row];
    if (rule == MergeRule::kMin) merged[g] = std::min(merged[g], values[row]);
  }
  for (size_t g = 0; rule == MergeRule::kMean && g < merged.size(); ++g) merged[g] /= rows[g];
  return merged;
}

RepeatNoise noise_of_repeats(const DuplicateGroups& groups, std::span<const double> values) {
  check_rows(groups, values);
  RepeatNoise noise;
  double squares = 0;
  for_each_repeated(groups, values, [&](const std::vector<double>& group) {
    const double mean = mean_of(group);
    const auto [least, most] = std::minmax_element(group.begin(), group.end());
    ++noise.repeated_groups;
    noise.repeats += static_cast<int64_t>(group.size()) - 1;
    for (const double value : group) squares += (value / mean - 1) * (value / mean - 1);
    noise.largest_spread = std::max(noise.largest_spread, *most / *least - 1);
  });
  if (noise.repeats > 0) {
    noise.relative_deviation = std::sqrt(squares / static_cast<double>(noise.repeats));
  }
  return noise;
}

}  // namespace lagom::graph

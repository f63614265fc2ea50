#include "lagom/collect/measured_file.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "lagom/collect/configuration_features.h"
#include "lagom/formats/npz.h"
#include "lagom/graph/dataset_file.h"
#include "lagom/util/file.h"

namespace lagom::collect {
namespace {

using formats::Array;
using nlohmann::ordered_json;
using rewrite::Configuration;

int64_t nanoseconds(double seconds) {
  return std::max<int64_t>(std::llround(seconds * 1e9), 1);
}

std::string description(const MeasuredProgram& program, const std::vector<Row>& rows) {
  ordered_json j = {{"programs", program.programs},
                    {"signature", program.signature},
                    {"device", program.device},
                    {"strategy", program.strategy},
                    {"default_ns", nanoseconds(program.default_seconds)},
                    {"noise_floor", program.noise_floor},
                    {"load_average", program.load_average},
                    {"flag_columns", flag_columns()}};
  if (!program.hlo.empty()) j["hlo"] = program.hlo;
  ordered_json configurations = ordered_json::array(), failures = ordered_json::array();
  for (const Row& row : rows) {
    if (row.ok()) {
      configurations.push_back(row.configuration);
    } else {
      failures.push_back({{"configuration", row.configuration},
                          {"failure", measure::failure_kind_name(row.failure)},
                          {"error", row.error}});
    }
  }
  j["configurations"] = std::move(configurations);
  j["failures"] = std::move(failures);
  return j.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

/// The columns that feature set v2 has beyond v1, in arrays of their own: TpuGraphs' tools read the
/// file as one of theirs.
void add_extended_features(formats::NpzWriter& writer, const hlo::Module& module) {
  const graph::OpGraph graph = graph::make_op_graph(module, {.feature_version = 2});
  const int64_t nodes = graph.num_nodes();
  const int64_t all = graph::num_node_features(2), known = graph::num_node_features(1);
  std::vector<float> columns;
  columns.reserve(static_cast<size_t>(nodes * (all - known)));
  for (int64_t node = 0; node < nodes; ++node) {
    const auto begin = graph.node_feat.begin() + node * all;
    columns.insert(columns.end(), begin + known, begin + all);
  }
  writer.add("node_feat_v2", Array::of<float>({nodes, all - known}, columns));
  writer.add("node_opcode_v2", Array::of<uint8_t>({nodes}, graph.node_opcode));
}

}  // namespace

void write_measured(const std::filesystem::path& stem, const hlo::Module& module,
                    const MeasuredProgram& program, const std::vector<Row>& rows) {
  std::vector<Configuration> configurations;
  std::vector<int64_t> runtimes, normalizers;
  std::vector<float> ratios;
  for (const Row& row : rows) {
    if (!row.ok()) continue;
    configurations.push_back(Configuration::from_string(row.configuration));
    runtimes.push_back(nanoseconds(row.seconds));
    normalizers.push_back(nanoseconds(row.default_seconds));
    ratios.push_back(static_cast<float>(row.ratio.low));
    ratios.push_back(static_cast<float>(row.ratio.high));
  }
  if (configurations.empty())
    throw std::invalid_argument(program.signature + ": nothing was measured");
  const ConfigurationFeatures features = configuration_features(module, configurations);
  const auto configs = static_cast<int64_t>(configurations.size());
  const auto nodes = static_cast<int64_t>(features.node_config_ids.size());

  formats::NpzWriter writer(stem.string() + ".npz");
  graph::add_graph(writer, graph::make_op_graph(module));
  add_extended_features(writer, module);
  writer.add("config_runtime", Array::of<int64_t>({configs}, runtimes));
  writer.add("config_runtime_normalizers", Array::of<int64_t>({configs}, normalizers));
  writer.add("node_config_ids", Array::of<int64_t>({nodes}, features.node_config_ids));
  writer.add("node_config_feat", Array::of<float>({configs, nodes, graph::kLayoutConfigFeatures},
                                                  features.node_config_feat));
  writer.add("node_config_form", Array::of<int16_t>({configs, nodes}, features.node_config_form));
  writer.add("node_config_barrier",
             Array::of<uint8_t>({configs, nodes}, features.node_config_barrier));
  writer.add("config_flags",
             Array::of<float>({configs, static_cast<int64_t>(flag_columns().size())},
                              features.config_flags));
  writer.add("config_ratio", Array::of<float>({configs, 2}, ratios));
  // The description first: an npz without one would be believed.
  write_file(stem.string() + ".json", description(program, rows));
  writer.finish();
}

std::string measured_device(const std::filesystem::path& npz) {
  auto path = npz;
  path.replace_extension(".json");
  if (!std::filesystem::exists(path)) return {};
  const auto j = ordered_json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  return j.is_object() && j.contains("device") && j["device"].is_string()
             ? j["device"].get<std::string>()
             : std::string();
}

}  // namespace lagom::collect

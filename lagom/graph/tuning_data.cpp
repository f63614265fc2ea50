#include "lagom/graph/tuning_data.h"

#include <algorithm>
#include <map>
#include <string>

#include "lagom/formats/wire.h"
#include "lagom/hlo/proto_reader.h"
#include "lagom/util/error.h"

namespace lagom::graph {
namespace {

using formats::first_field;
using formats::open_message;
using formats::read_integer;
using formats::read_integers;
using formats::read_view;
using protozero::pbf_reader;
using protozero::pbf_wire_type;

/// Calls `visit(reader)` at each field; fields that it returns false for are skipped.
template <typename Visitor>
void for_each_field(pbf_reader reader, Visitor&& visit) {
  while (reader.next()) {
    if (!visit(reader)) reader.skip();
  }
}

TileConfig read_tile(pbf_reader reader) {
  TileConfig tile;
  for_each_field(reader, [&](pbf_reader& field) {
    switch (field.tag()) {
      case 1:
        read_integers(field, tile.kernel_bounds);
        return true;
      case 2:
        read_integers(field, tile.output_bounds);
        return true;
      case 3:
        read_integers(field, tile.input_bounds);
        return true;
      default:
        return false;
    }
  });
  return tile;
}

NodeLayouts read_node(pbf_reader reader) {
  NodeLayouts layouts;
  for_each_field(reader, [&](pbf_reader& field) {
    if (field.tag() != 1) return false;
    std::vector<int64_t> dims;
    for_each_field(open_message(field), [&](pbf_reader& tensor) {
      if (tensor.tag() != 1) return false;
      read_integers(tensor, dims);
      return true;
    });
    layouts.push_back(std::move(dims));
    return true;
  });
  return layouts;
}

std::vector<NodeLayouts> read_layouts(pbf_reader reader) {
  std::vector<NodeLayouts> nodes;
  for_each_field(reader, [&](pbf_reader& field) {
    if (field.tag() != 1) return false;
    nodes.push_back(read_node(open_message(field)));
    return true;
  });
  return nodes;
}

TuningRun read_run(pbf_reader reader) {
  TuningRun run;
  for_each_field(reader, [&](pbf_reader& field) {
    switch (field.tag()) {
      case 1:  // HloOpConfig
        for_each_field(open_message(field), [&](pbf_reader& config) {
          if (config.tag() != 1) return false;
          run.tile = read_tile(open_message(config));
          return true;
        });
        return true;
      case 2:  // HloModuleConfig
        if (!run.layouts) run.layouts.emplace();
        for_each_field(open_message(field), [&](pbf_reader& config) {
          if (config.tag() != 1) return false;
          run.layouts = read_layouts(open_message(config));
          return true;
        });
        return true;
      case 3:
        run.is_error = read_integer(field) != 0;
        return true;
      case 4:  // ExecutionProfile
        run.runtime_ns = 0;
        for_each_field(open_message(field), [&](pbf_reader& profile) {
          if (profile.tag() != 4) return false;
          run.runtime_ns = read_integer(profile);
          return true;
        });
        return true;
      case 5:
        run.is_default = read_integer(field) != 0;
        return true;
      default:
        return false;
    }
  });
  return run;
}

TuningModule read_module(pbf_reader reader, std::string_view path) {
  TuningModule tuning;
  std::string_view module;
  for_each_field(reader, [&](pbf_reader& field) {
    switch (field.tag()) {
      case 1:
        module = read_view(field);
        return true;
      case 2:
        tuning.fingerprint = static_cast<uint64_t>(read_integer(field));
        return true;
      case 3:
        tuning.runs.push_back(read_run(open_message(field)));
        return true;
      case 4:
        read_integers(field, tuning.config_nodes);
        return true;
      default:
        return false;
    }
  });
  if (module.empty()) throw FormatError(path, "", "runs without a module");
  tuning.module = hlo::read_hlo_proto(module, path);
  const auto num_nodes = static_cast<int64_t>(tuning.module.num_instructions());
  for (const int64_t node : tuning.config_nodes) {
    if (node >= 0 && node < num_nodes) continue;
    throw FormatError(path, "module '" + tuning.module.name + "'",
                      "configurable node " + std::to_string(node) + " of " +
                          std::to_string(num_nodes) + " instructions");
  }
  for (size_t i = 0; i < tuning.runs.size(); ++i) {
    const auto& layouts = tuning.runs[i].layouts;
    if (!layouts || layouts->size() == tuning.config_nodes.size()) continue;
    throw FormatError(path, "run " + std::to_string(i),
                      "has layouts for " + std::to_string(layouts->size()) + " nodes, expected " +
                          std::to_string(tuning.config_nodes.size()));
  }
  return tuning;
}

/// ConfigProfile: configurations and a profile are messages, error and is_default are flags. (A
/// buffer assignment, which stands in the same place of an HloProto, has messages there.)
bool is_run(std::string_view bytes) {
  pbf_reader reader(bytes.data(), bytes.size());
  while (reader.next()) {
    const bool is_flag = reader.tag() == 3 || reader.tag() == 5;
    if (reader.tag() > 5 ||
        reader.wire_type() != (is_flag ? pbf_wire_type::varint : pbf_wire_type::length_delimited)) {
      return false;
    }
    reader.skip();
  }
  return true;
}

/// The first field 3 is a run.
bool has_runs(std::string_view bytes) {
  bool found = false;
  formats::any_field(bytes, 3, [&](std::string_view run) {
    found = is_run(run);
    return true;
  });
  return found;
}

}  // namespace

std::optional<TuningKind> tuning_kind(std::string_view bytes) {
  // An HLO module's own field 1 is its name, and field 3 of a TuningData's kernels holds runs.
  const std::string_view first = first_field(bytes, 1);
  if (hlo::is_hlo_module_proto(bytes) || first.empty()) return std::nullopt;
  if (hlo::is_hlo_module_proto(first)) {
    return has_runs(bytes) ? std::optional(TuningKind::kLayout) : std::nullopt;
  }
  const std::string_view inner = first_field(first, 1);
  return hlo::is_hlo_module_proto(inner) && has_runs(first) ? std::optional(TuningKind::kTile)
                                                            : std::nullopt;
}

std::vector<TuningModule> read_tuning_data(std::string_view bytes, std::string_view path) {
  const auto kind = tuning_kind(bytes);
  if (!kind) throw FormatError(path, "", "expected TuningData or ModuleTuningData");
  std::vector<TuningModule> modules;
  try {
    const pbf_reader reader(bytes.data(), bytes.size());
    if (*kind == TuningKind::kLayout) {
      modules.push_back(read_module(reader, path));
    } else {
      for_each_field(reader, [&](pbf_reader& field) {
        if (field.tag() != 1) return false;
        modules.push_back(read_module(open_message(field), path));
        return true;
      });
    }
  } catch (const protozero::exception& e) {
    throw FormatError(path, "module " + std::to_string(modules.size()),
                      std::string("damaged or truncated protobuf message: ") + e.what());
  }
  return modules;
}

TuningTable layout_table(const TuningModule& tuning, std::string_view path) {
  TuningTable table;
  if (tuning.config_nodes.empty()) throw FormatError(path, "", "there are no configurable nodes");
  std::optional<int64_t> default_ns;
  std::vector<const TuningRun*> kept;
  for (size_t i = 0; i < tuning.runs.size(); ++i) {
    const TuningRun& run = tuning.runs[i];
    if (run.is_error || !run.layouts || !run.runtime_ns) continue;
    if (*run.runtime_ns <= 0) {
      throw FormatError(path, "run " + std::to_string(i), "took no time and is no error");
    }
    if (run.is_default && !default_ns) default_ns = run.runtime_ns;
    kept.push_back(&run);
  }
  table.node_config_ids = tuning.config_nodes;
  if (!default_ns) return table;
  for (const TuningRun* run : kept) {
    table.config_runtime.push_back(*run->runtime_ns);
    table.config_runtime_normalizers.push_back(*default_ns);
    for (const NodeLayouts& node : *run->layouts) {
      const auto features = layout_config_features(node);
      table.config_feat.insert(table.config_feat.end(), features.begin(), features.end());
    }
  }
  return table;
}

std::vector<TuningTable> tile_tables(const std::vector<TuningModule>& kernels,
                                     std::string_view path) {
  std::vector<TuningTable> tables(kernels.size());
  std::map<std::string, int64_t> normalizers;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const std::vector<TuningRun>& runs = kernels[k].runs;
    const bool all_have_tiles = std::all_of(runs.begin(), runs.end(),
                                            [](const TuningRun& r) { return r.tile.has_value(); });
    if (runs.size() <= 1 || !all_have_tiles) continue;
    std::optional<int64_t> default_ns;
    for (const TuningRun& run : runs) {
      if (run.is_error || run.runtime_ns.value_or(0) <= 1) continue;
      if (run.is_default && !default_ns) default_ns = run.runtime_ns;
      tables[k].config_runtime.push_back(*run.runtime_ns);
      const auto features = tile_config_features(*run.tile);
      tables[k].config_feat.insert(tables[k].config_feat.end(), features.begin(), features.end());
    }
    if (!default_ns) {
      throw FormatError(path, "kernel '" + kernels[k].module.name + "'",
                        "has no run of the default configuration");
    }
    normalizers[kernels[k].module.name] = *default_ns;
  }
  for (size_t k = 0; k < kernels.size(); ++k) {
    const auto it = normalizers.find(kernels[k].module.name);
    if (it == normalizers.end()) continue;
    tables[k].config_runtime_normalizers.assign(tables[k].config_runtime.size(), it->second);
  }
  return tables;
}

}  // namespace lagom::graph

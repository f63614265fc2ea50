#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/inspect_arrays.h"
#include "cli/inspect_graphs.h"
#include "lagom/graph/edge_list.h"
#include "lagom/hlo/cost_analysis.h"
#include "lagom/hlo/module_file.h"
#include "lagom/hlo/verifier.h"
#include "lagom/rewrite/rule.h"
#include "lagom/text/token_file.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"

namespace lagom::cli {
namespace {

using nlohmann::ordered_json;

struct InspectArguments {
  std::vector<std::string> files;
  bool json = false, stats = false, audit = false;
};

/// What inspect says about one module.
struct Inspection {
  std::string name, problem;
  size_t computations = 0, instructions = 0;
  std::map<std::string, size_t> opcodes;
  hlo::Cost cost;
  int64_t parameter_bytes = 0, constant_bytes = 0, output_bytes = 0;
  size_t parameters = 0, configurable = 0, with_forms = 0, elided = 0;
  double devices = 1;
  std::map<std::string, size_t> custom_calls;
  bool is_scheduled = false, aliases = false;
};

/// num_partitions or replica_count of the header; 1 when it does not say.
double header_count(const hlo::Module& module, const std::string& name) {
  for (const hlo::RawAttribute& raw : module.raw) {
    if (raw.name == name) return std::max(std::atof(raw.text.c_str()), 1.0);
  }
  return 1;
}

Inspection inspect_module(const hlo::Module& module, const std::string& path) {
  Inspection info;
  info.name = module.name;
  info.computations = module.computations().size();
  info.instructions = module.num_instructions();
  info.is_scheduled = module.is_scheduled;
  info.aliases = !module.input_output_aliases.empty();
  info.devices = header_count(module, "num_partitions") * header_count(module, "replica_count");
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) {
      ++info.opcodes[std::string(hlo::opcode_name(i->opcode))];
      const bool ranked = i->shape.is_array() && i->shape.rank() >= 2;
      info.configurable +=
          ranked && (i->opcode == hlo::Opcode::kConvolution || i->opcode == hlo::Opcode::kDot ||
                     i->opcode == hlo::Opcode::kReshape);
      if (i->opcode == hlo::Opcode::kConstant && i->literal) {
        info.constant_bytes = hlo::saturating_add(info.constant_bytes, i->shape.size_bytes());
        info.elided += i->literal->elided;
      }
      if (i->opcode == hlo::Opcode::kCustomCall) ++info.custom_calls[i->rare().custom_call_target];
    }
  }
  for (const hlo::Instruction* parameter : module.entry()->parameters()) {
    if (parameter == nullptr) continue;
    ++info.parameters;
    info.parameter_bytes = hlo::saturating_add(info.parameter_bytes, parameter->shape.size_bytes());
  }
  info.output_bytes = module.entry()->root()->shape.size_bytes();
  try {
    hlo::verify(module, path);
    info.cost = hlo::CostAnalysis(module).total();
    for (const auto& computation : module.computations()) {
      for (const auto& i : computation->instructions()) {
        const auto& rules = rewrite::all_rules();
        info.with_forms += std::any_of(rules.begin(), rules.end(),
                                       [&](const auto* rule) { return rule->matches(*i); });
      }
    }
  } catch (const std::exception& e) {
    info.problem = e.what();
  }
  return info;
}

ordered_json to_json(const std::string& path, hlo::FileKind kind, const Inspection& info) {
  ordered_json j = {{"file", path},
                    {"kind", hlo::file_kind_name(kind)},
                    {"module", info.name},
                    {"computations", info.computations},
                    {"instructions", info.instructions},
                    {"flops", info.cost.flops},
                    {"transcendentals", info.cost.transcendentals},
                    {"bytes_accessed", info.cost.bytes_accessed()},
                    {"parameters", info.parameters},
                    {"parameter_bytes", info.parameter_bytes},
                    {"constant_bytes", info.constant_bytes},
                    {"output_bytes", info.output_bytes},
                    {"configurable_nodes", info.configurable},
                    {"nodes_with_forms", info.with_forms},
                    {"devices", static_cast<int64_t>(std::min(info.devices, 1e15))},
                    {"is_scheduled", info.is_scheduled},
                    {"donates_inputs", info.aliases},
                    {"opcodes", info.opcodes},
                    {"custom_calls", info.custom_calls}};
  if (info.elided > 0) j["elided_constants"] = info.elided;
  if (!info.problem.empty()) j["problem"] = info.problem;
  return j;
}

void print(const std::string& path, hlo::FileKind kind, const Inspection& info) {
  std::printf("%s: %s, module %s\n", path.c_str(), std::string(hlo::file_kind_name(kind)).c_str(),
              info.name.c_str());
  std::printf("  %zu instructions in %zu computations%s%s\n", info.instructions, info.computations,
              info.is_scheduled ? ", scheduled" : "", info.aliases ? ", donates inputs" : "");
  if (info.problem.empty()) {
    std::printf("  %s, %s transcendental, %s accessed\n",
                count_to_string(info.cost.flops, "FLOP").c_str(),
                count_to_string(info.cost.transcendentals, "").c_str(),
                count_to_string(info.cost.bytes_accessed(), "B").c_str());
  } else {
    std::printf("  problem: %s\n", info.problem.c_str());
  }
  std::printf("  %zu parameters %s, constants %s, outputs %s, %.0f device%s\n", info.parameters,
              count_to_string(static_cast<double>(info.parameter_bytes), "B").c_str(),
              count_to_string(static_cast<double>(info.constant_bytes), "B").c_str(),
              count_to_string(static_cast<double>(info.output_bytes), "B").c_str(), info.devices,
              info.devices == 1 ? "" : "s");
  std::printf("  %zu nodes whose layout can be set, %zu with other forms\n", info.configurable,
              info.with_forms);
  if (info.elided > 0) {
    std::printf("  %zu constants have no values ({...}): dump with large constants to run it\n",
                info.elided);
  }
  std::vector<std::pair<size_t, std::string>> opcodes;
  for (const auto& [name, count] : info.opcodes) opcodes.emplace_back(count, name);
  std::sort(opcodes.rbegin(), opcodes.rend());
  std::string line = " ";
  for (size_t i = 0; i < opcodes.size(); ++i) {
    std::string item = " " + opcodes[i].second + " " + std::to_string(opcodes[i].first);
    if (i + 1 < opcodes.size()) item += ',';
    if (line.size() + item.size() > 100) {
      std::printf("%s\n", line.c_str());
      line = " ";
    }
    line += item;
  }
  std::printf("%s\n", line.c_str());
  for (const auto& [target, count] : info.custom_calls) {
    std::printf("  custom call %s: %zu\n", target.c_str(), count);
  }
}

/// A description of files with arrays in them and of folders; nullopt for programs.
std::optional<ordered_json> inspect_data(const std::string& path, const InspectArguments& args) {
  const GraphInspectOptions options{.stats = args.stats, .audit = args.audit};
  std::error_code ec;
  if (std::filesystem::is_directory(path, ec)) return inspect_graph_folder(path, options);
  if (is_graph_file(path)) return inspect_graph(path, options);
  if (path.ends_with(".edgelist")) {
    const graph::EdgeListGraph graph = graph::read_edge_list(path);
    return {{{"file", path},
             {"kind", "edge list"},
             {"nodes", graph.num_nodes},
             {"edges", graph.edge_index.size() / 2}}};
  }
  if (path.ends_with(".bin")) {
    const text::TokenFile tokens = text::TokenFile::open_shard(path);
    return {{{"file", path}, {"kind", "token shard"}, {"tokens", tokens.size()}}};
  }
  if (is_array_file(path)) {
    if (args.audit) {
      throw FormatError(path, "", "--audit reads the compact form: lagom convert IN.npz OUT.graph");
    }
    return inspect_arrays(path, args.stats);
  }
  return std::nullopt;
}

void print_data(const ordered_json& inspection) {
  if (inspection.contains("splits")) {
    print_graph_folder(inspection);
  } else if (inspection.contains("arrays")) {
    print_arrays(inspection);
  } else if (inspection["kind"] == "edge list") {
    std::printf("%s: edge list, %ld nodes, %ld edges\n",
                inspection["file"].get<std::string>().c_str(), inspection["nodes"].get<long>(),
                inspection["edges"].get<long>());
  } else if (inspection["kind"] == "token shard") {
    std::printf("%s: token shard, %ld tokens\n", inspection["file"].get<std::string>().c_str(),
                inspection["tokens"].get<long>());
  } else {
    print_graph(inspection);
  }
}

int inspect(const InspectArguments& args) {
  ordered_json all = ordered_json::array();
  int status = 0;
  for (const std::string& path : args.files) {
    try {
      if (const auto data = inspect_data(path, args)) {
        if (args.json) {
          all.push_back(*data);
        } else {
          print_data(*data);
        }
        continue;
      }
      const std::string bytes = read_file(path);
      const hlo::FileKind kind = hlo::sniff_file_kind(bytes);
      for (const hlo::Module& module : hlo::read_modules(bytes, path)) {
        const Inspection info = inspect_module(module, path);
        if (args.json) {
          all.push_back(to_json(path, kind, info));
        } else {
          print(path, kind, info);
        }
      }
    } catch (const std::exception& e) {
      // One bad file does not hide the others.
      if (args.files.size() == 1) throw;
      std::fprintf(stderr, "lagom: %s\n", e.what());
      status = 1;
    }
  }
  if (args.json) {
    const ordered_json& shown = args.files.size() == 1 && all.size() == 1 ? all[0] : all;
    print_json(shown);
  }
  return status;
}

}  // namespace

void add_inspect(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("inspect", "Say what a file is and what is in it");
  auto args = std::make_shared<InspectArguments>();
  command
      ->add_option("files", args->files,
                   "HLO texts and protos, also compressed with gzip; npy and npz arrays; compact "
                   "graphs and folders of them")
      ->required();
  command->add_flag("--json", args->json, "Machine-readable output");
  command->add_flag("--stats", args->stats,
                    "Also the least, largest and sum of each array's values; of a folder, the "
                    "statistics of the training split's columns");
  command->add_flag(
      "--audit", args->audit,
      "Compact graphs: repeated configurations, the noise that they show, and what is "
      "suspicious (drift, blocks, impossible runtimes)");
  command->footer(
      "Example: lagom inspect module_0001.before_optimizations.txt\n"
      "         lagom inspect graphs/layout/xla --audit");
  command->callback([args, &chosen] { chosen = [args] { return inspect(*args); }; });
}

}  // namespace lagom::cli

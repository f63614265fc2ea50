#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "lagom/collect/measured_encoding.h"
#include "lagom/collect/measured_kernels.h"
#include "lagom/formats/folder_archive.h"
#include "lagom/graph/dataset_file.h"
#include "lagom/graph/graph_cache.h"
#include "lagom/hlo/module_file.h"
#include "lagom/tune/database.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"

namespace lagom::cli {
namespace {

namespace fs = std::filesystem;

struct ConvertOptions {
  std::string input, output;
  std::string encoding, without_form, programs;
  bool sort_edges = false, pad_with_minus_one = false;
  int features = 1;
};

void note_more_modules(const ConvertOptions& options, size_t count) {
  if (count < 2) return;
  std::fprintf(stderr, "note: %s holds %zu modules; the first is converted\n",
               options.input.c_str(), count);
}

graph::OpGraphOptions graph_options(const ConvertOptions& options) {
  return {.feature_version = options.features,
          .sort_edges = options.sort_edges,
          .list_padding = options.pad_with_minus_one ? -1 : 0};
}

/// The kernels of a tile file go into files of their own, named by their place and module.
void write_kernels(const ConvertOptions& options, const std::vector<graph::TuningModule>& kernels) {
  const std::vector<graph::TuningTable> tables = graph::tile_tables(kernels, options.input);
  const std::string stem = fs::path(options.output).replace_extension().string();
  size_t left_out = 0;
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (tables[k].num_configs() == 0) {
      ++left_out;
      continue;
    }
    const std::string path = stem + "_" + std::to_string(k) + ".npz";
    graph::write_tile_npz(path, graph::make_op_graph(kernels[k].module, graph_options(options)),
                          tables[k]);
    std::printf("%s: kernel %s, %ld configurations\n", path.c_str(), kernels[k].module.name.c_str(),
                static_cast<long>(tables[k].num_configs()));
  }
  if (left_out > 0) std::fprintf(stderr, "note: %zu kernels have no usable runs\n", left_out);
}

int convert_to_graph(const ConvertOptions& options) {
  const std::string bytes = read_file(options.input);
  const auto kind = graph::tuning_kind(bytes);
  if (!kind) {
    const std::vector<hlo::Module> modules = hlo::read_modules(bytes, options.input);
    note_more_modules(options, modules.size());
    graph::write_graph_npz(options.output,
                           graph::make_op_graph(modules.front(), graph_options(options)));
    return 0;
  }
  const std::vector<graph::TuningModule> tuned = graph::read_tuning_data(bytes, options.input);
  if (*kind == graph::TuningKind::kTile) {
    write_kernels(options, tuned);
    return 0;
  }
  const graph::TuningTable table = graph::layout_table(tuned.front(), options.input);
  if (table.num_configs() == 0) {
    throw FormatError(options.input, "", "no usable run of the default configuration");
  }
  graph::write_layout_npz(
      options.output, graph::make_op_graph(tuned.front().module, graph_options(options)), table);
  return 0;
}

int convert_module(const ConvertOptions& options) {
  const std::vector<hlo::Module> modules = hlo::read_module_files(options.input);
  note_more_modules(options, modules.size());
  std::vector<std::string> dropped;
  hlo::write_module_file(modules.front(), options.output, &dropped);
  for (size_t i = 0; i < dropped.size() && i < 5; ++i) {
    std::fprintf(stderr, "note: a proto has no place for attribute %s\n", dropped[i].c_str());
  }
  if (dropped.size() > 5) std::fprintf(stderr, "note: and for %zu more\n", dropped.size() - 5);
  return 0;
}

int convert_folder(const ConvertOptions& options) {
  const bool is_terminal = ::isatty(STDERR_FILENO) != 0;
  const auto progress = [&](size_t i, size_t count, const std::string& path) {
    if (is_terminal) std::fprintf(stderr, "\r\x1b[K%zu/%zu %s", i + 1, count, path.c_str());
    return !interrupted();
  };
  catch_interrupts();
  const graph::TranscodeReport report =
      graph::transcode_folder(options.input, options.output, progress);
  if (is_terminal) std::fprintf(stderr, "\r\x1b[K");
  for (const std::string& failure : report.failures) {
    std::fprintf(stderr, "lagom: %s\n", failure.c_str());
  }
  std::printf("%s: %ld graphs written, %ld up to date, %zu refused\n", options.output.c_str(),
              static_cast<long>(report.written), static_cast<long>(report.up_to_date),
              report.failures.size());
  if (report.was_stopped) {
    std::fprintf(stderr, "lagom: stopped; the same command goes on from here\n");
  }
  return report.failures.empty() && !report.was_stopped ? 0 : 1;
}

bool names_a_file(const std::string& output) {
  constexpr std::string_view kEndings[] = {".hlo", ".txt", ".pb",
                                           ".gz",  ".npz", graph::kGraphCacheEnding};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](std::string_view ending) { return output.ends_with(ending); });
}

int pack(const ConvertOptions& options) {
  const size_t count = formats::pack_folder(options.input, options.output);
  std::printf("%s: %zu files\n", options.output.c_str(), count);
  return 0;
}

int unpack(const ConvertOptions& options) {
  const size_t count = formats::unpack_folder(options.input, options.output);
  std::printf("%s: %zu files\n", options.output.c_str(), count);
  return 0;
}

int convert_measured(const ConvertOptions& options) {
  const tune::DeviceRecords records = collect::measured_forms(options.input);
  tune::write_database_file(options.output, records);
  std::printf("%s: %zu measurements of kernels\n", options.output.c_str(), records.records.size());
  return 0;
}

/// Measured kernels with other arrays.
int encode(const ConvertOptions& options) {
  const auto names = option_names(collect::Encoding{});
  const auto place = std::find(names.begin(), names.end(), options.encoding) - names.begin();
  catch_interrupts();
  const int64_t count = collect::encode_measured(options.input, options.output,
                                                 {.encoding = static_cast<collect::Encoding>(place),
                                                  .graph = graph_options(options),
                                                  .without_form = options.without_form,
                                                  .programs = options.programs},
                                                 [](const fs::path&) { return !interrupted(); });
  std::printf("%s: %ld %s\n", options.output.c_str(), static_cast<long>(count),
              options.programs.empty() ? "kernels" : "kernels and programs");
  if (interrupted()) std::fprintf(stderr, "lagom: stopped\n");
  return interrupted() ? 1 : 0;
}

int convert(const ConvertOptions& options) {
  if (!options.encoding.empty()) return encode(options);
  if (fs::is_directory(options.input) && options.output.ends_with(".jsonl")) {
    return convert_measured(options);
  }
  if (fs::is_directory(options.input) && options.output.ends_with(".zip")) return pack(options);
  if (options.input.ends_with(".zip") && !names_a_file(options.output)) return unpack(options);
  if (fs::is_directory(options.input) && !names_a_file(options.output)) {
    return convert_folder(options);
  }
  if (options.output.ends_with(graph::kGraphCacheEnding)) {
    graph::transcode_graph(options.input, options.output);
    return 0;
  }
  return options.output.ends_with(".npz") ? convert_to_graph(options) : convert_module(options);
}

}  // namespace

void add_convert(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand(
      "convert", "Convert a program between HLO text, proto and TpuGraphs' arrays");
  auto options = std::make_shared<ConvertOptions>();
  command
      ->add_option("input", options->input,
                   "HLO text or proto, or TpuGraphs' TuningData or ModuleTuningData; also "
                   "compressed with gzip; an npz, or a folder with npz in it and below")
      ->required();
  command
      ->add_option("output", options->output,
                   "Where to write; the ending says the format: .hlo or .txt, .pb, each with .gz; "
                   ".npz for a graph with TpuGraphs' features (and the runs, from its protos); "
                   ".graph for the compact form of an npz; a folder for those of a folder; .zip to "
                   "pack a folder, and back")
      ->required();
  command->add_flag(
      "--sort-edges", options->sort_edges,
      "npz: edges by user and operand, as TpuGraphs' TensorFlow operations give them");
  command->add_flag("--pad-minus-one", options->pad_with_minus_one,
                    "npz: -1 instead of 0 behind the end of dimension lists in node_feat");
  command
      ->add_option("--features", options->features,
                   "npz: feature set, 1 as TpuGraphs has it, 2 with dimension numbers of dots and "
                   "gathers, operand shapes and more, 3 also with sizes as logarithms")
      ->check(CLI::Range(1, graph::kMaxFeatureVersion));
  command
      ->add_option("--encoding", options->encoding,
                   "Of measured kernels (a folder that lagom collect wrote), into another folder: "
                   "decisions, one graph with each node's form, layouts and barriers beside it; "
                   "rewritten, the graph of the rewritten kernel, one per configuration")
      ->check(CLI::IsMember(std::vector<std::string>{"decisions", "rewritten"}));
  command->add_option("--without-form", options->without_form,
                      "With --encoding: leave out the rows that have this rule's form");
  command->add_option("--programs", options->programs,
                      "With --encoding: folder with the HLO of measured whole programs, which are "
                      "left out otherwise");
  command->footer(
      "Example: lagom convert module_0001.before_optimizations.txt program.hlo.pb\n"
      "         lagom convert program.hlo.pb program.npz\n"
      "         lagom convert npz_all/npz graphs\n"
      "         lagom convert data/measured/kernel_2.zip measured\n"
      "         lagom convert measured rewritten --encoding rewritten --features 3");
  command->callback([options, &chosen] { chosen = [options] { return convert(*options); }; });
}

}  // namespace lagom::cli

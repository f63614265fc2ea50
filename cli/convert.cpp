#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "lagom/hlo/module_file.h"

namespace lagom::cli {
namespace {

struct ConvertOptions {
  std::string input, output;
};

int convert(const ConvertOptions& options) {
  const std::vector<hlo::Module> modules = hlo::read_module_files(options.input);
  if (modules.size() > 1) {
    std::fprintf(stderr, "note: %s holds %zu modules; the first is converted\n",
                 options.input.c_str(), modules.size());
  }
  std::vector<std::string> dropped;
  hlo::write_module_file(modules.front(), options.output, &dropped);
  for (size_t i = 0; i < dropped.size() && i < 5; ++i) {
    std::fprintf(stderr, "note: a proto has no place for attribute %s\n", dropped[i].c_str());
  }
  if (dropped.size() > 5) std::fprintf(stderr, "note: and for %zu more\n", dropped.size() - 5);
  return 0;
}

}  // namespace

void add_convert(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("convert", "Convert a program between HLO text and proto");
  auto options = std::make_shared<ConvertOptions>();
  command->add_option("input", options->input, "HLO text or proto, also compressed with gzip")
      ->required();
  command
      ->add_option("output", options->output,
                   "Where to write; the ending says the format: .hlo or .txt, .pb, each with .gz")
      ->required();
  command->footer("Example: lagom convert module_0001.before_optimizations.txt program.hlo.pb");
  command->callback([options, &chosen] { chosen = [options] { return convert(*options); }; });
}

}  // namespace lagom::cli

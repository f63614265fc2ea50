#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cli/commands.h"
#include "cli/learned_commands.h"
#include "cli/program.h"
#include "cli/tune.h"

namespace {

auto is_named(std::string_view name) {
  return [name](const CLI::App* command) { return command->get_name() == name; };
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Lagom makes XLA programs faster with the same results, and measures what they do.\n"
      "A first try: lagom tune program.hlo --out tuned --budget-seconds 60",
      "lagom");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every command");
  lagom::cli::Action chosen;
  lagom::cli::add_inspect(app, chosen);
  lagom::cli::add_convert(app, chosen);
  lagom::cli::add_run(app, chosen);
  lagom::cli::add_profile(app, chosen);
  lagom::cli::add_tune(app, chosen, [argv](const std::string&, bool is_named) {
    if (is_named || lagom::cli::has_learned_program()) {
      std::exit(lagom::cli::run_learned_program(argv));
    }
    return lagom::tune::CostModel{};
  });
  lagom::cli::add_collect(app, chosen);
  lagom::cli::add_eval(app, chosen);
  lagom::cli::add_submit(app, chosen);
  lagom::cli::add_generate(app, chosen);
  lagom::cli::add_learned_commands(app);
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(is_named(argv[1])).empty()) {
    // CLI11 would only say that a command is missing.
    std::string names;
    for (const CLI::App* command : app.get_subcommands(nullptr)) {
      names += (names.empty() ? "" : ", ") + command->get_name();
    }
    lagom::cli::fail("unknown command '" + std::string(argv[1]) + "'; expected one of " + names +
                     " (lagom --help)");
    return 2;
  }
  if (lagom::cli::is_learned_command(argc, argv)) return lagom::cli::run_learned_program(argv);
  return lagom::cli::run_program(app, argc, argv, chosen);
}

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "cli/commands.h"

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
  lagom::cli::add_tune(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : 2;
  }
  try {
    return chosen();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lagom: %s\n", error.what());
    return 1;
  }
}

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "cli/commands.h"

namespace {

/// One line on stderr, whatever bytes of a file the message quotes.
void fail(std::string_view message) {
  constexpr size_t kMaxLength = 4000;
  std::string line;
  for (const char c : message.substr(0, kMaxLength)) {
    const auto byte = static_cast<unsigned char>(c);
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, byte < 32 || byte == 127 ? "\\x%02x" : "%c", byte);
    line += escaped;
  }
  std::fprintf(stderr, "lagom: %s%s\n", line.c_str(), message.size() > kMaxLength ? "..." : "");
}

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
  lagom::cli::add_tune(app, chosen);
  lagom::cli::add_collect(app, chosen);
  lagom::cli::add_eval(app, chosen);
  lagom::cli::add_submit(app, chosen);
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(is_named(argv[1])).empty()) {
    // CLI11 would only say that a command is missing.
    fail("unknown command '" + std::string(argv[1]) +
         "'; expected inspect, convert, run, profile or tune (lagom --help)");
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : 2;
  }
  try {
    return chosen();
  } catch (const std::exception& error) {
    fail(error.what());
    return 1;
  }
}

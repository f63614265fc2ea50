#include "cli/learned_commands.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "cli/common.h"
#include "cli/program.h"

namespace lagom::cli {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 3> kCommands = {{
    {"train", "Train a cost model on a data set"},
    {"rank", "Rank the configurations of a graph or program with a cost model"},
    {"lm", "Mixture-of-Depths language models: train, eval, sample, serve and more"},
}};

std::string learned_program() {
  return (program_folder() / "lagom-learn").string();
}

}  // namespace

void add_learned_commands(CLI::App& app) {
  for (const auto& [name, description] : kCommands) app.add_subcommand(name, description);
}

bool is_learned_command(int argc, char** argv) {
  if (argc < 2) return false;
  const std::string_view name = argv[1];
  for (const auto& command : kCommands) {
    if (name == command.first) return true;
  }
  return name == "eval" && argc > 2 && argv[2][0] != '-';
}

bool has_learned_program() {
  return ::access(learned_program().c_str(), X_OK) == 0;
}

int run_learned_program(char** argv) {
  const std::string program = learned_program();
  ::execv(program.c_str(), argv);
  fail("cannot run " + program + " (" + std::strerror(errno) +
       "); the commands that train and ask models were built without LibTorch");
  return 1;
}

}  // namespace lagom::cli

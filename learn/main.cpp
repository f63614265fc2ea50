#include <c10/util/Exception.h>

#include <CLI/CLI.hpp>
#include <stdexcept>

#include "cli/program.h"
#include "cli/tune.h"
#include "lagom/tensor/caching_allocator.h"
#include "learn/commands.h"
#include "learn/lm_commands.h"
#include "learn/models.h"

int main(int argc, char** argv) {
  lagom::tensor::use_caching_allocator();
  CLI::App app("The commands of lagom that train and ask models.", "lagom");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every command");
  lagom::learn::Action chosen;
  lagom::learn::add_train(app, chosen);
  lagom::learn::add_eval(app, chosen);
  lagom::learn::add_rank(app, chosen);
  lagom::cli::add_tune(app, chosen, [](const std::string& path, bool) {
    return lagom::learn::load_cost_model(path);
  });
  lagom::learn::add_lm(app, chosen);
  const lagom::learn::Action action = [&chosen] {
    try {
      return chosen();
    } catch (const c10::Error& error) {
      // Torch's own message without the addresses it appends.
      throw std::runtime_error(error.what_without_backtrace());
    }
  };
  return lagom::cli::run_program(app, argc, argv, action);
}

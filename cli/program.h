#pragma once

#include <string_view>

#include "cli/commands.h"

namespace lagom::cli {

/// One line on stderr, whatever bytes of a file the message quotes.
void fail(std::string_view message);

/// Parses the arguments and runs what they chose. Returns the exit status: 2 for bad usage, 1 when
/// something failed, which is said on stderr.
int run_program(CLI::App& app, int argc, char** argv, const Action& chosen);

}  // namespace lagom::cli

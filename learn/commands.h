#pragma once

// The commands that need LibTorch: one function each, as in cli/commands.h.

#include "cli/commands.h"

namespace lagom::learn {

using cli::Action;

void add_train(CLI::App& app, Action& chosen);
void add_eval(CLI::App& app, Action& chosen);
void add_rank(CLI::App& app, Action& chosen);

}  // namespace lagom::learn

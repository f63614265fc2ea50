#pragma once

// The commands that need LibTorch: one function each, as in cli/commands.h.

#include "cli/commands.h"

namespace lagom::learn {

using cli::Action;

}  // namespace lagom::learn

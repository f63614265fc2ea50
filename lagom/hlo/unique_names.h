#pragma once

#include <string>

#include "lagom/hlo/module.h"

namespace lagom::hlo {

/// Renames instructions so that each name is alone in the module, as a proto demands (text only
/// needs names to be alone in their computation). The first bearer of a name keeps it; later ones
/// get the numbers that XLA's parser would give them: a second "p0" becomes "p0.1".
void make_names_unique(Module& module);
/// The same for the names of computations.
void make_computation_names_unique(Module& module);

/// Makes a name what text can hold, [A-Za-z_][A-Za-z0-9_.-]*, as XLA does: other characters become
/// '_', an empty name becomes `fallback`. Returns whether it had to change.
bool sanitize_name(std::string& name, std::string_view fallback);

}  // namespace lagom::hlo

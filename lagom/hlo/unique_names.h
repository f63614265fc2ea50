#pragma once

#include "lagom/hlo/module.h"

namespace lagom::hlo {

/// Renames instructions so that each name is alone in the module, as a proto demands (text only
/// needs names to be alone in their computation). The first bearer of a name keeps it; later ones
/// get the numbers that XLA's parser would give them: a second "p0" becomes "p0.1".
void make_names_unique(Module& module);

}  // namespace lagom::hlo

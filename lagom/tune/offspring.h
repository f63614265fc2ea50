#pragma once

#include "lagom/tune/search_session.h"

namespace lagom::tune {

/// The default with a few random changes.
rewrite::Configuration random_configuration(SearchSession& session);

/// A child of two of the fastest, changed in one or two places; a random one while nothing is
/// measured.
rewrite::Configuration offspring(SearchSession& session);

}  // namespace lagom::tune

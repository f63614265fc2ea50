#pragma once

#include "lagom/tune/search_session.h"

namespace lagom::tune {

/// Strategy kModel on the whole program. An EffectModel, whose priors come from kernels alone and
/// from what is believed of them, learns from every candidate; thousands of changed and crossed
/// ones are ranked by the gain that is expected of them, the best few, each from what the others
/// would tell, are measured. Ends before the budget when nothing is left that is expected to pay.
void explore_guided(SearchSession& session);

}  // namespace lagom::tune

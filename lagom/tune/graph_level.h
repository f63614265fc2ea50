#pragma once

#include "lagom/tune/search_session.h"

namespace lagom::tune {

/// Puts together what won alone. When the whole is wrong or fails, halves show which decisions are
/// at fault; those are left out.
void compose_winners(SearchSession& session);

/// The forms that fixed conditions choose (conditions.h), as one candidate.
void try_conditions(SearchSession& session);

/// The winning form of each kernel that was measured, in this search or an earlier one, and the
/// likely form (SearchSession::likely_form) of the others, as one candidate.
void try_likely_forms(SearchSession& session);

/// A winner alone need not win in place: leaves out one kernel's form at a time, those with the
/// smallest gain first.
void take_back_forms(SearchSession& session);

/// Adds one flag at a time to the best configuration.
void try_flags(SearchSession& session);

/// Random configurations, or children of the best (`genetic`), until four fifths of the budget.
void explore(SearchSession& session, bool genetic);

}  // namespace lagom::tune

#pragma once

#include "lagom/tune/search_session.h"

namespace lagom::tune {

/// Drops the decisions of the best configuration that do not pay, so that what is left is a short
/// list a person can apply: those with the least believed effect first, many at once, halves of
/// them where the whole is slower without (delta debugging; Zeller and Hildebrandt 2002). What is
/// left becomes the session's preferred finalist. Until nine tenths of the budget; its candidates
/// do not count as trials.
void drop_what_does_not_pay(SearchSession& session);

/// Measures the preferred finalist without each of the `count` decisions that should matter most
/// and keeps what is lost (SearchSession::effects_in_place). Asked for by the user: the time comes
/// on top of the budget.
void measure_effects_in_place(SearchSession& session, int count);

}  // namespace lagom::tune

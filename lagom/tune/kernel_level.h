#pragma once

#include "lagom/tune/search_session.h"

namespace lagom::tune {

/// Measures the program's kernels alone, in their forms: promising ones first, for all kernels;
/// then the others, where much time is left to gain. Up to three fifths of the budget.
void search_kernels(SearchSession& session);

/// The same for strategy kModel: kernels in the order of the gain that is expected of their forms,
/// and forms of each, while what is expected is worth a measurement. What was believed stays with
/// the session (SearchSession::beliefs).
void search_likely_kernels(SearchSession& session);

/// Kernels that were not reached or have no other form: their default times tell where a program
/// spends its time. Only while there is time to spare.
void time_other_kernels(SearchSession& session);

}  // namespace lagom::tune

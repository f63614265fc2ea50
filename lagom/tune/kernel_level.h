#pragma once

#include "lagom/tune/search_session.h"

namespace lagom::tune {

/// Measures the program's kernels alone, in their forms: promising ones first, for all kernels;
/// then the others, where much time is left to gain. Up to three fifths of the budget.
void search_kernels(SearchSession& session);

/// Takes what the database knows of the program's kernels, without measuring. Returns what share of
/// the work in kernels with promising forms that is.
double recall_kernels(SearchSession& session);

/// Strategy kModel: sets what is believed of every kernel's forms (SearchSession::beliefs), without
/// measuring.
void form_beliefs(SearchSession& session);

/// Strategy kModel, after `form_beliefs`: measures kernels in the order of the gain that is
/// expected of their forms, and forms of each, while what is expected is worth a measurement.
void search_likely_kernels(SearchSession& session);

/// Kernels that were not reached or have no other form: their default times tell where a program
/// spends its time. Only while there is time to spare.
void time_other_kernels(SearchSession& session);

}  // namespace lagom::tune

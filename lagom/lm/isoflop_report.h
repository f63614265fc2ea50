#pragma once

#include <string>

#include "lagom/lm/isoflop_fit.h"

namespace lagom::lm {

/// Curves and comparisons as tables of text.
std::string isoflop_text(const IsoflopAnalysis& analysis);

/// A line per size: budget, family, size, parameters, FLOPs per token, learning rate, seeds, mean
/// loss, deviation, top-k loss, steps per second.
std::string isoflop_points_csv(const IsoflopAnalysis& analysis);
/// A line per curve: the fit and its minimum, with intervals.
std::string isoflop_fit_csv(const IsoflopAnalysis& analysis);

/// One self-contained web page: loss over parameters and over FLOPs per forward pass (relative to
/// the baseline's optimum), learning curves of each family's best size, causal against top-k
/// losses, step speed, and the tables. Learning curves are read from the runs' logs in `folder`.
std::string isoflop_html(const IsoflopPlan& plan, const IsoflopAnalysis& analysis,
                         const std::filesystem::path& folder);

}  // namespace lagom::lm

#pragma once

#include <string>
#include <vector>

#include "lagom/tune/tuner.h"

namespace lagom::tune {

/// The search as an SVG: a point per measured trial at its time and speed-up, the best so far as a
/// line, the noise floor as a band around 1.
std::string search_chart_svg(const TuneResult& result);

/// One horizontal bar of a table: `before` and `after` as shares of `largest`.
std::string bar_pair_html(double before, double after, double largest);

}  // namespace lagom::tune

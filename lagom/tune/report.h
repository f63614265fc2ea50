#pragma once

#include <string>

#include "lagom/tune/tuner.h"

namespace lagom::tune {

/// The result as one self-contained web page: no network, light and dark, fit for a phone.
std::string report_html(const hlo::Module& module, const SearchSpace& space,
                        const TuneResult& result);

}  // namespace lagom::tune

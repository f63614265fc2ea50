#pragma once

#include <string>

#include "lagom/lm/route_analysis.h"

namespace lagom::lm {

/// One window as rows of characters, `columns` tokens to a line: the text, then for each routed
/// block a full shade where the token entered and lighter ones by the quarter that its router
/// weight has among the window's. Throws std::out_of_range for a window that is not there.
std::string route_map_text(const RouteTable& table, const text::Tokenizer& tokenizer,
                           int64_t window, int64_t columns = 64);

/// The analysis as a table of text.
std::string routes_text(const RouteAnalysis& analysis, const std::vector<RouteControl>& controls);

/// Everything as one self-contained web page. `title` names model and text.
std::string routes_html(const std::string& title, const RouteTable& table,
                        const RouteAnalysis& analysis, const std::vector<RouteControl>& controls,
                        const text::Tokenizer& tokenizer, int64_t window);

/// The bytes so that they stay on a line: newlines, tabs and what cannot be shown as escapes.
std::string visible_bytes(std::string_view bytes);

}  // namespace lagom::lm

#pragma once

// Values as HLO text: strings, lists, numbers, literals. Private to lagom/hlo.

#include <string>
#include <string_view>

#include "lagom/hlo/module.h"
#include "lagom/hlo/text_writer.h"

namespace lagom::hlo::detail {

/// In double quotes, with C escapes.
std::string quote(std::string_view text);
/// A JSON dictionary is printed bare, as XLA does; anything else in quotes.
std::string quoted_or_json(const std::string& text);
void append_list(std::string& out, const Dims& values, char open = '{', char close = '}');
/// The shortest decimal that reads back as the same number.
void append_number(std::string& out, double value, bool single);
void append_literal(std::string& out, const Literal& literal, const TextOptions& options);
bool is_identifier(std::string_view text);

}  // namespace lagom::hlo::detail

#pragma once

#include <string_view>
#include <vector>

#include "lagom/hlo/module.h"

namespace lagom::hlo {

/// Reads one module of HLO text, in the long and short print forms of XLA's dumps, with or without
/// a header line. Attributes that are not decoded are kept as text.
///
/// `path` names the text in errors. Throws FormatError with line, column, what was found and what
/// was expected; unknown operands, computations and repeated names are such errors too. Shapes are
/// not checked against the operations: `verify` does.
Module read_hlo_text(std::string_view text, std::string_view path);

/// Reads a file that may hold several modules, parted by lines that begin with "// -----".
std::vector<Module> read_hlo_text_modules(std::string_view text, std::string_view path);

/// A shape by itself, such as "f32[4,8]{1,0}".
Shape read_shape_text(std::string_view text);

}  // namespace lagom::hlo

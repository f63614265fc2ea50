#pragma once

// Pieces of the text grammar that the text reader is made of. Private to lagom/hlo.

#include <memory>
#include <string>
#include <string_view>

#include "lagom/hlo/module.h"
#include "lagom/hlo/text_cursor.h"

namespace lagom::hlo::detail {

/// Nesting of tuples, literals and operands that is accepted.
inline constexpr int kMaxDepth = 256;

Shape read_shape(TextCursor& cursor, int depth = 0);
/// True when the cursor stands before a shape: '(' or an element type followed by '[' or '('.
bool at_shape(TextCursor& cursor);
Literal read_literal(TextCursor& cursor, const Shape& shape, int depth = 0);

Dims read_integers(TextCursor& cursor, std::string_view what);  ///< {1,2,3}
Sharding read_sharding(TextCursor& cursor, int depth = 0);
Metadata read_metadata(TextCursor& cursor);
StringMap read_string_map(TextCursor& cursor, std::string_view what);
ProgramShape read_program_shape(TextCursor& cursor);
/// The attributes of the module's header line that follow its name.
void read_header_attribute(TextCursor& cursor, std::string_view name, Module& module);
/// Any attribute but those that name computations or instructions.
void read_attribute(TextCursor& cursor, std::string_view name, Instruction& instruction);

}  // namespace lagom::hlo::detail

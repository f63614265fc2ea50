#pragma once

#include <nlohmann/json.hpp>

namespace lagom::testing {

/// A tokenizer.json: 256 bytes as ids 0 .. 255, then one id for each of the merges `a b`, `ab c`,
/// `b c`, `Ġ ab`, `Ã ¤` (Ġ is the space; Ã ¤ the two bytes of ä), then <|endoftext|>, 261.
nlohmann::json small_tokenizer();

}  // namespace lagom::testing

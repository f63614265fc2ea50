#pragma once

// Byte-pair encoding over bytes, however the merges were written down.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lagom/text/pre_tokenizer.h"
#include "lagom/text/tokenizer.h"

namespace lagom::text {

/// What a byte-level BPE tokenizer is made of.
struct BpeParts {
  std::vector<std::string> tokens;  ///< Bytes of each id; empty where an id has none.
  struct Merge {
    TokenId left, right, merged;
    int32_t rank;  ///< Lower ones come first; of equal ones the leftmost in the text.
  };
  std::vector<Merge> merges;
  std::vector<PreTokenizer> pre_tokenizers;  ///< Each cuts the pieces of the one before.
  /// Names that stand for one token wherever they occur in the text; also in `tokens`.
  std::vector<std::pair<std::string, TokenId>> special;
  std::optional<TokenId> end_of_text;
  bool whole_pieces_first = false;  ///< A piece that is a token is taken without merging.
  bool prefix_space = false;        ///< A space is put before text that does not begin with one.
};

/// Throws std::invalid_argument when one of the 256 bytes has no token.
std::unique_ptr<Tokenizer> make_bpe_tokenizer(BpeParts parts);

/// `tokenizer.json` and tiktoken ranks, from their text; `name` stands for the file in messages.
std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view json, const std::string& name);
std::unique_ptr<Tokenizer> parse_tiktoken_ranks(std::string_view lines, const std::string& name);

}  // namespace lagom::text

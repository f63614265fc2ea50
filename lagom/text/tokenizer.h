#pragma once

// Text to token ids and back.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lagom::text {

using TokenId = int32_t;

/// Any bytes are text: what is no UTF-8 is encoded byte by byte, and decoding gives it back.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual int64_t vocab_size() const = 0;  ///< Ids are 0 .. vocab_size() - 1.
  /// Names of special tokens in the text (`<|endoftext|>`) become those tokens.
  virtual std::vector<TokenId> encode(std::string_view text) const = 0;
  /// The bytes that a token stands for; empty for an id without one.
  virtual std::string_view token_bytes(TokenId id) const = 0;
  /// The token that ends a document.
  virtual std::optional<TokenId> end_of_text() const = 0;

  std::string decode(std::span<const TokenId> ids) const;
};

/// One token per byte, 256 in all; a zero byte ends a document.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// Reads byte-level BPE: a `tokenizer.json` of Hugging Face's tokenizers, or a file of tiktoken
/// ranks (lines of a token in base64 and its rank), told apart by their contents.
///
/// A `tokenizer.json` may have a ByteLevel, Split (isolated), Digits or Sequence pre-tokenizer; no
/// normalizer but NFC, which is left out. tiktoken files do not carry their pattern: it is that of
/// GPT-2, cl100k or o200k by the number of ranks.
/// Throws FormatError naming the part that is broken or that this reader does not know.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path);

/// The start of a text that can be shown: cut before a UTF-8 sequence that is not complete yet.
std::string_view complete_utf8(std::string_view text);

}  // namespace lagom::text

#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "lagom/text/tokenizer.h"
#include "lagom/util/mapped_file.h"

namespace lagom::text {

/// The tokens of a corpus, memory mapped: a shard that nanoGPT or llm.c wrote, or plain bytes.
///
/// docs/formats.md has the layouts. llm.c's files begin with their magic number and say how many
/// tokens follow; any other file of the ending `.bin` is nanoGPT's: 16-bit ids from end to end.
class TokenFile {
 public:
  /// Opens a shard. Throws FormatError for a header that claims another size than the file's, an
  /// unknown version, or an odd number of bytes.
  static TokenFile open_shard(const std::filesystem::path& path);
  /// Takes each byte of a file as a token.
  static TokenFile open_bytes(const std::filesystem::path& path);

  int64_t size() const { return size_; }
  TokenId operator[](int64_t index) const;
  /// Copies `out.size()` tokens from `begin` on. Throws FormatError, with the place, for one that
  /// is not below `vocab_size`.
  void read(int64_t begin, std::span<int64_t> out, int64_t vocab_size) const;

 private:
  TokenFile(const std::filesystem::path& path, int64_t header_bytes, int bytes_per_token);

  std::string path_;
  MappedFile file_;
  const char* data_ = nullptr;
  int64_t size_ = 0;
  int width_ = 1;  ///< Bytes per token: 1, 2 or 4.
};

/// Writes a shard as llm.c does: 16-bit ids when `vocab_size` allows, 32-bit ones otherwise.
void write_shard(const std::filesystem::path& path, std::span<const TokenId> tokens,
                 int64_t vocab_size);

/// Reads the documents of a text file (one) or of JSON lines (each line's `text`, or the string
/// itself) and writes them as a shard, each followed by the tokenizer's end-of-text token.
/// Throws FormatError with the line for one that is no JSON or has no text.
void write_corpus(const std::filesystem::path& in, const Tokenizer& tokenizer,
                  const std::filesystem::path& out);

}  // namespace lagom::text

#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "lagom/text/token_file.h"
#include "lagom/text/tokenizer.h"
#include "lagom/text/window_sampler.h"

namespace lagom::lm {

struct DataOptions {
  std::string train;  ///< Text, `.jsonl`, or `.bin` token shard; relative to the working folder.
  std::string validation;           ///< Likewise; empty: the end of the training text is held out.
  double validation_share = 0.05;   ///< How much of it, in (0, 1).
  std::string tokenizer = "bytes";  ///< "bytes", or a tokenizer.json or file of tiktoken ranks.
  /// Tokens see only their own document: the end-of-text token parts them.
  bool documents = true;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("train", self.train);
    visit("validation", self.validation);
    visit("validation_share", self.validation_share);
    visit("tokenizer", self.tokenizer);
    visit("documents", self.documents);
  }
};

/// Sequences and what follows each of their tokens.
struct LmBatch {
  at::Tensor tokens;    ///< int64 [B, T]
  at::Tensor targets;   ///< int64 [B, T]: the next tokens.
  at::Tensor segments;  ///< int64 [B, T]: documents counted from 0; undefined: one document.
};

/// A part of a corpus, memory mapped.
class TokenRange {
 public:
  TokenRange(std::shared_ptr<const text::TokenFile> file, int64_t begin, int64_t end);

  int64_t size() const { return end_ - begin_; }
  /// Its tokens from `begin` to before `end`, counted from its own start.
  TokenRange part(int64_t begin, int64_t end) const {
    return {file_, begin_ + begin, begin_ + end};
  }
  /// Windows of `length` tokens that begin at these places of the range.
  /// Throws FormatError for tokens that the vocabulary has not.
  LmBatch batch(std::span<const int64_t> begins, int64_t length, int64_t vocab_size,
                std::optional<int32_t> end_of_text) const;

 private:
  std::shared_ptr<const text::TokenFile> file_;
  int64_t begin_, end_;
};

/// What a model is trained on and what it is judged by.
struct LmData {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  TokenRange train, validation;
};

/// Opens a corpus. Text under the byte tokenizer and shards are mapped as they are; other text is
/// tokenized once into `cache` (a folder), under a name made of its size, time and tokenizer.
/// Throws FormatError or std::invalid_argument naming what is wrong.
LmData open_data(const DataOptions& options, const std::filesystem::path& cache);

}  // namespace lagom::lm

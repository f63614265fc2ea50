#include "lagom/lm/data.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <stdexcept>

#include "lagom/lm/checkpoint.h"
#include "lagom/util/error.h"
#include "lagom/util/hash.h"

namespace lagom::lm {
namespace {

std::shared_ptr<const text::TokenFile> open_tokens(const std::string& name,
                                                   const DataOptions& options,
                                                   const text::Tokenizer& tokenizer,
                                                   const std::filesystem::path& cache) {
  const std::filesystem::path path(name);
  if (!std::filesystem::is_regular_file(path)) throw SystemError(name + ": is no file");
  if (path.extension() == ".bin") {
    return std::make_shared<text::TokenFile>(text::TokenFile::open_shard(path));
  }
  const bool is_plain = path.extension() != ".jsonl" && path.extension() != ".gz";
  if (options.tokenizer == "bytes" && is_plain) {
    return std::make_shared<text::TokenFile>(text::TokenFile::open_bytes(path));
  }
  const auto modified = std::filesystem::last_write_time(path).time_since_epoch().count();
  const std::string key = std::filesystem::absolute(path).string() + '\n' +
                          std::to_string(std::filesystem::file_size(path)) + '\n' +
                          std::to_string(modified) + '\n' + options.tokenizer;
  const auto shard = cache / (path.stem().string() + "-" + hex64(hash64(key)) + ".bin");
  if (!std::filesystem::exists(shard)) text::write_corpus(path, tokenizer, shard);
  return std::make_shared<text::TokenFile>(text::TokenFile::open_shard(shard));
}

}  // namespace

TokenRange::TokenRange(std::shared_ptr<const text::TokenFile> file, int64_t begin, int64_t end)
    : file_(std::move(file)), begin_(begin), end_(end) {}

LmBatch TokenRange::batch(std::span<const int64_t> begins, int64_t length, int64_t vocab_size,
                          std::optional<int32_t> end_of_text) const {
  const auto rows = std::ssize(begins);
  at::Tensor all = at::empty({rows, length + 1}, at::kLong);
  auto* ids = all.mutable_data_ptr<int64_t>();
  for (int64_t row = 0; row < rows; ++row) {
    file_->read(begin_ + begins[static_cast<size_t>(row)],
                {ids + row * (length + 1), static_cast<size_t>(length + 1)}, vocab_size);
  }
  LmBatch batch;
  batch.tokens = all.narrow(1, 0, length).contiguous();
  batch.targets = all.narrow(1, 1, length).contiguous();
  if (!end_of_text) return batch;
  // A document's last token is its end; the one after it begins the next.
  const at::Tensor ends = (batch.tokens == static_cast<int64_t>(*end_of_text)).to(at::kLong);
  const at::Tensor segments = ends.cumsum(1) - ends;  // [B, T]
  if (segments.max().item<int64_t>() > 0) batch.segments = segments;
  return batch;
}

LmData open_data(const DataOptions& options, const std::filesystem::path& cache) {
  if (options.train.empty()) throw std::invalid_argument("data.train names no file");
  std::shared_ptr<const text::Tokenizer> tokenizer =
      open_tokenizer(options.tokenizer, std::filesystem::current_path());
  const auto train = open_tokens(options.train, options, *tokenizer, cache);
  if (!options.validation.empty()) {
    const auto validation = open_tokens(options.validation, options, *tokenizer, cache);
    return {tokenizer, TokenRange(train, 0, train->size()),
            TokenRange(validation, 0, validation->size())};
  }
  if (!(options.validation_share > 0 && options.validation_share < 1)) {
    throw std::invalid_argument("data.validation_share must be in (0, 1)");
  }
  const auto held_out =
      static_cast<int64_t>(static_cast<double>(train->size()) * options.validation_share);
  const int64_t cut = train->size() - held_out;
  return {tokenizer, TokenRange(train, 0, cut), TokenRange(train, cut, train->size())};
}

}  // namespace lagom::lm

#include "lagom/text/token_file.h"

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "lagom/util/error.h"
#include "lagom/util/file.h"

namespace lagom::text {
namespace {

// llm.c: 256 int32 numbers, of which magic, version and number of tokens are used.
constexpr int64_t kHeaderBytes = 256 * 4;
constexpr int32_t kMagic16 = 20240520, kVersion16 = 1;
constexpr int32_t kMagic32 = 20240801, kVersion32 = 7;

int32_t header_number(std::string_view bytes, size_t index) {
  int32_t value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

void append_document(std::string_view text, const Tokenizer& tokenizer,
                     std::vector<TokenId>& tokens) {
  const std::vector<TokenId> ids = tokenizer.encode(text);
  tokens.insert(tokens.end(), ids.begin(), ids.end());
  if (const auto end = tokenizer.end_of_text()) tokens.push_back(*end);
}

void append_json_lines(std::string_view lines, const std::string& name, const Tokenizer& tokenizer,
                       std::vector<TokenId>& tokens) {
  size_t number = 0;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const std::string where = "line " + std::to_string(number);
    if (value.is_discarded()) throw FormatError(name, where, "is no JSON");
    const auto* text = value.is_object() && value.contains("text") ? &value["text"] : &value;
    if (!text->is_string()) throw FormatError(name, where, "has no string 'text'");
    append_document(text->get_ref<const std::string&>(), tokenizer, tokens);
  }
}

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& path, int64_t header_bytes, int bytes_per_token)
    : path_(path.string()), file_(path), width_(bytes_per_token) {
  data_ = file_.bytes().data() + header_bytes;
  size_ = (static_cast<int64_t>(file_.bytes().size()) - header_bytes) / width_;
}

TokenFile TokenFile::open_bytes(const std::filesystem::path& path) {
  return TokenFile(path, 0, 1);
}

TokenFile TokenFile::open_shard(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::string_view bytes = file.bytes();
  const int32_t magic = bytes.size() >= kHeaderBytes ? header_number(bytes, 0) : 0;
  if (magic != kMagic16 && magic != kMagic32) {
    if (bytes.size() % 2 != 0) {
      throw FormatError(path.string(), "", "has an odd number of bytes, expected 16-bit tokens");
    }
    return TokenFile(path, 0, 2);
  }
  const int width = magic == kMagic16 ? 2 : 4;
  const int32_t version = header_number(bytes, 1), expected = width == 2 ? kVersion16 : kVersion32;
  if (version != expected) {
    throw FormatError(
        path.string(), "header",
        "expected version " + std::to_string(expected) + ", found " + std::to_string(version));
  }
  TokenFile shard(path, kHeaderBytes, width);
  const int32_t claimed = header_number(bytes, 2);
  const auto there = static_cast<int64_t>(bytes.size()) - kHeaderBytes;
  if (claimed < 0 || there != static_cast<int64_t>(claimed) * width) {
    throw FormatError(path.string(), "header",
                      "claims " + std::to_string(claimed) + " tokens, the file has " +
                          std::to_string(shard.size_));
  }
  return shard;
}

TokenId TokenFile::operator[](int64_t index) const {
  const char* at = data_ + index * width_;
  if (width_ == 1) return static_cast<uint8_t>(*at);
  if (width_ == 2) {
    uint16_t id = 0;
    std::memcpy(&id, at, sizeof id);
    return id;
  }
  uint32_t id = 0;
  std::memcpy(&id, at, sizeof id);
  constexpr uint32_t kLargest = std::numeric_limits<TokenId>::max();
  return static_cast<TokenId>(std::min(id, kLargest));  // beyond any vocabulary either way
}

void TokenFile::read(int64_t begin, std::span<int64_t> out, int64_t vocab_size) const {
  if (begin < 0 || begin + std::ssize(out) > size_) {
    throw std::invalid_argument("TokenFile: no tokens " + std::to_string(begin) + " to " +
                                std::to_string(begin + std::ssize(out)) + " in " + path_);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = (*this)[begin + static_cast<int64_t>(i)];
    if (out[i] >= vocab_size) {
      throw FormatError(
          path_, "token " + std::to_string(begin + static_cast<int64_t>(i)),
          "is " + std::to_string(out[i]) + ", the vocabulary has " + std::to_string(vocab_size));
    }
  }
}

void write_shard(const std::filesystem::path& path, std::span<const TokenId> tokens,
                 int64_t vocab_size) {
  constexpr int64_t kMost16 = 65536;
  const bool narrow = vocab_size <= kMost16;
  if (tokens.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    throw std::invalid_argument("a shard holds at most 2^31 - 1 tokens: split the corpus");
  }
  std::string bytes(kHeaderBytes, '\0');
  const int32_t header[] = {narrow ? kMagic16 : kMagic32, narrow ? kVersion16 : kVersion32,
                            static_cast<int32_t>(tokens.size())};
  std::memcpy(bytes.data(), header, sizeof header);
  const size_t width = narrow ? 2 : 4;
  bytes.resize(bytes.size() + tokens.size() * width);
  char* at = bytes.data() + kHeaderBytes;
  for (const TokenId token : tokens) {
    // Little endian: the first bytes are the low ones.
    std::memcpy(at, &token, width);
    at += width;
  }
  write_file(path, bytes);
}

void write_corpus(const std::filesystem::path& in, const Tokenizer& tokenizer,
                  const std::filesystem::path& out) {
  const std::string contents = read_file(in);
  std::vector<TokenId> tokens;
  if (in.extension() == ".jsonl" || in.string().ends_with(".jsonl.gz")) {
    append_json_lines(contents, in.string(), tokenizer, tokens);
  } else {
    append_document(contents, tokenizer, tokens);
  }
  write_shard(out, tokens, tokenizer.vocab_size());
}

}  // namespace lagom::text

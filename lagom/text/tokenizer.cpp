#include "lagom/text/tokenizer.h"

#include "lagom/text/bpe.h"
#include "lagom/util/file.h"

namespace lagom::text {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() {
    for (size_t byte = 0; byte < bytes_.size(); ++byte) bytes_[byte] = static_cast<char>(byte);
  }
  int64_t vocab_size() const override { return static_cast<int64_t>(bytes_.size()); }
  std::optional<TokenId> end_of_text() const override { return 0; }
  std::vector<TokenId> encode(std::string_view text) const override {
    std::vector<TokenId> ids;
    ids.reserve(text.size());
    for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
    return ids;
  }
  std::string_view token_bytes(TokenId id) const override {
    if (id < 0 || id >= vocab_size()) return {};
    return std::string_view(bytes_).substr(static_cast<size_t>(id), 1);
  }

 private:
  std::string bytes_ = std::string(256, '\0');
};

}  // namespace

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) text += token_bytes(id);
  return text;
}

std::unique_ptr<Tokenizer> make_byte_tokenizer() {
  return std::make_unique<ByteTokenizer>();
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  const std::string contents = read_file(path);
  const size_t first = contents.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && contents[first] == '{';
  return is_json ? parse_tokenizer_json(contents, path.string())
                 : parse_tiktoken_ranks(contents, path.string());
}

std::string_view complete_utf8(std::string_view text) {
  // The last sequence begins at most four bytes before the end.
  for (size_t back = 1; back <= 4 && back <= text.size(); ++back) {
    const auto byte = static_cast<uint8_t>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const size_t length = byte < 0x80 ? 1 : byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return length > back ? text.substr(0, text.size() - back) : text;
  }
  return text;
}

}  // namespace lagom::text

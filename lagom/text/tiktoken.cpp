#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "lagom/text/bpe.h"
#include "lagom/util/error.h"

namespace lagom::text {
namespace {

std::optional<std::string> from_base64(std::string_view text) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char c : text) {
    constexpr std::string_view kAlphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count);
    }
  }
  return bytes;
}

/// Published rank files: how many ranks they may have, their pattern, and where <|endoftext|> is.
struct Published {
  size_t most_ranks;
  const char* pattern;
  TokenId end_of_text;
};
const std::array<Published, 3> kPublished = {{{50300, patterns::kGpt2, 50256},
                                              {150000, patterns::kCl100k, 100257},
                                              {1 << 24, patterns::kO200k, 199999}}};

}  // namespace

std::unique_ptr<Tokenizer> parse_tiktoken_ranks(std::string_view lines, const std::string& name) {
  BpeParts parts;
  std::unordered_map<std::string, TokenId> ids;
  size_t line_number = 0;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::string where = "line " + std::to_string(line_number);
    const size_t space = line.find(' ');
    const auto bytes = from_base64(line.substr(0, space));
    TokenId id = -1;
    const std::string_view rank = space == std::string_view::npos ? "" : line.substr(space + 1);
    const auto [stop, error] = std::from_chars(rank.data(), rank.data() + rank.size(), id);
    if (!bytes || bytes->empty() || error != std::errc{} || stop != rank.data() + rank.size() ||
        id < 0 || id >= 1 << 24) {
      throw FormatError(name, where, "expected a token in base64 and its rank");
    }
    if (static_cast<size_t>(id) >= parts.tokens.size()) {
      parts.tokens.resize(static_cast<size_t>(id) + 1);
    }
    if (!parts.tokens[static_cast<size_t>(id)].empty() || !ids.emplace(*bytes, id).second) {
      throw FormatError(name, where, "repeats a token or rank");
    }
    parts.tokens[static_cast<size_t>(id)] = *bytes;
  }
  if (ids.empty()) throw FormatError(name, "", "has no tokens");

  parts.whole_pieces_first = true;
  // Two neighbours merge when their joined bytes are a token; its rank decides which come first.
  for (size_t id = 0; id < parts.tokens.size(); ++id) {
    const std::string& token = parts.tokens[id];
    for (size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = ids.find(token.substr(0, cut)), right = ids.find(token.substr(cut));
      if (left != ids.end() && right != ids.end()) {
        const auto merged = static_cast<TokenId>(id);
        parts.merges.push_back({left->second, right->second, merged, merged});
      }
    }
  }
  const auto published =
      std::find_if(kPublished.begin(), kPublished.end(),
                   [&](const Published& p) { return ids.size() <= p.most_ranks; });
  parts.pre_tokenizers.emplace_back(published->pattern);
  const auto end = std::max(published->end_of_text, static_cast<TokenId>(parts.tokens.size()));
  const bool full = parts.tokens.size() + 8 >= static_cast<size_t>(published->end_of_text);
  const TokenId end_of_text = full ? end : static_cast<TokenId>(parts.tokens.size());
  parts.tokens.resize(static_cast<size_t>(end_of_text) + 1);
  parts.tokens.back() = "<|endoftext|>";
  parts.special.emplace_back("<|endoftext|>", end_of_text);
  parts.end_of_text = end_of_text;
  try {
    return make_bpe_tokenizer(std::move(parts));
  } catch (const std::invalid_argument& error) {
    throw FormatError(name, "", error.what());
  }
}

}  // namespace lagom::text

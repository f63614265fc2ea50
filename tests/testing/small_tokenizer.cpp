#include "tests/testing/small_tokenizer.h"

#include <string>

namespace lagom::testing {
namespace {

using nlohmann::json;

/// The character that a byte-level vocabulary writes for a byte, for printable ASCII and the space.
std::string printable(int byte) {
  const auto utf8 = [](int code) {
    if (code < 0x80) return std::string(1, static_cast<char>(code));
    return std::string{static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
  };
  int next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool plain = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    const int code = plain ? b : next++;
    if (b == byte) return utf8(code);
  }
  return {};
}

}  // namespace

json small_tokenizer() {
  json vocab, merges = json::array();
  for (int byte = 0; byte < 256; ++byte) vocab[printable(byte)] = byte;
  int id = 256;
  for (const char* merge : {"a b", "ab c", "b c", "Ġ ab", "Ã ¤"}) {
    const std::string text = merge;
    const size_t space = text.find(' ');
    vocab[text.substr(0, space) + text.substr(space + 1)] = id++;
    merges.push_back(text);
  }
  return {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"added_tokens", {{{"id", 261}, {"content", "<|endoftext|>"}, {"special", true}}}}};
}

}  // namespace lagom::testing

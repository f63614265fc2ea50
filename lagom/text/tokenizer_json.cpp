#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "lagom/text/bpe.h"
#include "lagom/util/error.h"

namespace lagom::text {
namespace {

using nlohmann::json;

/// Byte-level vocabularies write each byte as a character that can be printed: those of Latin-1
/// that are, as themselves, and the other 68 as U+0100, U+0101, ... in the bytes' order.
std::unordered_map<char32_t, char> printable_bytes() {
  std::unordered_map<char32_t, char> bytes;
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    bytes[printable ? static_cast<char32_t>(byte) : next++] = static_cast<char>(byte);
  }
  return bytes;
}

/// Reads one JSON document, with the file's name in its complaints.
class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : name_(name) {
    try {
      root_ = json::parse(text);
    } catch (const json::parse_error& error) {
      throw FormatError(name_, "byte " + std::to_string(error.byte), "is no JSON");
    }
  }

  BpeParts read() {
    const json& model = member(root_, "model");
    if (model.value("type", "BPE") != "BPE") {
      fail("model.type", "expected BPE, found " + model["type"].dump());
    }
    if (model.value("byte_fallback", false)) {
      fail("model.byte_fallback", "only byte-level BPE is read");
    }
    read_vocabulary(member(model, "vocab"));
    read_merges(member(model, "merges"));
    parts_.whole_pieces_first = model.value("ignore_merges", false);
    read_normalizer();
    if (root_.contains("pre_tokenizer") && !root_["pre_tokenizer"].is_null()) {
      read_pre_tokenizer(root_["pre_tokenizer"]);
    }
    if (root_.contains("added_tokens")) read_added_tokens(root_["added_tokens"]);
    return std::move(parts_);
  }

 private:
  [[noreturn]] void fail(const std::string& where, const std::string& what) const {
    throw FormatError(name_, where, what);
  }

  const json& member(const json& object, const char* key) const {
    if (!object.is_object() || !object.contains(key)) fail(key, "is missing");
    return object[key];
  }

  /// The bytes of a token's printable form.
  std::string bytes_of(const std::string& printable) const {
    std::string bytes;
    for (size_t i = 0; i < printable.size();) {
      const auto lead = static_cast<uint8_t>(printable[i]);
      const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
      char32_t code = length == 1 ? lead : lead & (0x7F >> length);
      for (size_t k = 1; k < length && i + k < printable.size(); ++k) {
        code = code << 6 | (static_cast<uint8_t>(printable[i + k]) & 0x3F);
      }
      const auto found = bytes_.find(code);
      if (found == bytes_.end()) {
        fail("token '" + printable + "'", "has a character that stands for no byte");
      }
      bytes += found->second;
      i += length;
    }
    return bytes;
  }

  void set_token(TokenId id, const std::string& token, std::string bytes) {
    constexpr TokenId kMost = 1 << 24;
    if (id < 0 || id >= kMost) fail("token '" + token + "'", "has id " + std::to_string(id));
    if (static_cast<size_t>(id) >= parts_.tokens.size()) {
      parts_.tokens.resize(static_cast<size_t>(id) + 1);
    }
    parts_.tokens[static_cast<size_t>(id)] = std::move(bytes);
  }

  void read_vocabulary(const json& vocab) {
    if (!vocab.is_object()) fail("model.vocab", "is no object");
    for (const auto& [token, id] : vocab.items()) {
      if (!id.is_number_integer()) fail("token '" + token + "'", "has no whole number as its id");
      ids_[token] = id.get<TokenId>();
    }
    // Added tokens may stand in the vocabulary too, in plain text.
    std::unordered_set<std::string> plain;
    if (root_.contains("added_tokens")) {
      for (const json& added : root_["added_tokens"]) plain.insert(added.value("content", ""));
    }
    for (const auto& [token, id] : ids_) {
      set_token(id, token, plain.contains(token) ? token : bytes_of(token));
    }
  }

  void read_merges(const json& merges) {
    int32_t rank = -1;
    for (const json& merge : merges) {
      const std::string where = "model.merges[" + std::to_string(++rank) + "]";
      std::string left, right;
      if (merge.is_string()) {
        const auto text = merge.get<std::string>();
        const size_t space = text.find(' ');
        if (space == std::string::npos) fail(where, "expected two tokens, found '" + text + "'");
        left = text.substr(0, space);
        right = text.substr(space + 1);
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
                 merge[1].is_string()) {
        left = merge[0];
        right = merge[1];
      } else {
        fail(where, "expected two tokens, found " + merge.dump());
      }
      parts_.merges.push_back(
          {id_of(left, where), id_of(right, where), id_of(left + right, where), rank});
    }
  }

  TokenId id_of(const std::string& token, const std::string& where) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) fail(where, "'" + token + "' is not in the vocabulary");
    return found->second;
  }

  void read_normalizer() const {
    if (!root_.contains("normalizer") || root_["normalizer"].is_null()) return;
    const std::string type = root_["normalizer"].value("type", "");
    if (type != "NFC") fail("normalizer", "expected none, found " + type);
  }

  void read_pre_tokenizer(const json& pre) {
    const std::string type = pre.value("type", "");
    if (type == "Sequence") {
      for (const json& part : member(pre, "pretokenizers")) read_pre_tokenizer(part);
    } else if (type == "ByteLevel") {
      parts_.prefix_space = parts_.prefix_space || pre.value("add_prefix_space", false);
      if (pre.value("use_regex", true)) parts_.pre_tokenizers.emplace_back(patterns::kGpt2);
    } else if (type == "Digits") {
      parts_.pre_tokenizers.emplace_back(pre.value("individual_digits", false) ? R"(\p{N})"
                                                                               : R"(\p{N}+)");
    } else if (type == "Split") {
      const json& pattern = member(pre, "pattern");
      const std::string behavior = pre.value("behavior", "");
      const bool matches_only = behavior == "Removed" && pre.value("invert", false);
      if (behavior != "Isolated" && !matches_only) {
        fail("pre_tokenizer", "Split: expected the behavior Isolated, found " + behavior);
      }
      if (!pattern.contains("Regex")) fail("pre_tokenizer", "Split: expected a Regex");
      add_pattern(pattern["Regex"].get<std::string>());
    } else {
      fail("pre_tokenizer", "type '" + type + "' is not known");
    }
  }

  void add_pattern(const std::string& pattern) {
    try {
      parts_.pre_tokenizers.emplace_back(pattern);
    } catch (const std::invalid_argument& error) {
      fail("pre_tokenizer", error.what());
    }
  }

  void read_added_tokens(const json& added_tokens) {
    for (const json& added : added_tokens) {
      const std::string content = added.value("content", "");
      if (content.empty()) fail("added_tokens", "a token has no content");
      const auto id = added.value("id", TokenId{-1});
      set_token(id, content, content);
      parts_.special.emplace_back(content, id);
      for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>"}) {
        if (content == name && !parts_.end_of_text) parts_.end_of_text = id;
      }
    }
  }

  std::string name_;
  json root_;
  BpeParts parts_;
  std::unordered_map<char32_t, char> bytes_ = printable_bytes();
  std::unordered_map<std::string, TokenId> ids_;
};

}  // namespace

std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view text, const std::string& name) {
  try {
    return make_bpe_tokenizer(Reader(text, name).read());
  } catch (const json::exception& error) {
    throw FormatError(name, "", error.what());
  } catch (const std::invalid_argument& error) {
    throw FormatError(name, "model.vocab", error.what());
  }
}

}  // namespace lagom::text

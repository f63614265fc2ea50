#include "lagom/text/bpe.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <queue>
#include <stdexcept>

namespace lagom::text {
namespace {

uint64_t pair_key(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

/// Transparent, so that pieces are looked up without a copy.
struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
template <typename T>
using StringMap = std::unordered_map<std::string, T, StringHash, std::equal_to<>>;

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeParts parts) : parts_(std::move(parts)) {
    byte_tokens_.fill(-1);
    for (size_t id = 0; id < parts_.tokens.size(); ++id) {
      const std::string& bytes = parts_.tokens[id];
      if (bytes.empty()) continue;
      ids_.emplace(bytes, static_cast<TokenId>(id));
      if (bytes.size() == 1)
        byte_tokens_[static_cast<uint8_t>(bytes[0])] = static_cast<TokenId>(id);
    }
    for (size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
      if (byte_tokens_[byte] < 0) {
        throw std::invalid_argument("no token for byte " + std::to_string(byte));
      }
    }
    for (const BpeParts::Merge& merge : parts_.merges) {
      ranks_.emplace(pair_key(merge.left, merge.right), Rank{merge.rank, merge.merged});
    }
    // Of two names that begin alike the longer is meant.
    std::sort(parts_.special.begin(), parts_.special.end(),
              [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  }

  int64_t vocab_size() const override { return static_cast<int64_t>(parts_.tokens.size()); }
  std::optional<TokenId> end_of_text() const override { return parts_.end_of_text; }

  std::string_view token_bytes(TokenId id) const override {
    if (id < 0 || static_cast<size_t>(id) >= parts_.tokens.size()) return {};
    return parts_.tokens[static_cast<size_t>(id)];
  }

  std::vector<TokenId> encode(std::string_view text) const override {
    std::vector<TokenId> ids;
    while (!text.empty()) {
      const auto [at, special] = find_special(text);
      encode_plain(text.substr(0, at), ids);
      if (!special) break;
      ids.push_back(special->second);
      text.remove_prefix(at + special->first.size());
    }
    return ids;
  }

 private:
  struct Rank {
    int32_t rank;
    TokenId merged;
  };

  std::pair<size_t, const std::pair<std::string, TokenId>*> find_special(
      std::string_view text) const {
    std::pair<size_t, const std::pair<std::string, TokenId>*> first = {text.size(), nullptr};
    for (const auto& special : parts_.special) {
      const size_t at = text.find(special.first);
      if (at < first.first) first = {at, &special};
    }
    return first;
  }

  void encode_plain(std::string_view text, std::vector<TokenId>& ids) const {
    if (text.empty()) return;
    std::string spaced;
    if (parts_.prefix_space && text.front() != ' ') {
      spaced = " " + std::string(text);
      text = spaced;
    }
    std::vector<std::string_view> pieces = {text}, finer;
    for (const PreTokenizer& cut : parts_.pre_tokenizers) {
      finer.clear();
      for (const std::string_view piece : pieces) cut.split(piece, finer);
      pieces.swap(finer);
    }
    for (const std::string_view piece : pieces) encode_piece(piece, ids);
  }

  void encode_piece(std::string_view piece, std::vector<TokenId>& ids) const {
    if (piece.size() == 1) {
      ids.push_back(byte_tokens_[static_cast<uint8_t>(piece[0])]);
      return;
    }
    if (parts_.whole_pieces_first) {
      if (const auto found = ids_.find(piece); found != ids_.end()) {
        ids.push_back(found->second);
        return;
      }
    }
    constexpr size_t kLongestRemembered = 64;
    if (piece.size() > kLongestRemembered) {
      merge_piece(piece, ids);
      return;
    }
    const std::lock_guard lock(mutex_);
    auto found = remembered_.find(piece);
    if (found == remembered_.end()) {
      constexpr size_t kMostRemembered = 1 << 18;
      if (remembered_.size() >= kMostRemembered) remembered_.clear();
      std::vector<TokenId> merged;
      merge_piece(piece, merged);
      found = remembered_.emplace(std::string(piece), std::move(merged)).first;
    }
    ids.insert(ids.end(), found->second.begin(), found->second.end());
  }

  /// Takes the merge of the lowest rank, the leftmost of equal ones, until none is left: a linked
  /// list of parts and a heap of candidates, so that long pieces take n log n.
  void merge_piece(std::string_view piece, std::vector<TokenId>& ids) const {
    struct Part {
      TokenId id;
      int64_t before, after;
    };
    std::vector<Part> parts(piece.size());
    for (size_t i = 0; i < piece.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      parts[i] = {byte_tokens_[static_cast<uint8_t>(piece[i])], at - 1,
                  i + 1 < piece.size() ? at + 1 : -1};
    }
    struct Candidate {
      int32_t rank;
      int64_t at;
      TokenId left, right, merged;
      bool operator<(const Candidate& o) const {  // the heap's top is the largest
        return rank != o.rank ? rank > o.rank : at > o.at;
      }
    };
    std::priority_queue<Candidate> heap;
    const auto consider = [&](int64_t at) {
      if (at < 0 || parts[static_cast<size_t>(at)].after < 0) return;
      const Part& left = parts[static_cast<size_t>(at)];
      const TokenId right = parts[static_cast<size_t>(left.after)].id;
      const auto found = ranks_.find(pair_key(left.id, right));
      if (found != ranks_.end()) {
        heap.push({found->second.rank, at, left.id, right, found->second.merged});
      }
    };
    for (size_t i = 0; i + 1 < parts.size(); ++i) consider(static_cast<int64_t>(i));
    while (!heap.empty()) {
      const Candidate best = heap.top();
      heap.pop();
      Part& left = parts[static_cast<size_t>(best.at)];
      if (left.id != best.left || left.after < 0) continue;  // merged meanwhile
      Part& right = parts[static_cast<size_t>(left.after)];
      if (right.id != best.right) continue;
      left.id = best.merged;
      right.id = -1;
      left.after = right.after;
      if (left.after >= 0) parts[static_cast<size_t>(left.after)].before = best.at;
      consider(left.before);
      consider(best.at);
    }
    for (int64_t at = 0; at >= 0; at = parts[static_cast<size_t>(at)].after) {
      ids.push_back(parts[static_cast<size_t>(at)].id);
    }
  }

  BpeParts parts_;
  StringMap<TokenId> ids_;
  std::array<TokenId, 256> byte_tokens_{};
  std::unordered_map<uint64_t, Rank> ranks_;
  mutable std::mutex mutex_;
  mutable StringMap<std::vector<TokenId>> remembered_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_bpe_tokenizer(BpeParts parts) {
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

}  // namespace lagom::text

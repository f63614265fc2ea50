#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lagom::text {

/// Cuts text into pieces that merges do not cross, by a regular expression.
///
/// Every match is a piece, and so is what lies between matches. Bytes that are no UTF-8 match
/// nothing, and so become pieces too.
class PreTokenizer {
 public:
  /// Throws std::invalid_argument, with the place, for a pattern that is none.
  explicit PreTokenizer(const std::string& pattern);
  ~PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;

  /// Appends the pieces of `text` in order; joined they are the text.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The patterns of published tokenizers.
namespace patterns {
extern const char* const kGpt2;
extern const char* const kCl100k;
extern const char* const kO200k;
}  // namespace patterns

}  // namespace lagom::text

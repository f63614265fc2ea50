#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lagom::hlo::detail {

/// A position in HLO text: skips space and comments, reads single tokens, and reports what was
/// found and expected with line and column. Private to lagom/hlo.
class TextCursor {
 public:
  TextCursor(std::string_view text, std::string_view path)
      : begin_(text.data()), p_(text.data()), end_(text.data() + text.size()), path_(path) {}

  void skip_space();
  /// The next character after space and comments; '\0' at the end.
  char peek() {
    skip_space();
    return p_ < end_ ? *p_ : '\0';
  }
  /// The next character without skipping anything; '\0' at the end.
  char raw_peek(size_t ahead = 0) const {
    return static_cast<size_t>(end_ - p_) > ahead ? p_[ahead] : '\0';
  }
  bool at_end() { return peek() == '\0' && p_ >= end_; }

  bool consume(char c) {
    if (peek() != c || p_ >= end_) return false;
    ++p_;
    return true;
  }
  /// Consumes a sign such as "->" or "<=".
  bool consume(std::string_view sign);
  /// Consumes this identifier, not a longer one that begins with it.
  bool consume_word(std::string_view word);
  void expect(char c, std::string_view where);
  void expect(std::string_view sign, std::string_view where);

  /// [A-Za-z_][A-Za-z0-9_.-]*; an empty view when the next token is something else.
  std::string_view try_identifier();
  std::string_view identifier(std::string_view what);
  /// An identifier with an optional '%' before it, as instruction and computation names have.
  std::string_view name(std::string_view what);
  /// Looks at the next identifier and what follows it without moving.
  std::string_view look_identifier();
  int64_t integer(std::string_view what);
  bool at_integer();
  double real(std::string_view what);
  /// A "quoted string" with C escapes resolved.
  std::string quoted(std::string_view what);
  /// Text up to a ',' or space outside brackets and strings: any attribute value.
  std::string_view balanced(std::string_view what);

  const char* position() const { return p_; }
  void reset(const char* position) { p_ = position; }
  size_t remaining() const { return static_cast<size_t>(end_ - p_); }
  const std::string_view& path() const { return path_; }

  /// Throws FormatError with this position: "expected EXPECTED, found 'TOKEN'".
  [[noreturn]] void fail_expected(std::string_view expected);
  /// Throws FormatError with this position, or that of `at`, and a message of its own.
  [[noreturn]] void fail(std::string_view message, const char* at = nullptr);

 private:
  const char* begin_;
  const char* p_;
  const char* end_;
  std::string_view path_;
};

}  // namespace lagom::hlo::detail

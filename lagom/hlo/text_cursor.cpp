#include "lagom/hlo/text_cursor.h"

#include <charconv>
#include <cstring>

#include "lagom/util/error.h"

namespace lagom::hlo::detail {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_char(char c) { return is_name_start(c) || is_digit(c) || c == '.' || c == '-'; }

}  // namespace

void TextCursor::skip_space() {
  while (p_ < end_) {
    if (is_space(*p_)) {
      ++p_;
    } else if (*p_ == '/' && raw_peek(1) == '*') {
      const std::string_view rest(p_, remaining());
      const size_t close = rest.find("*/", 2);
      if (close == std::string_view::npos) fail("the comment /* has no end");
      p_ += close + 2;
    } else if (*p_ == '/' && raw_peek(1) == '/') {
      const void* newline = std::memchr(p_, '\n', remaining());
      p_ = newline == nullptr ? end_ : static_cast<const char*>(newline);
    } else {
      return;
    }
  }
}

bool TextCursor::consume(std::string_view sign) {
  skip_space();
  if (remaining() < sign.size() || std::memcmp(p_, sign.data(), sign.size()) != 0) return false;
  p_ += sign.size();
  return true;
}

std::string_view TextCursor::try_identifier() {
  skip_space();
  if (p_ >= end_ || !is_name_start(*p_)) return {};
  const char* start = p_;
  // "->" ends a name: in `(a: f32[])->f32[]` nothing is lost, and `x->y` is two tokens.
  while (p_ < end_ && is_name_char(*p_) && !(*p_ == '-' && raw_peek(1) == '>')) ++p_;
  return {start, static_cast<size_t>(p_ - start)};
}

std::string_view TextCursor::look_identifier() {
  const char* start = p_;
  const std::string_view word = try_identifier();
  p_ = start;
  return word;
}

bool TextCursor::consume_word(std::string_view word) {
  const char* start = p_;
  if (try_identifier() == word) return true;
  p_ = start;
  return false;
}

void TextCursor::expect(char c, std::string_view where) {
  if (!consume(c)) fail_expected("'" + std::string(1, c) + "' " + std::string(where));
}

void TextCursor::expect(std::string_view sign, std::string_view where) {
  if (!consume(sign)) fail_expected("'" + std::string(sign) + "' " + std::string(where));
}

std::string_view TextCursor::identifier(std::string_view what) {
  const std::string_view word = try_identifier();
  if (word.empty()) fail_expected(what);
  return word;
}

std::string_view TextCursor::name(std::string_view what) {
  skip_space();
  if (p_ < end_ && *p_ == '%') ++p_;
  if (p_ < end_ && is_digit(*p_)) {  // %0 and the like appear in some old dumps
    const char* start = p_;
    while (p_ < end_ && is_name_char(*p_)) ++p_;
    return {start, static_cast<size_t>(p_ - start)};
  }
  return identifier(what);
}

bool TextCursor::at_integer() {
  const char c = peek();
  return is_digit(c) || (c == '-' && is_digit(raw_peek(1)));
}

int64_t TextCursor::integer(std::string_view what) {
  skip_space();
  int64_t value = 0;
  const auto [rest, error] = std::from_chars(p_, end_, value);
  if (error == std::errc::result_out_of_range) fail("the integer does not fit in 64 bits");
  if (error != std::errc()) fail_expected(what);
  p_ = rest;
  return value;
}

double TextCursor::real(std::string_view what) {
  skip_space();
  double value = 0;
  const auto [rest, error] = std::from_chars(p_, end_, value);
  if (error == std::errc::result_out_of_range) {
    // from_chars leaves the value alone here; underflow to 0 and overflow to inf by hand.
    value = std::strtod(std::string(p_, rest).c_str(), nullptr);
  } else if (error != std::errc()) {
    fail_expected(what);
  }
  p_ = rest;
  return value;
}

std::string TextCursor::quoted(std::string_view what) {
  if (peek() != '"') fail_expected(what);
  const char* start = p_++;
  std::string out;
  while (true) {
    if (p_ >= end_) fail("the string has no closing '\"'", start);
    const char c = *p_++;
    if (c == '"') return out;
    if (c != '\\') {
      out += c;
      continue;
    }
    if (p_ >= end_) fail("the string has no closing '\"'", start);
    const char escape = *p_++;
    switch (escape) {
      case 'n': out += '\n'; break;
      case 't': out += '\t'; break;
      case 'r': out += '\r'; break;
      case 'a': out += '\a'; break;
      case 'b': out += '\b'; break;
      case 'f': out += '\f'; break;
      case 'v': out += '\v'; break;
      case 'x': {
        unsigned value = 0;
        const auto [rest, error] = std::from_chars(p_, std::min(p_ + 2, end_), value, 16);
        if (error != std::errc()) fail("expected hexadecimal digits after '\\x'", p_);
        p_ = rest;
        out += static_cast<char>(value);
        break;
      }
      default:
        if (escape >= '0' && escape <= '7') {
          unsigned value = 0;
          const auto [rest, error] =
              std::from_chars(p_ - 1, std::min(p_ + 2, end_), value, 8);
          if (error == std::errc()) p_ = rest;
          out += static_cast<char>(value);
        } else {
          out += escape;
        }
    }
  }
}

std::string_view TextCursor::balanced(std::string_view what) {
  skip_space();
  const char* start = p_;
  int depth = 0;
  while (p_ < end_) {
    const char c = *p_;
    if (c == '"') {
      const char* open = p_++;
      while (p_ < end_ && *p_ != '"') p_ += *p_ == '\\' ? 2 : 1;
      if (p_ >= end_) fail("the string has no closing '\"'", open);
      ++p_;
      continue;
    }
    if (c == '{' || c == '[' || c == '(') {
      ++depth;
    } else if (c == '}' || c == ']' || c == ')') {
      if (depth == 0) break;
      --depth;
    } else if (depth == 0 && (c == ',' || is_space(c))) {
      break;
    }
    ++p_;
  }
  if (p_ > end_) p_ = end_;
  if (depth > 0) fail("the bracket is not closed", start);
  if (p_ == start) fail_expected(what);
  return {start, static_cast<size_t>(p_ - start)};
}

void TextCursor::fail_expected(std::string_view expected) {
  skip_space();
  std::string found = "the end of the file";
  if (p_ < end_) {
    const char* stop = p_;
    while (stop < end_ && stop - p_ < 40 && is_name_char(*stop)) ++stop;
    if (stop == p_) ++stop;
    found = "'";
    for (const char* c = p_; c < stop; ++c) {
      if (static_cast<unsigned char>(*c) >= 32 && static_cast<unsigned char>(*c) < 127) {
        found += *c;
      } else {
        constexpr char kHex[] = "0123456789abcdef";
        const auto byte = static_cast<unsigned char>(*c);
        found += std::string("\\x") + kHex[byte >> 4] + kHex[byte & 15];
      }
    }
    found += "'";
  }
  fail("expected " + std::string(expected) + ", found " + found);
}

void TextCursor::fail(std::string_view message, const char* at) {
  if (at == nullptr) at = p_;
  size_t line = 1;
  const char* line_start = begin_;
  for (const char* c = begin_; c < at; ++c) {
    if (*c == '\n') {
      ++line;
      line_start = c + 1;
    }
  }
  throw FormatError(path_,
                    "line " + std::to_string(line) + ", column " +
                        std::to_string(at - line_start + 1),
                    message);
}

}  // namespace lagom::hlo::detail

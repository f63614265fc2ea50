#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace lagom {

/// A file or message breaks its format.
///
/// The message reads "PATH: WHERE: WHAT", for instance
/// `a.hlo: line 12, column 7: expected '(' after the opcode, found '['`.
class FormatError : public std::runtime_error {
 public:
  FormatError(std::string_view path, std::string_view where, std::string_view what)
      : std::runtime_error(join(path, where, what)) {}

 private:
  static std::string join(std::string_view path, std::string_view where, std::string_view what) {
    std::string text;
    for (std::string_view part : {path, where}) {
      if (!part.empty()) text.append(part).append(": ");
    }
    return text.append(what);
  }
};

/// Something outside the program failed: a file that cannot be opened, a plugin that is missing.
class SystemError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace lagom

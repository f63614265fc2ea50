#include "cli/program.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

namespace lagom::cli {

void fail(std::string_view message) {
  constexpr size_t kMaxLength = 4000;
  std::string line;
  for (const char c : message.substr(0, kMaxLength)) {
    const auto byte = static_cast<unsigned char>(c);
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, byte < 32 || byte == 127 ? "\\x%02x" : "%c", byte);
    line += escaped;
  }
  std::fprintf(stderr, "lagom: %s%s\n", line.c_str(), message.size() > kMaxLength ? "..." : "");
}

int run_program(CLI::App& app, int argc, char** argv, const Action& chosen) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : 2;
  }
  try {
    return chosen();
  } catch (const std::exception& error) {
    fail(error.what());
    return 1;
  }
}

}  // namespace lagom::cli

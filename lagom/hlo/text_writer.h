#pragma once

#include <cstdint>
#include <string>

#include "lagom/hlo/module.h"

namespace lagom::hlo {

struct TextOptions {
  /// Constants with more elements than this print as `{...}`, which cannot be read back as values;
  /// negative prints all.
  int64_t max_literal_elements = -1;
  bool metadata = true;
};

/// HLO text that XLA's parser and `read_hlo_text` accept; reading it gives an equal module.
std::string write_hlo_text(const Module& module, const TextOptions& options = {});

/// One instruction as a line, without indentation.
std::string write_instruction_text(const Instruction& instruction, const TextOptions& options = {});

}  // namespace lagom::hlo

#pragma once

#include <map>
#include <string>

#include "lagom/hlo/module_file.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/text_writer.h"

namespace lagom::hlo {

/// A module of at least `instructions` instructions: a real training step, its computations
/// repeated under other names.
inline const std::string& large_text(size_t instructions) {
  static std::map<size_t, std::string> texts;
  std::string& text = texts[instructions];
  if (!text.empty()) return text;
  const Module module =
      read_module_file(LAGOM_SOURCE_DIR "/data/programs/bart_b1_32_train.hlo.pb.gz");
  for (size_t copy = 0; copy * module.num_instructions() < instructions; ++copy) {
    Module renamed = module.clone();
    for (const auto& computation : renamed.computations()) {
      computation->set_name(computation->name() + ".c" + std::to_string(copy));
      for (const auto& i : computation->instructions()) i->name += "x" + std::to_string(copy);
    }
    const std::string one = write_hlo_text(renamed);
    // One header for all; only the last copy keeps ENTRY.
    const size_t body = copy == 0 ? 0 : one.find("\n\n") + 2;
    const size_t entry = text.rfind("ENTRY ");
    if (entry != std::string::npos) text.erase(entry, 6);
    text += one.substr(body);
  }
  return text;
}

inline const Module& large_module(size_t instructions) {
  static std::map<size_t, Module> modules;
  const auto it = modules.find(instructions);
  if (it != modules.end()) return it->second;
  return modules.emplace(instructions, read_hlo_text(large_text(instructions), "bench"))
      .first->second;
}

}  // namespace lagom::hlo

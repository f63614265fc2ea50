#include "lagom/hlo/unique_names.h"

#include <charconv>
#include <unordered_map>
#include <unordered_set>

namespace lagom::hlo {
namespace {

/// Numbers given out under one base name.
struct Numbers {
  std::unordered_set<int64_t> used;
  int64_t next = 0;

  int64_t take(int64_t wanted) {
    if (used.insert(wanted).second) return wanted;
    while (!used.insert(next).second) ++next;
    return next++;
  }
};

using Bases = std::unordered_map<std::string, Numbers>;

/// The name itself, or its base with a number that is free.
std::string unique_name(const std::string& name, Bases& bases) {
  std::string base = name;
  int64_t number = 0;
  const size_t dot = name.rfind('.');
  if (dot != std::string::npos && dot > 0 && dot + 1 < name.size()) {
    const char* end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + dot + 1, end, number);
    if (error == std::errc() && rest == end && number >= 0) {
      base.resize(dot);
    } else {
      number = 0;
    }
  }
  const int64_t given = bases[base].take(number);
  return given == number ? name : base + "." + std::to_string(given);
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

}  // namespace

void make_names_unique(Module& module) {
  Bases bases;
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) i->name = unique_name(i->name, bases);
  }
}

void make_computation_names_unique(Module& module) {
  Bases bases;
  for (const auto& c : module.computations()) c->set_name(unique_name(c->name(), bases));
}

bool sanitize_name(std::string& name, std::string_view fallback) {
  if (name.empty()) {
    name = fallback;
    return true;
  }
  bool changed = false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (is_letter(c) || (i > 0 && ((c >= '0' && c <= '9') || c == '.' || c == '-'))) continue;
    name[i] = '_';
    changed = true;
  }
  return changed;
}

}  // namespace lagom::hlo

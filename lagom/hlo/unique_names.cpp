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

}  // namespace

void make_names_unique(Module& module) {
  std::unordered_map<std::string, Numbers> bases;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      std::string& name = instruction->name;
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
      if (given != number) name = base + "." + std::to_string(given);
    }
  }
}

}  // namespace lagom::hlo

// Where the module lies in the messages that wrap it.
#include "lagom/hlo/proto_parts.h"
#include "lagom/hlo/proto_reader.h"

namespace lagom::hlo::detail {
namespace {

using formats::any_field;
using formats::first_field;

constexpr int kMaxWrappers = 3;

/// HloModuleProto: computations that hold instructions. Looks no further than the first, so that a
/// damaged module is still known as one.
bool is_module(std::string_view bytes) {
  return any_field(bytes, 3, [](std::string_view computation) {
    return any_field(computation, 2, [](std::string_view instruction) {
      return any_field(instruction, 2, [](std::string_view opcode) { return !opcode.empty(); });
    });
  });
}

// The inner message first: the other fields of a wrapper can look like computations.
std::string_view find_module(std::string_view bytes, int wrappers) {
  if (wrappers > 0) {
    const std::string_view first = first_field(bytes, 1);
    const std::string_view inner = first.empty() ? first : find_module(first, wrappers - 1);
    if (!inner.empty()) return inner;
  }
  return is_module(bytes) ? bytes : std::string_view();
}

}  // namespace

std::string_view find_module_proto(std::string_view bytes) {
  return find_module(bytes, kMaxWrappers);
}

}  // namespace lagom::hlo::detail

namespace lagom::hlo {

bool is_hlo_module_proto(std::string_view bytes) {
  return detail::is_module(bytes);
}

bool looks_like_hlo_proto(std::string_view bytes) {
  return !detail::find_module_proto(bytes).empty();
}

}  // namespace lagom::hlo

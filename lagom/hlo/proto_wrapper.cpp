// Where the module lies in the messages that wrap it.
#include "lagom/hlo/proto_parts.h"
#include "lagom/hlo/proto_reader.h"

namespace lagom::hlo::detail {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

constexpr int kMaxWrappers = 3;

/// Calls `visit` with each string or message of that number until it returns true; false when it
/// never does, or when the bytes break off or are no message.
template <typename Visitor>
bool any_field(std::string_view message, uint32_t field, Visitor&& visit) {
  try {
    pbf_reader reader(message.data(), message.size());
    while (reader.next()) {
      if (reader.tag() != field || reader.wire_type() != pbf_wire_type::length_delimited) {
        reader.skip();
      } else if (visit(read_view(reader))) {
        return true;
      }
    }
  } catch (const protozero::exception&) {
  }
  return false;
}

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
  std::string_view inner;
  any_field(bytes, 1, [&](std::string_view first) {
    if (wrappers > 0) inner = find_module(first, wrappers - 1);
    return true;
  });
  if (!inner.empty()) return inner;
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

#include "lagom/formats/wire.h"

#include "lagom/util/error.h"

namespace lagom::formats {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

[[noreturn]] void fail(const std::string& what) {
  throw FormatError("", "", what);
}

}  // namespace

void read_integers(pbf_reader& reader, std::vector<int64_t>& values) {
  if (reader.wire_type() == pbf_wire_type::length_delimited) {
    const auto packed = reader.get_packed_int64();
    const auto count = static_cast<size_t>(packed.size());
    if (values.empty()) values.reserve(count);
    for (const int64_t v : packed) values.push_back(v);
  } else {
    values.push_back(read_integer(reader));
  }
}

int64_t read_integer(pbf_reader& reader) {
  if (reader.wire_type() != pbf_wire_type::varint) {
    fail("field " + std::to_string(reader.tag()) + " has wire type " +
         std::to_string(static_cast<int>(reader.wire_type())) + ", expected a varint");
  }
  return reader.get_int64();
}

std::string_view read_view(pbf_reader& reader) {
  if (reader.wire_type() != pbf_wire_type::length_delimited) {
    fail("field " + std::to_string(reader.tag()) + " has wire type " +
         std::to_string(static_cast<int>(reader.wire_type())) + ", expected a string or message");
  }
  const auto view = reader.get_view();
  return {view.data(), view.size()};
}

std::string read_bytes(pbf_reader& reader) {
  return std::string(read_view(reader));
}

float read_float(pbf_reader& reader) {
  if (reader.wire_type() != pbf_wire_type::fixed32) {
    fail("field " + std::to_string(reader.tag()) + " has wire type " +
         std::to_string(static_cast<int>(reader.wire_type())) + ", expected a float");
  }
  return reader.get_float();
}

pbf_reader open_message(pbf_reader& reader) {
  const std::string_view view = read_view(reader);
  return pbf_reader(view.data(), view.size());
}

std::string_view first_field(std::string_view message, uint32_t field) {
  std::string_view first;
  any_field(message, field, [&](std::string_view bytes) {
    first = bytes;
    return true;
  });
  return first;
}

}  // namespace lagom::formats

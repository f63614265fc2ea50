#pragma once

// Fields of protobuf messages. Private to the sources that read messages: it shows protozero's
// types, and protozero only asserts what files must be checked for.

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lagom::formats {

/// Appends the values of a repeated integer field, packed or not.
void read_integers(protozero::pbf_reader& reader, std::vector<int64_t>& values);
/// A signed integer field of any width (int32, int64, bool, enum).
int64_t read_integer(protozero::pbf_reader& reader);
/// Strings, messages and floats; FormatError when the field's wire type is another.
std::string_view read_view(protozero::pbf_reader& reader);
std::string read_bytes(protozero::pbf_reader& reader);
float read_float(protozero::pbf_reader& reader);
protozero::pbf_reader open_message(protozero::pbf_reader& reader);

/// Calls `visit` with each string or message of that number until it returns true; false when it
/// never does, or when the bytes break off or are no message.
template <typename Visitor>
bool any_field(std::string_view message, uint32_t field, Visitor&& visit) {
  try {
    protozero::pbf_reader reader(message.data(), message.size());
    while (reader.next()) {
      if (reader.tag() != field ||
          reader.wire_type() != protozero::pbf_wire_type::length_delimited) {
        reader.skip();
      } else if (visit(read_view(reader))) {
        return true;
      }
    }
  } catch (const protozero::exception&) {
  }
  return false;
}

/// The first string or message of that number; empty when there is none.
std::string_view first_field(std::string_view message, uint32_t field);

}  // namespace lagom::formats

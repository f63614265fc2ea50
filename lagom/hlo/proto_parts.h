#pragma once

// Messages inside HloModuleProto that both directions share. Private to lagom/hlo: it shows
// protozero's types. Field numbers: hlo.proto and xla_data.proto of openxla/xla.

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <string>

#include "lagom/hlo/module.h"

namespace lagom::hlo::detail {

/// Nesting of messages that is accepted (tuple shapes, literals, shardings).
inline constexpr int kMaxProtoDepth = 100;

/// Appends the values of a repeated integer field, packed or not.
void read_integers(protozero::pbf_reader& reader, Dims& values);
/// A signed integer field of any width (int32, int64, bool, enum).
int64_t read_integer(protozero::pbf_reader& reader);
/// Strings, messages and floats; FormatError when the field's wire type is another, which protozero
/// itself only asserts.
std::string_view read_view(protozero::pbf_reader& reader);
std::string read_bytes(protozero::pbf_reader& reader);
float read_float(protozero::pbf_reader& reader);
protozero::pbf_reader open_message(protozero::pbf_reader& reader);

/// Skips the field the reader stands on and appends its bytes, tag included.
void keep_unknown(protozero::pbf_reader& reader, std::string& unknown);

/// The HloModuleProto in the bytes, down through wrappers; empty when there is none.
std::string_view find_module_proto(std::string_view bytes);

Shape read_shape(protozero::pbf_reader reader, int depth = 0);
ProgramShape read_program_shape(protozero::pbf_reader reader);
Literal read_literal(protozero::pbf_reader reader, int depth = 0);
Sharding read_sharding(protozero::pbf_reader reader, int depth = 0);
Metadata read_metadata(protozero::pbf_reader reader);
StringMap read_string_map(protozero::pbf_reader reader);
StackFrameIndex read_stack_frames(protozero::pbf_reader reader);
/// Ids of each computation's instructions in the order they run, by the computation's id.
std::unordered_map<int64_t, Dims> read_schedule(protozero::pbf_reader reader);
std::vector<InputOutputAlias> read_aliases(protozero::pbf_reader reader);
std::vector<BufferDonor> read_donors(protozero::pbf_reader reader);
void read_attribute(protozero::pbf_reader& reader, Instruction& instruction);

void write_integers(protozero::pbf_writer& writer, int field, const Dims& values);
void write_shape(protozero::pbf_writer& writer, int field, const Shape& shape);
void write_program_shape(protozero::pbf_writer& writer, int field, const ProgramShape& shape);
void write_literal(protozero::pbf_writer& writer, int field, const Literal& literal);
void write_sharding(protozero::pbf_writer& writer, int field, const Sharding& sharding);
void write_metadata(protozero::pbf_writer& writer, int field, const Metadata& metadata);
void write_string_map(protozero::pbf_writer& writer, int field, const StringMap& map);
void write_stack_frames(protozero::pbf_writer& writer, int field, const StackFrameIndex& frames);
void write_attributes(protozero::pbf_writer& writer, const Instruction& instruction,
                      std::string& bytes);

/// Field of LiteralProto that holds the type's values.
int literal_field(ElementType type);

}  // namespace lagom::hlo::detail

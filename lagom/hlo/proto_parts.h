#pragma once

// Messages inside HloModuleProto that both directions share. Private to lagom/hlo: it shows
// protozero's types. Field numbers: hlo.proto and xla_data.proto of openxla/xla.

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <string>

#include "lagom/formats/wire.h"
#include "lagom/hlo/module.h"

namespace lagom::hlo::detail {

/// Nesting of messages that is accepted (tuple shapes, literals, shardings).
inline constexpr int kMaxProtoDepth = 100;

using formats::open_message;
using formats::read_bytes;
using formats::read_float;
using formats::read_integer;
using formats::read_integers;
using formats::read_view;

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

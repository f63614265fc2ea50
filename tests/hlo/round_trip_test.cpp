#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <protozero/pbf_writer.hpp>

#include "lagom/hlo/module_file.h"
#include "lagom/hlo/proto_reader.h"
#include "lagom/hlo/proto_writer.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/text_writer.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "tests/testing/data.h"

namespace lagom::hlo {
namespace {

using ::testing::HasSubstr;

/// Text -> module -> text is a fixed point, and the proto gives an equal module.
void expect_round_trips(const Module& module, const std::string& name) {
  const std::string text = write_hlo_text(module);
  const Module again = read_hlo_text(text, name);
  EXPECT_EQ(describe_difference(module, again), "") << name;
  EXPECT_EQ(write_hlo_text(again), text) << name;
  const Module from_proto = read_hlo_proto(write_hlo_proto(module), name);
  EXPECT_EQ(describe_difference(module, from_proto), "") << name;
  EXPECT_EQ(write_hlo_text(module.clone()), text) << name;
}

TEST(RoundTripTest, EveryExampleProgram) {
  for (const auto& path : testing::data_files("programs", ".hlo.pb.gz")) {
    expect_round_trips(read_module_file(path), path.filename().string());
  }
}

TEST(RoundTripTest, EveryExampleText) {
  for (const auto& path : testing::data_files("hlo", "")) {
    const std::string name = path.filename().string();
    if (name.starts_with("maxtext")) continue;  // ends in the middle, see below
    const Module module = read_module_file(path);
    const std::string text = write_hlo_text(module);
    if (text.find("{...}") != std::string::npos) {
      EXPECT_THROW(write_hlo_proto(module), std::invalid_argument) << name;
      EXPECT_EQ(write_hlo_text(read_hlo_text(text, name)), text);
    } else {
      expect_round_trips(module, name);
    }
  }
}

TEST(RoundTripTest, EveryExampleProtoAndTuningProto) {
  for (const char* folder : {"hlo_pb", "tpugraphs"}) {
    for (const auto& path : testing::data_files(folder, ".pb")) {
      const Module module = read_module_file(path);
      EXPECT_EQ(describe_difference(module, read_hlo_proto(write_hlo_proto(module), "again")), "")
          << path;
      EXPECT_EQ(describe_difference(module, read_hlo_text(write_hlo_text(module), "again")), "")
          << path;
    }
  }
}

TEST(RoundTripTest, TruncatedDumpSaysWhereItEnds) {
  const auto path = testing::data_folder() / "hlo" / "maxtext_llama3_8b_tpu_after_optimizations.txt";
  try {
    read_module_file(path);
    FAIL() << "accepted a truncated dump";
  } catch (const FormatError& e) {
    EXPECT_THAT(e.what(), HasSubstr("line 2001"));
    EXPECT_THAT(e.what(), HasSubstr("the file ends inside it"));
  }
}

TEST(RoundTripTest, UnknownFieldsAreKept) {
  const Module module = read_hlo_text("HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }", "t");
  std::string bytes = write_hlo_proto(module);
  protozero::pbf_writer(bytes).add_string(999, "from the future");
  const Module read = read_hlo_proto(bytes, "t");
  EXPECT_THAT(write_hlo_proto(read), HasSubstr("from the future"));
}

TEST(ProtoReaderTest, UnwrapsSnapshotsAndTuningData) {
  const Module module = read_hlo_text("HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }", "t");
  std::string bytes = write_hlo_proto(module);
  for (int depth = 0; depth < 3; ++depth) {
    EXPECT_EQ(describe_difference(module, read_hlo_proto(bytes, "t")), "") << depth;
    std::string wrapped;
    protozero::pbf_writer(wrapped).add_message(1, bytes);
    bytes = wrapped;
  }
}

TEST(ProtoReaderTest, AcceptsUnpackedListsAnd64BitIds) {
  // A two-instruction module with ids past 32 bits and lists written value by value.
  const int64_t high = int64_t{5} << 32;
  const auto instruction = [&](const char* name, const char* opcode, int64_t id,
                               std::vector<int64_t> operands) {
    std::string shape;
    protozero::pbf_writer shape_writer(shape);
    shape_writer.add_enum(2, 11);
    shape_writer.add_int64(3, 4);
    shape_writer.add_int64(3, 6);
    std::string bytes;
    protozero::pbf_writer writer(bytes);
    writer.add_string(1, name);
    writer.add_string(2, opcode);
    writer.add_message(3, shape);
    writer.add_int64(35, id);
    for (const int64_t o : operands) writer.add_int64(36, o);
    return bytes;
  };
  std::string computation;
  protozero::pbf_writer writer(computation);
  writer.add_string(1, "e");
  writer.add_message(2, instruction("p", "parameter", high | 1, {}));
  writer.add_message(2, instruction("s", "add", high | 2, {high | 1, high | 1}));
  writer.add_int64(5, 5);
  writer.add_int64(6, high | 2);
  std::string bytes;
  protozero::pbf_writer module_writer(bytes);
  module_writer.add_string(1, "m");
  module_writer.add_message(3, computation);
  module_writer.add_int64(6, 5);
  const Module module = read_hlo_proto(bytes, "t");
  EXPECT_EQ(module.entry()->root()->name, "s");
  EXPECT_EQ(module.entry()->root()->operands.size(), 2u);
  EXPECT_EQ(module.entry()->root()->shape.dimensions, (Dims{4, 6}));
}

TEST(ProtoReaderTest, EveryTruncationIsAnErrorNotACrash) {
  const auto path = testing::data_folder() / "hlo_pb" /
                    "module_0001.jit__threefry_seed.before_optimizations.hlo.pb";
  const std::string bytes = read_file(path);
  for (size_t n = 0; n < bytes.size(); ++n) {
    try {
      read_hlo_proto(std::string_view(bytes).substr(0, n), "t");
    } catch (const FormatError&) {
    }
  }
}

TEST(ProtoReaderTest, NamesWhatIsMissing) {
  const auto error_of = [](const std::string& bytes) -> std::string {
    try {
      read_hlo_proto(bytes, "t.pb");
    } catch (const FormatError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_THAT(error_of(std::string("\x0a\x7f", 2)), HasSubstr("truncated"));
  std::string instruction, computation, bytes;
  protozero::pbf_writer writer(instruction);
  writer.add_string(1, "s");
  writer.add_string(2, "add");
  writer.add_message(3, std::string("\x10\x0b"));  // f32[]
  writer.add_int64(35, 1);
  writer.add_int64(36, 77);
  protozero::pbf_writer computation_writer(computation);
  computation_writer.add_string(1, "e");
  computation_writer.add_message(2, instruction);
  computation_writer.add_int64(5, 1);
  computation_writer.add_int64(6, 1);
  protozero::pbf_writer(bytes).add_message(3, computation);
  EXPECT_EQ(error_of(bytes),
            "t.pb: computation 'e', instruction 's': unknown operand with id 77");
}

TEST(ModuleFileTest, SaysWhatAFileIsInsteadOfHlo) {
  const auto error_of = [](std::string_view bytes) -> std::string {
    try {
      read_modules(bytes, "f");
    } catch (const FormatError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_THAT(error_of(""), HasSubstr("an empty file"));
  EXPECT_THAT(error_of("PK\x03\x04rest"), HasSubstr("npz"));
  EXPECT_THAT(error_of("\x89PNG\r\n\x1a\n"), HasSubstr("an image"));
  EXPECT_THAT(error_of("module @jit_f attributes {}"), HasSubstr("StableHLO"));
  EXPECT_THAT(error_of("\x93NUMPY\x01"), HasSubstr("npy"));
  EXPECT_THROW(read_module_file(testing::data_folder()), SystemError);
  EXPECT_THROW(read_module_file("/nonexistent.hlo"), SystemError);
}

}  // namespace
}  // namespace lagom::hlo

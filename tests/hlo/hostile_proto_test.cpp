#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "lagom/hlo/module.h"
#include "lagom/hlo/proto_reader.h"
#include "lagom/hlo/proto_writer.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/text_writer.h"
#include "lagom/hlo/verifier.h"
#include "lagom/util/error.h"

// Protos that no compiler writes: what is read from them can always be written as text, or the
// reader says what is wrong.
namespace lagom::hlo {
namespace {

using ::testing::HasSubstr;

Module small_module() {
  return read_hlo_text(R"(HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e {
  p = f32[8] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=add
})",
                       "small");
}

std::string refusal(const Module& module) {
  try {
    read_hlo_proto(write_hlo_proto(module), "t.pb");
    return "";
  } catch (const FormatError& e) {
    return e.what();
  }
}

void expect_text_keeps(const Module& module) {
  const std::string text = write_hlo_text(module);
  EXPECT_EQ(describe_difference(module, read_hlo_text(text, "text")), "") << text;
}

TEST(HostileProtoTest, NamesThatTextCannotHoldAreMended) {
  Module module = small_module();
  module.name = "jit <lambda>\n";
  module.computations()[0]->set_name("my add\"");
  module.entry()->instructions()[0]->name = "p q=f32[8] parameter(0)\n//";
  module.entry()->instructions()[1]->name = "";
  module.entry()->instructions()[2]->name = "0";

  const Module read = read_hlo_proto(write_hlo_proto(module), "t");

  EXPECT_EQ(read.name, "jit__lambda__");
  EXPECT_EQ(read.computations()[0]->name(), "my_add_");
  EXPECT_EQ(read.entry()->instructions()[0]->name, "p_q_f32_8__parameter_0____");
  EXPECT_EQ(read.entry()->instructions()[1]->name, "constant");
  EXPECT_EQ(read.entry()->root()->name, "_");
  expect_text_keeps(read);
}

TEST(HostileProtoTest, NamesThatAreWordsOfTheTextStay) {
  Module module = small_module();
  module.name = "HloModule";
  module.computations()[0]->set_name("ENTRY");
  module.entry()->set_name("StackFrames");
  module.entry()->instructions()[0]->name = "ROOT";
  module.entry()->instructions()[1]->name = "f32";
  module.entry()->instructions()[2]->name = "constant";

  const Module read = read_hlo_proto(write_hlo_proto(module), "t");

  EXPECT_EQ(describe_difference(module, read), "");
  expect_text_keeps(read);
}

TEST(HostileProtoTest, EqualNamesGetNumbers) {
  Module module = small_module();
  module.computations()[0]->set_name("e");
  for (const auto& i : module.entry()->instructions()) i->name = "x";

  const Module read = read_hlo_proto(write_hlo_proto(module), "t");

  EXPECT_EQ(read.entry()->instructions()[0]->name, "x");
  EXPECT_EQ(read.entry()->instructions()[1]->name, "x.1");
  EXPECT_EQ(read.entry()->instructions()[2]->name, "x.2");
  EXPECT_EQ(read.computations()[1]->name(), "e.1");
  expect_text_keeps(read);
}

TEST(HostileProtoTest, AnOperandMustStandInFront) {
  Module module = small_module();
  auto instructions = module.entry()->release_instructions();
  std::reverse(instructions.begin(), instructions.end());
  module.entry()->set_instructions(std::move(instructions));

  EXPECT_EQ(refusal(module),
            "t.pb: computation 'e', instruction 'r': operand 'p' does not stand in front of it");
}

TEST(HostileProtoTest, AnInstructionIsNotItsOwnOperand) {
  Module module = small_module();
  Instruction* root = module.entry()->root();
  root->operands[0] = root;

  EXPECT_THAT(refusal(module), HasSubstr("operand 'r' does not stand in front of it"));
}

TEST(HostileProtoTest, AComputationDoesNotCallItself) {
  Module module = small_module();
  module.entry()->root()->called = {module.entry()};

  EXPECT_THAT(refusal(module), HasSubstr("instruction 'r': no computation with id"));
}

TEST(HostileProtoTest, AScheduleMustKeepTheOrder) {
  Module module = small_module();
  module.is_scheduled = true;
  const std::string bytes = write_hlo_proto(module);
  EXPECT_EQ(describe_difference(module, read_hlo_proto(bytes, "t")), "");

  // The entry's ids are 6, 7 and 8: a schedule that runs the root first.
  const std::string schedule = std::string("\x0a\x03\x06\x07\x08", 5);
  const size_t at = bytes.rfind(schedule);
  ASSERT_NE(at, std::string::npos);
  std::string damaged = bytes;
  damaged.replace(at, 5, std::string("\x0a\x03\x08\x07\x06", 5));
  EXPECT_THROW(read_hlo_proto(damaged, "t"), FormatError);
}

TEST(HostileProtoTest, AParameterNumberOutOfReachTakesNoMemory) {
  for (const int64_t number : {int64_t{-1}, int64_t{1} << 40, INT64_MAX}) {
    Module module = small_module();
    module.entry()->instructions()[0]->attributes.parameter_number = number;

    const Module read = read_hlo_proto(write_hlo_proto(module), "t");

    EXPECT_TRUE(read.entry()->parameters().empty()) << number;
    EXPECT_THROW(verify(read, "t"), FormatError) << number;
  }
}

TEST(HostileProtoTest, AnErrorInsideAnInstructionSaysWhereItIs) {
  Module module = small_module();
  std::string bytes = write_hlo_proto(module);
  const size_t at = bytes.rfind("reduce");
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, 6, "reduse");
  try {
    read_hlo_proto(bytes, "t.pb");
    FAIL() << "accepted";
  } catch (const FormatError& e) {
    EXPECT_STREQ(e.what(), "t.pb: computation 'e', instruction 'r': unknown opcode 'reduse'");
  }
}

TEST(HostileProtoTest, AFieldOfAnotherWireTypeIsRefused) {
  // Tag and type of each field in front of a varint: what should be a message is none.
  const std::string bytes = write_hlo_proto(small_module());
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int type : {0, 1, 2, 5}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>((damaged[i] & ~7) | type);
      std::string text;
      try {
        text = write_hlo_text(read_hlo_proto(damaged, "t"));
      } catch (const FormatError&) {
        continue;
      }
      EXPECT_NO_THROW(read_hlo_text(text, "text")) << text;
    }
  }
}

TEST(HostileProtoTest, AConstantsLiteralHasItsShape) {
  Module module = small_module();
  Instruction* constant = module.entry()->instructions()[1].get();
  constant->literal = std::make_shared<const Literal>(
      Literal::from_values(Shape::array(ElementType::kF32, {2}), {1, 2}));

  EXPECT_THAT(refusal(module),
              HasSubstr("instruction 'z': its literal has shape f32[2], it has f32[]"));
}

TEST(HostileProtoTest, AConstantWithoutALiteralHasNoValues) {
  Module module = small_module();
  module.entry()->instructions()[1]->literal.reset();

  const Module read = read_hlo_proto(write_hlo_proto(module), "t");

  EXPECT_TRUE(read.entry()->instructions()[1]->literal->elided);
  EXPECT_THAT(write_hlo_text(read), HasSubstr("constant({...})"));
}

TEST(HostileProtoTest, ShapesWithoutATypeAreRefused) {
  Module module = small_module();
  module.entry()->instructions()[0]->shape = Shape{};
  EXPECT_THAT(refusal(module), HasSubstr("instruction 'p': the instruction has no shape"));

  Module tuple = small_module();
  tuple.entry_layout = tuple.entry()->program_shape();
  tuple.entry_layout->parameters[0] = Shape::tuple({Shape{}});
  EXPECT_THAT(refusal(tuple), HasSubstr("a shape has no element type"));
}

TEST(HostileProtoTest, AMissingParameterIsTheVerifiersToName) {
  const Module module = read_hlo_text("HloModule m\nENTRY e { ROOT p = f32[] parameter(1) }", "t");

  const Module read = read_hlo_proto(write_hlo_proto(module), "t");

  EXPECT_EQ(describe_difference(module, read), "");
  EXPECT_THROW(verify(read, "t"), FormatError);
}

TEST(HostileProtoTest, WordsOfAttributesAreWords) {
  Module module = read_hlo_text(R"(HloModule m
f { ROOT p = f32[] parameter(0) }
ENTRY e { a = f32[] parameter(0)  ROOT r = f32[] fusion(a), kind=kLoop, calls=f }
)",
                                "m");
  std::string bytes = write_hlo_proto(module);
  const size_t at = bytes.rfind("kLoop");
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, 5, "k, x=");
  try {
    read_hlo_proto(bytes, "t");
    FAIL() << "accepted";
  } catch (const FormatError& e) {
    EXPECT_THAT(e.what(), HasSubstr("instruction 'r': kind is no word: 'k, x='"));
  }
}

TEST(HostileProtoTest, KeysOfFrontendAttributesMayHoldAnything) {
  Module module = small_module();
  module.frontend_attributes = {{"a key = {", "1"}, {"plain", "{\"json\": 2}"}};
  module.entry()->root()->mutable_rare().frontend_attributes = {{"", "}"}, {"\"", "\n"}};

  expect_text_keeps(module);
}

}  // namespace
}  // namespace lagom::hlo

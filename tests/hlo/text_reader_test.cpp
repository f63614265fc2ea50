#include "lagom/hlo/text_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "lagom/hlo/text_writer.h"
#include "lagom/util/error.h"

namespace lagom::hlo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The message that reading gives; fails the test when it gives none.
std::string error_of(std::string_view text) {
  try {
    read_hlo_text(text, "t.hlo");
  } catch (const FormatError& e) {
    return e.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return "";
}

Module one_line(const std::string& instructions) {
  return read_hlo_text("HloModule m\nENTRY e {\n" + instructions + "\n}\n", "t.hlo");
}

const Instruction& root(const Module& module) {
  return *module.entry()->root();
}

TEST(TextReaderTest, ReadsShortAndLongPrintForms) {
  const Module brief = read_hlo_text(
      "HloModule m\n\nENTRY main {\n  a = f32[2]{0} parameter(0)\n  b = f32[2]{0} parameter(1)\n"
      "  ROOT c = f32[2]{0} add(a, b)\n}\n",
      "t.hlo");
  const Module lengthy = read_hlo_text(
      "HloModule m\n\nENTRY %main (a: f32[2], b: f32[2]) -> f32[2] {\n"
      "  %a = f32[2]{0} parameter(0)\n  %b = f32[2]{0} parameter(1)\n"
      "  ROOT %c = f32[2]{0} add(f32[2]{0} %a, f32[2]{0} /*index=1*/%b)\n}\n",
      "t.hlo");
  EXPECT_EQ(describe_difference(brief, lengthy), "");
  EXPECT_EQ(root(brief).opcode, Opcode::kAdd);
  EXPECT_EQ(root(brief).operand(1).name, "b");
}

TEST(TextReaderTest, LastComputationIsTheEntryWithoutAHeader) {
  const Module module = read_hlo_text(
      "first { p = s32[] parameter(0) }\nsecond { p = s32[] parameter(0)\n n = s32[] negate(p) }",
      "t.hlo");
  EXPECT_EQ(module.entry()->name(), "second");
  EXPECT_EQ(module.name, "module_second");
  EXPECT_EQ(root(module).opcode, Opcode::kNegate);
  // A proto needs names that are alone in the module: the second p is renamed as XLA does.
  EXPECT_EQ(module.entry()->instructions()[0]->name, "p.1");
}

TEST(TextReaderTest, InfersShapesThatAreLeftOut) {
  const Module module = one_line(
      "a = f32[2,3]{1,0} parameter(0)\n b = add(a, a)\n ROOT c = transpose(b), dimensions={1,0}");
  EXPECT_THAT(root(module).shape.dimensions, ElementsAre(3, 2));
}

TEST(TextReaderTest, ReadsNestedOperands) {
  const Module module =
      one_line("a = f32[4]{0} parameter(0)\n ROOT r = f32[4]{0} add(f32[4]{0} negate(a), a)");
  EXPECT_EQ(module.entry()->size(), 3u);
  EXPECT_EQ(root(module).operand(0).opcode, Opcode::kNegate);
}

TEST(TextReaderTest, SplitsModulesAtSeparatorLines) {
  const auto modules = read_hlo_text_modules(
      "HloModule a\nENTRY e { ROOT p = f32[] parameter(0) }\n// -----\n"
      "HloModule b\nENTRY e { ROOT p = f32[] parameter(0) }\n// -----\n\n",
      "t.hlo");
  ASSERT_EQ(modules.size(), 2u);
  EXPECT_EQ(modules[1].name, "b");
}

TEST(TextReaderTest, ReadsTilingsAndMemorySpaces) {
  const Shape shape = read_shape_text("bf16[8,128]{1,0:T(8,128)(2,1)S(1)}");
  ASSERT_TRUE(shape.layout);
  EXPECT_THAT(shape.layout->tiles, ElementsAre(ElementsAre(8, 128), ElementsAre(2, 1)));
  EXPECT_EQ(shape.layout->memory_space, 1);
  EXPECT_EQ(shape.to_string(), "bf16[8,128]{1,0:T(8,128)(2,1)S(1)}");
}

TEST(TextReaderTest, ReadsDynamicDimensionsTuplesAndTokens) {
  const Shape shape = read_shape_text("(f32[<=8,?], token[], (s4[3]{0}, u4[]))");
  ASSERT_EQ(shape.tuple_shapes.size(), 3u);
  EXPECT_TRUE(shape.tuple_shapes[0].is_dynamic());
  EXPECT_THAT(shape.tuple_shapes[0].dimensions, ElementsAre(8, -1));
  EXPECT_EQ(shape.tuple_shapes[1].element_type, ElementType::kToken);
  EXPECT_EQ(shape.tuple_shapes[2].tuple_shapes[0].element_type, ElementType::kS4);
}

TEST(TextReaderTest, ReadsConvolutionAttributes) {
  const Module module = one_line(
      "x = f32[1,9,9,4]{3,2,1,0} parameter(0)\n k = f32[3,3,1,8]{3,2,1,0} parameter(1)\n"
      " ROOT y = f32[1,4,4,8]{3,2,1,0} convolution(x, k), window={size=3x3 stride=2x2 pad=0_0x-1_1 "
      "rhs_reversal=1x0}, dim_labels=b01f_01io->b01f, feature_group_count=4");
  const Attributes& a = root(module).attributes;
  ASSERT_EQ(a.window.size(), 2u);
  EXPECT_EQ(a.window[0].stride, 2);
  EXPECT_EQ(a.window[1].pad_low, -1);
  EXPECT_TRUE(a.window[0].reversal);
  EXPECT_EQ(a.feature_group_count, 4);
  EXPECT_EQ(a.convolution->kernel_output_feature, 3);
  EXPECT_THAT(a.convolution->input_spatial, ElementsAre(1, 2));
}

TEST(TextReaderTest, ReadsLiteralsOfEveryKind) {
  const auto values = [](const std::string& constant) {
    return root(one_line("ROOT c = " + constant)).literal->row_major_values();
  };
  EXPECT_THAT(values("f32[2,2]{1,0} constant({ { 1, -2.5 }, { 3e2, inf } })"),
              ElementsAre(1, -2.5, 300, INFINITY));
  // A column-major literal keeps its logical values.
  EXPECT_THAT(values("s32[2,2]{0,1} constant({ { 1, 2 }, { 3, 4 } })"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values("pred[3]{0} constant({1, 0, true})"), ElementsAre(1, 0, 1));
  EXPECT_THAT(values("s4[2]{0} constant({-8, 7})"), ElementsAre(-8, 7));
  EXPECT_THAT(values("bf16[] constant(0.3)"), ElementsAre(0.30078125));
  EXPECT_THAT(values("f16[] constant(65504)"), ElementsAre(65504));
  // f8e4m3fn: 448 is the largest; f8e5m2: 1.1 rounds to 1.
  EXPECT_THAT(values("f8e4m3fn[2]{0} constant({448, -0.015625})"), ElementsAre(448, -0.015625));
  EXPECT_THAT(values("f8e5m2[] constant(1.1)"), ElementsAre(1.0));
  EXPECT_TRUE(std::isnan(values("f32[] constant(nan(0x7fffff))")[0]));
  EXPECT_THAT(values("c64[] constant((1, -2))"), ElementsAre(1));
  EXPECT_THAT(values("f32[0]{0} constant({})"), ElementsAre());
}

TEST(TextReaderTest, KeepsUnknownAttributesAsText) {
  const Module module =
      one_line("ROOT p = f32[] parameter(0), new_thing={a=[1,2] \"x}\"}, other=mesh['x'=4] {'x'}");
  const auto& raw = root(module).rare().raw;
  ASSERT_EQ(raw.size(), 2u);
  EXPECT_EQ(raw[0].name, "new_thing");
  EXPECT_EQ(raw[0].text, "{a=[1,2] \"x}\"}");
  EXPECT_EQ(raw[1].text, "mesh['x'=4] {'x'}");
}

TEST(TextReaderTest, ReadsShardings) {
  const Module module = one_line(
      "p = f32[8]{0} parameter(0), sharding={devices=[2,1]<=[2] last_tile_dim_replicate}\n"
      "q = f32[8]{0} parameter(1), sharding={maximal device=3}\n"
      "ROOT t = (f32[8]{0}, f32[8]{0}) tuple(p, q), sharding={{replicated}, {devices=[2]1,0}}");
  const auto& instructions = module.entry()->instructions();
  EXPECT_TRUE(instructions[0]->rare().sharding->replicate_on_last_dim);
  EXPECT_THAT(instructions[0]->rare().sharding->iota_reshape, ElementsAre(2));
  EXPECT_THAT(instructions[1]->rare().sharding->devices, ElementsAre(3));
  EXPECT_EQ(instructions[2]->rare().sharding->tuple.size(), 2u);
}

TEST(TextReaderTest, ReadsShortFormsOfAsynchronousOperations) {
  const Module module = one_line(
      "p = f32[8]{0} parameter(0)\n"
      "s = ((f32[8]{0}), f32[4]{0}, s32[]) slice-start(p), slice={[2:6]}, "
      "metadata={op_name=\"x\"}\n"
      "ROOT d = f32[4]{0} slice-done(s)");
  const Instruction& done = root(module);
  EXPECT_EQ(done.opcode, Opcode::kAsyncDone);
  const Instruction& start = done.operand(0);
  EXPECT_EQ(start.opcode, Opcode::kAsyncStart);
  ASSERT_EQ(start.called.size(), 1u);
  EXPECT_EQ(start.called, done.called);
  const Instruction& slice = *start.called[0]->root();
  EXPECT_EQ(slice.opcode, Opcode::kSlice);
  EXPECT_EQ(slice.attributes.slice[0].limit, 6);
  EXPECT_THAT(slice.shape.dimensions, ElementsAre(4));
}

TEST(TextReaderTest, FindsSourceLinesInMetadataAndStackFrames) {
  const Module module = read_hlo_text(
      "HloModule m\n\nFileNames\n1 \"model.py\"\n\nFunctionNames\n1 \"f\"\n\nFileLocations\n"
      "1 {file_name_id=1 function_name_id=1 line=42 end_line=42 column=3 end_column=9}\n\n"
      "StackFrames\n1 {file_location_id=1 parent_frame_id=1}\n\n"
      "ENTRY e {\n p = f32[] parameter(0), metadata={op_name=\"x\" source_file=\"a.py\" "
      "source_line=7}\n ROOT n = f32[] negate(p), metadata={op_name=\"n\" stack_frame_id=1}\n}",
      "t.hlo");
  const auto& instructions = module.entry()->instructions();
  EXPECT_EQ(source_location(module, *instructions[0]), "a.py:7");
  EXPECT_EQ(source_location(module, *instructions[1]), "model.py:42");
}

TEST(TextReaderErrorTest, SaysLineColumnFoundAndExpected) {
  EXPECT_EQ(
      error_of("HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT q = f32[2] ad(p)\n}"),
      "t.hlo: line 4, column 19: expected an opcode, found 'ad'");
  EXPECT_EQ(error_of("HloModule m\nENTRY e {\n  ROOT q = f32[2]{0} negate(x)\n}"),
            "t.hlo: line 3, column 29: unknown operand 'x' in computation 'e': an operand must "
            "stand above its use");
}

TEST(TextReaderErrorTest, RejectsBrokenGrammar) {
  EXPECT_THAT(error_of(""), HasSubstr("the end of the file"));
  EXPECT_THAT(error_of("HloModule m\nENTRY e {\n p = f32[2 parameter(0)\n}"), HasSubstr("']'"));
  EXPECT_THAT(error_of("HloModule m\nENTRY e {\n p = f32[2]{0} parameter(0)\n"),
              HasSubstr("not closed"));
  EXPECT_THAT(error_of("HloModule m\nENTRY e {\n p = f32[2]{1} parameter(0)\n}"),
              HasSubstr("permutation"));
  EXPECT_THAT(error_of("HloModule m\nENTRY e {\n p = f32[-2]{0} parameter(0)\n}"),
              HasSubstr("negative"));
  EXPECT_THAT(error_of("HloModule m /* open"), HasSubstr("comment"));
  EXPECT_THAT(error_of("e { p = s32[] parameter(99999999999999999999) }"), HasSubstr("64 bits"));
  EXPECT_THAT(error_of("e { p = f32[] parameter(0), metadata={op_name=\"x} }"),
              HasSubstr("closing"));
  EXPECT_THAT(error_of("module @jit_f { func.func @main() }"), HasSubstr("MLIR"));
}

TEST(TextReaderErrorTest, RejectsBrokenReferences) {
  EXPECT_THAT(error_of("e { p = f32[] parameter(0)\n p = f32[] parameter(1) }"),
              HasSubstr("second instruction named 'p'"));
  EXPECT_THAT(error_of("e { p = f32[] parameter(0) }\ne { p = f32[] parameter(0) }"),
              HasSubstr("second computation named 'e'"));
  EXPECT_THAT(error_of("e { p = f32[] parameter(0)\n c = f32[] call(p), to_apply=g }"),
              HasSubstr("unknown computation 'g'"));
  EXPECT_THAT(error_of("e { ROOT p = f32[] parameter(0)\n ROOT q = f32[] negate(p) }"),
              HasSubstr("two roots"));
}

TEST(TextReaderErrorTest, RefusesToGuessAShapeThatNothingDetermines) {
  for (const char* operation :
       {"parameter(0)", "custom-call(), custom_call_target=\"f\"", "iota()"}) {
    EXPECT_THAT(error_of(std::string("e { ROOT p = ") + operation + " }"),
                HasSubstr("the shape is left out and cannot be inferred"))
        << operation;
  }
}

TEST(TextReaderErrorTest, ChecksLiteralsBeforeAllocating) {
  EXPECT_THAT(error_of("e { c = f32[1000000000000]{0} constant({1}) }"),
              HasSubstr("more than the text has"));
  EXPECT_THAT(error_of("e { c = f32[3]{0} constant({1, 2}) }"), HasSubstr("3"));
  EXPECT_THAT(error_of("e { c = s8[] constant(300) }"), HasSubstr("does not fit in s8"));
  EXPECT_THAT(error_of("e { c = f32[1000000000,1000000000,1000000000]{2,1,0} parameter(0) }"),
              HasSubstr("too many elements"));
}

TEST(TextReaderErrorTest, BoundsNesting) {
  const std::string deep(100000, '(');
  EXPECT_THAT(error_of("e { p = " + deep), HasSubstr("nested too deeply"));
  std::string operands;
  for (int i = 0; i < 100000; ++i) operands += "negate(";
  EXPECT_THAT(error_of("e { p = f32[] parameter(0)\n q = f32[] " + operands),
              HasSubstr("nested too deeply"));
  std::string bodies;
  for (int i = 0; i < 100000; ++i) bodies += "c = f32[] call(), to_apply={ ";
  EXPECT_THAT(error_of("e { " + bodies), HasSubstr("nested too deeply"));
}

TEST(TextReaderTest, UnknownMetadataIsPrintedTheSameAgain) {
  const Module module = read_hlo_text(
      "HloModule m\nENTRY e { ROOT p = f32[] parameter(0), metadata={op_name=\"x\",  odd={1},  "
      "other=2} }",
      "t");
  const std::string text = write_hlo_text(module);

  EXPECT_THAT(text, ::testing::HasSubstr("metadata={op_name=\"x\" odd={1} other=2}"));
  EXPECT_EQ(write_hlo_text(read_hlo_text(text, "again")), text);
}

}  // namespace
}  // namespace lagom::hlo

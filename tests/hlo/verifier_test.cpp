#include "lagom/hlo/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "lagom/hlo/module_file.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/util/error.h"
#include "tests/testing/data.h"

namespace lagom::hlo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kProgram[] = R"(
HloModule program

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

twice {
  x = f32[4] parameter(0)
  ROOT y = f32[4] add(x, x)
}

ENTRY main {
  p0 = f32[4,8] parameter(0)
  p1 = f32[8] parameter(1)
  zero = f32[] constant(0)
  wide = f32[4,8] broadcast(p1), dimensions={1}
  total = f32[4,8] add(p0, wide)
  row = f32[4] reduce(total, zero), dimensions={1}, to_apply=sum
  ROOT result = f32[4] call(row), to_apply=twice
}
)";

Module program() {
  return read_hlo_text(kProgram, "program.hlo");
}

Instruction& at(Module& module, const char* name) {
  return *module.entry()->find(name);
}

std::string error_after(const std::function<void(Module&)>& change) {
  Module module = program();
  change(module);
  try {
    verify(module, "program.hlo");
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no error";
}

TEST(VerifierTest, AcceptsASoundProgram) {
  EXPECT_NO_THROW(verify(program(), "program.hlo"));
}

TEST(VerifierTest, AcceptsEveryExampleProgram) {
  for (const auto& path : testing::data_files("programs", ".hlo.pb.gz")) {
    EXPECT_NO_THROW(verify(read_module_file(path), path.string())) << path;
  }
}

TEST(VerifierTest, NamesComputationInstructionFoundAndExpected) {
  EXPECT_EQ(error_after([](Module& m) { at(m, "total").shape.dimensions = {4, 9}; }),
            "program.hlo: computation 'main', instruction 'total': add: expected f32[4,8], found "
            "f32[4,9]");
}

TEST(VerifierTest, RejectsWrongOperandCounts) {
  EXPECT_THAT(error_after([](Module& m) { at(m, "total").operands.pop_back(); }),
              HasSubstr("add: expected 2 operands, found 1"));
}

TEST(VerifierTest, RejectsOperandsBehindTheirUsers) {
  EXPECT_THAT(error_after([](Module& m) { at(m, "wide").operands[0] = &at(m, "row"); }),
              AllOf(HasSubstr("'wide'"), HasSubstr("'row', does not stand in front of it")));
}

TEST(VerifierTest, RejectsRepeatedNames) {
  EXPECT_THAT(error_after([](Module& m) { at(m, "row").name = "wide"; }),
              HasSubstr("another instruction has the same name"));
  EXPECT_THAT(error_after([](Module& m) { m.computations()[1]->set_name("sum"); }),
              HasSubstr("another computation has the same name"));
}

TEST(VerifierTest, RejectsParametersThatAreNotNumberedInARow) {
  EXPECT_THAT(error_after([](Module& m) { at(m, "p1").attributes.parameter_number = 0; }),
              HasSubstr("parameter 0 comes twice"));
  EXPECT_THAT(error_after([](Module& m) { at(m, "p1").attributes.parameter_number = 2; }),
              HasSubstr("parameter 1 is missing"));
  EXPECT_THAT(error_after([](Module& m) { at(m, "p1").attributes.parameter_number = -1; }),
              HasSubstr("parameter number -1"));
}

TEST(VerifierTest, RejectsCallsOfOtherArguments) {
  EXPECT_THAT(error_after([](Module& m) { at(m, "result").operands[0] = &at(m, "p1"); }),
              HasSubstr("parameter 0 of computation 'twice' is f32[4], expected f32[8]"));
  EXPECT_THAT(error_after([](Module& m) { at(m, "row").called[0] = m.find_computation("twice"); }),
              HasSubstr("computation 'twice' takes 1 parameters, expected 2"));
  EXPECT_THAT(
      error_after([](Module& m) { at(m, "total").called.push_back(m.find_computation("twice")); }),
      HasSubstr("expected 0 called computations, found 1"));
}

TEST(VerifierTest, RejectsCallsThatLeadBack) {
  EXPECT_THAT(error_after([](Module& m) {
                Instruction* y = m.find_computation("twice")->root();
                y->opcode = Opcode::kCall;
                y->operands.pop_back();
                y->called = {m.find_computation("twice")};
              }),
              HasSubstr("it calls 'twice', which does not stand in front of its computation"));
}

TEST(VerifierTest, RejectsLayoutsThatAreNoPermutation) {
  EXPECT_THAT(error_after([](Module& m) { at(m, "p0").shape.layout->minor_to_major = {1, 1}; }),
              HasSubstr("no permutation"));
  EXPECT_THAT(error_after([](Module& m) { at(m, "p0").shape.layout->minor_to_major = {0}; }),
              HasSubstr("no permutation"));
}

TEST(VerifierTest, RejectsLiteralsOfAnotherSize) {
  EXPECT_THAT(error_after([](Module& m) {
                auto literal = std::make_shared<Literal>(*at(m, "zero").literal);
                literal->data.pop_back();
                at(m, "zero").literal = literal;
              }),
              HasSubstr("its literal has 3 bytes, expected 4"));
  EXPECT_THAT(error_after([](Module& m) { at(m, "zero").literal = nullptr; }),
              HasSubstr("literal is missing"));
}

TEST(VerifierTest, RejectsMissingEntryAndRoot) {
  EXPECT_THAT(error_after([](Module& m) { m.set_entry(nullptr); }),
              HasSubstr("module 'program': it has no entry computation"));
  EXPECT_THAT(error_after([](Module& m) { m.computations()[1]->set_root(nullptr); }),
              HasSubstr("computation 'twice': it has no root"));
}

TEST(VerifierTest, RejectsEntryLayoutsOfOtherShapes) {
  EXPECT_THAT(error_after([](Module& m) {
                m.entry_layout = m.entry()->program_shape();
                m.entry_layout->parameters[1].dimensions = {9};
              }),
              HasSubstr("gives parameter 1 as f32[9], the computation f32[8]"));
}

TEST(VerifierTest, RejectsAliasesOutsideTheProgram) {
  EXPECT_THAT(
      error_after([](Module& m) { m.input_output_aliases.emplace_back().parameter_number = 5; }),
      HasSubstr("an alias names parameter 5 of 2"));
  EXPECT_THAT(
      error_after([](Module& m) { m.input_output_aliases.emplace_back().output_index = {0}; }),
      HasSubstr("aliased output: index {0} is not in f32[4]"));
}

TEST(VerifierTest, RejectsSizesPastCounting) {
  EXPECT_THAT(error_after([](Module& m) {
                at(m, "p0").shape.dimensions = {int64_t{1} << 40, int64_t{1} << 40};
              }),
              HasSubstr("more elements than 62 bits can count"));
  EXPECT_THAT(error_after([](Module& m) { at(m, "p1").shape.dimensions = {-8}; }),
              HasSubstr("negative size -8"));
}

TEST(VerifierTest, AllowsOtherFloatingPrecisionWhereAValueIsComputed) {
  Module module = program();
  at(module, "total").shape.element_type = ElementType::kBF16;
  at(module, "row").shape.element_type = ElementType::kBF16;
  EXPECT_THROW(verify(module, "program.hlo"), FormatError);  // A call passes values on.

  at(module, "row").shape.element_type = ElementType::kF32;
  EXPECT_NO_THROW(verify(module, "program.hlo"));
}

TEST(VerifierTest, RejectsCallsThatNestTooDeep) {
  Module module = program();
  for (int i = 0; i < 1200; ++i) {
    auto next = std::make_unique<Computation>("nest" + std::to_string(i));
    auto x = std::make_unique<Instruction>();
    x->name = "x";
    x->shape = Shape::array(ElementType::kF32, {4});
    Instruction* const parameter = next->append(std::move(x));
    auto call = std::make_unique<Instruction>();
    call->name = "c";
    call->opcode = Opcode::kCall;
    call->shape = parameter->shape;
    call->operands = {parameter};
    call->called = {module.computations().back().get()};
    if (i == 0) call->called = {module.find_computation("twice")};
    next->set_root(next->append(std::move(call)));
    module.add_computation(std::move(next));
  }

  EXPECT_THROW(verify(module, "program.hlo"), FormatError);
}

}  // namespace
}  // namespace lagom::hlo

#include "lagom/hlo/edit.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/verifier.h"

namespace lagom::hlo {
namespace {

Module program() {
  return read_hlo_text(R"(
HloModule program
sum {
  s0 = f32[] parameter(0)
  s1 = f32[] parameter(1)
  ROOT s2 = f32[] add(s0, s1)
}
unused {
  u0 = f32[] parameter(0)
  ROOT u1 = f32[] negate(u0)
}
prints {
  x = f32[4] parameter(0)
  ROOT h = f32[4] custom-call(x), custom_call_target="print", custom_call_has_side_effect=true
}
ENTRY main {
  p0 = f32[4] parameter(0)
  p1 = f32[4] parameter(1)
  zero = f32[] constant(0)
  a = f32[4] add(p0, p0)
  dead.1 = f32[4] negate(a)
  dead.2 = f32[4] tanh(dead.1)
  b = f32[4] multiply(a, a)
  seen = f32[4] call(a), to_apply=prints
  ROOT r = f32[] reduce(b, zero), dimensions={0}, to_apply=sum
}
)",
                       "program.hlo");
}

std::vector<std::string> names(const Computation& computation) {
  std::vector<std::string> result;
  for (const auto& instruction : computation.instructions()) result.push_back(instruction->name);
  return result;
}

TEST(NameTableTest, ReplacesTheNumberAtTheEnd) {
  const Module module = program();
  NameTable table(module);

  EXPECT_EQ(table.fresh("new"), "new");
  EXPECT_EQ(table.fresh("new"), "new.1");
  EXPECT_EQ(table.fresh("dead.1"), "dead.3");  // dead.1 and dead.2 are there.
  EXPECT_EQ(table.fresh("sum"), "sum.1");      // Computations count too.
}

TEST(RemoveDeadCodeTest, KeepsRootParametersAndSideEffects) {
  Module module = program();

  EXPECT_EQ(remove_dead_code(*module.entry()), 2u);

  EXPECT_EQ(names(*module.entry()),
            (std::vector<std::string>{"p0", "p1", "zero", "a", "b", "seen", "r"}));
  EXPECT_EQ(module.entry()->root()->name, "r");
}

TEST(RemoveDeadCodeTest, RemovesComputationsThatNothingCalls) {
  Module module = program();

  EXPECT_EQ(remove_dead_code(module), 4u);

  EXPECT_EQ(module.find_computation("unused"), nullptr);
  EXPECT_NE(module.find_computation("sum"), nullptr);
  EXPECT_NE(module.find_computation("prints"), nullptr);
  EXPECT_NO_THROW(verify(module, "program.hlo"));
}

TEST(RemoveDeadCodeTest, KeepsWhatALiveInstructionMustFollow) {
  Module module = program();
  Computation& entry = *module.entry();
  entry.find("b")->control_predecessors = {entry.find("dead.1")};

  EXPECT_EQ(remove_dead_code(entry), 1u);
  EXPECT_NE(entry.find("dead.1"), nullptr);
}

TEST(ReplaceInstructionTest, RedirectsAllReadersAndRemovesTheOriginal) {
  Module module = program();
  Computation& entry = *module.entry();

  replace_instruction(entry, entry.find("a"), entry.find("p1"));

  EXPECT_EQ(entry.find("a"), nullptr);
  EXPECT_EQ(entry.find("b")->operands[0], entry.find("p1"));
  EXPECT_EQ(entry.find("b")->operands[1], entry.find("p1"));
  EXPECT_EQ(entry.find("dead.1")->operands[0], entry.find("p1"));
  EXPECT_NO_THROW(verify(module, "program.hlo"));
}

TEST(ReplaceInstructionTest, MovesTheRoot) {
  Module module = program();
  Computation& entry = *module.entry();

  replace_instruction(entry, entry.find("r"), entry.find("zero"));

  EXPECT_EQ(entry.root(), entry.find("zero"));
}

TEST(ReplaceInstructionTest, RefusesWhatWouldBreakTheProgram) {
  Module module = program();
  Computation& entry = *module.entry();

  EXPECT_THROW(replace_instruction(entry, entry.find("a"), entry.find("zero")),
               std::invalid_argument);  // Another shape.
  EXPECT_THROW(replace_instruction(entry, entry.find("p0"), entry.find("p1")),
               std::invalid_argument);  // A parameter.
  EXPECT_THROW(replace_instruction(entry, entry.find("a"), entry.find("b")),
               std::invalid_argument);  // Reads what is replaced.
}

TEST(ReplaceAllUsesTest, LeavesTheWrapperReadingTheOriginal) {
  Module module = program();
  Computation& entry = *module.entry();
  auto copy = std::make_unique<Instruction>();
  copy->name = "wrapped";
  copy->opcode = Opcode::kCopy;
  copy->shape = entry.find("a")->shape;
  copy->operands = {entry.find("a")};
  std::vector<std::unique_ptr<Instruction>> made;
  made.push_back(std::move(copy));
  entry.insert_before(entry.find("dead.1"), std::move(made));

  replace_all_uses(entry, entry.find("a"), entry.find("wrapped"));

  EXPECT_EQ(entry.find("wrapped")->operands[0], entry.find("a"));
  EXPECT_EQ(entry.find("b")->operands[0], entry.find("wrapped"));
  EXPECT_NO_THROW(verify(module, "program.hlo"));
}

TEST(CopyComputationTest, BringsCalleesAlongUnderFreshNames) {
  const Module source = program();
  Module target = program();
  NameTable table(target);
  ComputationMap copied;

  Computation* copy = copy_computation(*source.entry(), target, table, copied, target.entry());

  EXPECT_EQ(copy->name(), "main.1");
  EXPECT_EQ(copy->root()->called[0]->name(), "sum.1");
  EXPECT_EQ(copy->root()->name, "r.1");
  EXPECT_EQ(copied.at(source.find_computation("prints"))->name(), "prints.1");
  EXPECT_NO_THROW(verify(target, "program.hlo"));
  EXPECT_EQ(copy_computation(*source.entry(), target, table, copied), copy);
}

TEST(MakeRerunnableTest, DropsTheScheduleAndTheDutyToAlias) {
  Module module = read_hlo_text(
      "HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, must-alias) }\n"
      "ENTRY e { a = f32[4]{0} parameter(0)\n  ROOT n = f32[4]{0} negate(a) }",
      "t");
  ASSERT_TRUE(module.is_scheduled);
  ASSERT_TRUE(module.input_output_aliases.at(0).must_alias);

  make_rerunnable(module);

  EXPECT_FALSE(module.is_scheduled);
  EXPECT_FALSE(module.input_output_aliases.at(0).must_alias);
  EXPECT_EQ(module.input_output_aliases.at(0).parameter_number, 0);
}

}  // namespace
}  // namespace lagom::hlo

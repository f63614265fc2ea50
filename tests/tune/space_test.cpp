#include "lagom/tune/space.h"

#include <gtest/gtest.h>

#include <set>

#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/verifier.h"

namespace lagom::tune {
namespace {

hlo::Module program() {
  return hlo::read_hlo_text(R"(HloModule m
ENTRY main {
  x = f32[1,8,8,16]{3,2,1,0} parameter(0)
  k = f32[3,3,1,16]{3,2,1,0} parameter(1)
  w = f32[16,4]{1,0} parameter(2)
  one = f32[1,8,8,16]{3,2,1,0} convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=16
  two = f32[1,8,8,16]{3,2,1,0} convolution(one, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=16
  flat = f32[64,16]{1,0} reshape(two)
  ROOT dot = f32[64,4]{1,0} dot(flat, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})",
                            "m");
}

TEST(SearchSpaceTest, EqualNodesAreOneKernel) {
  const hlo::Module module = program();
  const SearchSpace space(module, {});

  ASSERT_EQ(space.kernels().size(), 2u);
  EXPECT_EQ(space.kernels()[0].instructions, (std::vector<std::string>{"one", "two"}));
  EXPECT_FALSE(space.kernels()[0].rules.empty());
  EXPECT_EQ(space.kernels()[1].instructions, (std::vector<std::string>{"dot"}));
}

TEST(SearchSpaceTest, AKernelsFormHoldsForAllItsInstructions) {
  const hlo::Module module = program();
  const SearchSpace space(module, {});
  const Kernel& kernel = space.kernels()[0];
  rewrite::Configuration configuration;

  space.set_form(configuration, kernel, kernel.rules[0]);
  EXPECT_EQ(configuration.decisions.size(), 2u);
  EXPECT_EQ(space.form_of(configuration, kernel), kernel.rules[0]);
  space.set_form(configuration, kernel, nullptr);
  EXPECT_TRUE(configuration.is_default());
}

// Two dots of one row that share it, an argmax, and a dot of its own.
hlo::Module patterns() {
  return hlo::read_hlo_text(R"(HloModule m
comparator {
  va = f32[] parameter(0)
  ia = s32[] parameter(1)
  vb = f32[] parameter(2)
  ib = s32[] parameter(3)
  better = pred[] compare(va, vb), direction=GT
  nan = pred[] compare(va, va), direction=NE
  first = pred[] or(better, nan)
  value = f32[] select(first, va, vb)
  same = pred[] compare(va, vb), direction=EQ
  front = pred[] compare(ia, ib), direction=LT
  tie = pred[] and(same, front)
  take = pred[] or(first, tie)
  index = s32[] select(take, ia, ib)
  ROOT pair = (f32[], s32[]) tuple(value, index)
}
ENTRY main {
  h = f32[1,32]{1,0} parameter(0)
  wi = f32[32,64]{1,0} parameter(1)
  wf = f32[32,64]{1,0} parameter(2)
  i = f32[1,64]{1,0} dot(h, wi), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f = f32[1,64]{1,0} dot(h, wf), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  sum = f32[1,64]{1,0} add(i, f)
  line = s32[64]{0} iota(), iota_dimension=0
  places = s32[1,64]{1,0} reshape(line)
  init = f32[] constant(-inf)
  zero = s32[] constant(0)
  ROOT best = (f32[1]{0}, s32[1]{0}) reduce(sum, places, init, zero), dimensions={1}, to_apply=comparator
})",
                            "m");
}

TEST(SearchSpaceTest, PatternsAndGroupsAreKernelsOfTheirOwn) {
  const hlo::Module module = patterns();
  const SearchSpace space(module, {});

  ASSERT_EQ(space.kernels().size(), 3u);
  const Kernel& dot = space.kernels()[0];
  const Kernel& merged = space.kernels()[1];
  const Kernel& argmax = space.kernels()[2];
  EXPECT_TRUE(dot.is_plain);
  EXPECT_EQ(dot.instructions, (std::vector<std::string>{"i", "f"}));
  EXPECT_FALSE(merged.is_plain);
  EXPECT_EQ(merged.instructions, (std::vector<std::string>{"i"}));
  ASSERT_EQ(merged.rules.size(), 1u);
  EXPECT_EQ(merged.rules[0]->name(), "merged_dots");
  EXPECT_FALSE(argmax.is_plain);
  EXPECT_EQ(argmax.instructions, (std::vector<std::string>{"best"}));
  for (const Kernel& kernel : space.kernels()) {
    for (const rewrite::Rule* rule : kernel.rules) {
      rewrite::Configuration configuration;
      configuration.set({.kind = rewrite::DecisionKind::kForm,
                         .instruction = kernel.cut_out.node,
                         .operand = 0,
                         .form = std::string(rule->name()),
                         .layout = {}});
      EXPECT_NO_THROW(hlo::verify(rewrite::apply(kernel.cut_out.module, configuration), "form"))
          << rule->name();
    }
  }
}

TEST(SearchSpaceTest, KernelsThatShareAnInstructionKeepTheirFormsApart) {
  const hlo::Module module = patterns();
  const SearchSpace space(module, {});
  const Kernel& dot = space.kernels()[0];
  const Kernel& merged = space.kernels()[1];
  rewrite::Configuration configuration;

  space.set_form(configuration, dot, dot.rules[0]);
  space.set_form(configuration, merged, merged.rules[0]);
  EXPECT_EQ(space.form_of(configuration, merged), merged.rules[0]);
  EXPECT_EQ(space.form_of(configuration, dot), nullptr);  // "i" leads the group now
  EXPECT_NO_THROW(hlo::verify(rewrite::apply(module, configuration), "both"));

  space.set_form(configuration, dot, nullptr);
  EXPECT_EQ(space.form_of(configuration, merged), merged.rules[0]);
  space.set_form(configuration, merged, nullptr);
  EXPECT_TRUE(configuration.is_default());
}

TEST(SearchSpaceTest, OneSeedGivesOneSequence) {
  const hlo::Module module = program();
  const SearchSpace space(module, {});
  const auto sequence = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    rewrite::Configuration configuration;
    std::vector<std::string> texts;
    for (int i = 0; i < 50; ++i) {
      EXPECT_TRUE(space.mutate(configuration, random));
      texts.push_back(configuration.to_string());
    }
    return texts;
  };

  EXPECT_EQ(sequence(7), sequence(7));
  EXPECT_NE(sequence(7), sequence(8));
}

TEST(SearchSpaceTest, EveryMutationGivesAValidProgram) {
  const hlo::Module module = program();
  const SearchSpace space(module, {.allow_inexact = true});
  std::mt19937_64 random(1);
  rewrite::Configuration configuration;
  std::set<std::string> seen;
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(space.mutate(configuration, random));
    ASSERT_NO_THROW(hlo::verify(rewrite::apply(module, configuration), "tuned"))
        << configuration.to_string();
    EXPECT_EQ(rewrite::Configuration::from_string(configuration.to_string()), configuration);
    seen.insert(configuration.to_string());
  }
  EXPECT_GT(seen.size(), 100u);
}

TEST(SearchSpaceTest, OptionsCloseParts) {
  const hlo::Module module = program();
  const SearchSpace flags_only(module, {.forms = false, .layouts = false, .barriers = false});
  std::mt19937_64 random(1);
  rewrite::Configuration configuration;
  for (int i = 0; i < 50; ++i) flags_only.mutate(configuration, random);
  EXPECT_TRUE(configuration.decisions.empty());

  const SearchSpace nothing(module,
                            {.forms = false, .layouts = false, .barriers = false, .flags = false});
  EXPECT_EQ(nothing.num_choices(), 0u);
  rewrite::Configuration untouched;
  EXPECT_FALSE(nothing.mutate(untouched, random));
  EXPECT_TRUE(untouched.is_default());
}

}  // namespace
}  // namespace lagom::tune

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

#include "lagom/rewrite/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/text_writer.h"
#include "lagom/hlo/verifier.h"
#include "lagom/util/error.h"

namespace lagom::rewrite {
namespace {

using ::testing::HasSubstr;

constexpr char kProgram[] = R"(HloModule m
ENTRY main {
  x = f32[1,8,8,16]{3,2,1,0} parameter(0)
  k = f32[3,3,1,16]{3,2,1,0} parameter(1)
  w = f32[16,4]{1,0} parameter(2)
  conv = f32[1,8,8,16]{3,2,1,0} convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=16, metadata={op_name="depthwise"}
  flat = f32[64,16]{1,0} reshape(conv)
  ROOT dot = f32[64,4]{1,0} dot(flat, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";

Configuration parse(const std::string& text) {
  return Configuration::from_string(text);
}

TEST(ConfigurationTest, TextFormIsSortedAndReadsBack) {
  const Configuration configuration = parse(
      "flag xla_b 512\n# a comment\n\ndot operand-layout 1 {0,1}\nconv form depthwise_taps\n"
      "dot barrier 0\ndot output-layout {0,1}\nflag xla_a true\nflag xla_c \"true\"\nflag xla_d "
      "0.5\n");
  EXPECT_EQ(
      configuration.to_string(),
      "conv form depthwise_taps\ndot output-layout {0,1}\ndot operand-layout 1 {0,1}\n"
      "dot barrier 0\nflag xla_a true\nflag xla_b 512\nflag xla_c \"true\"\nflag xla_d 0.5\n");
  EXPECT_EQ(parse(configuration.to_string()), configuration);
  EXPECT_EQ(parse(configuration.to_string()).hash(), configuration.hash());
  EXPECT_TRUE(std::holds_alternative<std::string>(configuration.flags.at("xla_c")));
}

TEST(ConfigurationTest, FlagsWithBlanksOrQuotesReadBack) {
  for (const char* value : {"", "  leading", "trailing ", "\"quoted\"", "\"", "true", "1e5"}) {
    Configuration configuration;
    configuration.flags["f"] = std::string(value);
    EXPECT_EQ(parse(configuration.to_string()), configuration) << "'" << value << "'";
  }
}

TEST(ConfigurationTest, AnInstructionMayHaveAnyName) {
  for (const char* name : {"flag", "form", "x.1", "#x", "%x", "_"}) {
    Configuration configuration;
    configuration.set({.kind = DecisionKind::kBarrier, .instruction = name, .operand = 1});
    EXPECT_EQ(parse(configuration.to_string()), configuration) << configuration.to_string();
  }
  EXPECT_EQ(parse("%flag barrier 0\n").decisions.at(0).instruction, "flag");
  EXPECT_EQ(parse("%x barrier 0\n"), parse("x barrier 0\n"));
  EXPECT_TRUE(parse("  # a comment behind blanks\n").is_default());
}

TEST(ConfigurationTest, OneDecisionPerPlace) {
  Configuration configuration = parse("conv form im2col_dot\nconv form depthwise_taps\n");
  ASSERT_EQ(configuration.decisions.size(), 1u);
  EXPECT_EQ(configuration.decisions[0].form, "depthwise_taps");
  configuration.remove(configuration.decisions[0]);
  EXPECT_TRUE(configuration.is_default());
}

TEST(ConfigurationTest, BrokenTextNamesItsLine) {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      Configuration::from_string(text, "c.txt");
    } catch (const FormatError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_THAT(error_of("conv form a\nconv frm b\n"),
              HasSubstr("c.txt: line 2: expected form, output-layout, operand-layout or barrier, "
                        "found 'frm'"));
  EXPECT_THAT(error_of("d output-layout 0,1"), HasSubstr("expected a layout"));
  EXPECT_THAT(error_of("d operand-layout x {0}"), HasSubstr("expected an operand number"));
  EXPECT_THAT(error_of("d barrier 0 1"), HasSubstr("expected the end of the line"));
  EXPECT_THAT(error_of("d form"), HasSubstr("the name of a rule"));
  // The name would lose its last character when written and read again.
  EXPECT_THAT(error_of("d form c\r "), HasSubstr("line 1: a control character"));
}

TEST(ApplyTest, DefaultConfigurationChangesNothing) {
  const hlo::Module module = hlo::read_hlo_text(kProgram, "p");
  EXPECT_EQ(hlo::write_hlo_text(apply(module, {})), hlo::write_hlo_text(module));
}

TEST(ApplyTest, FormReplacesTheNodeAndKeepsItsMetadata) {
  const hlo::Module module = hlo::read_hlo_text(kProgram, "p");
  const hlo::Module tuned = apply(module, parse("conv form depthwise_taps\n"));
  hlo::verify(tuned, "tuned");
  size_t slices = 0, with_origin = 0;
  for (const auto& i : tuned.entry()->instructions()) {
    EXPECT_NE(i->opcode, hlo::Opcode::kConvolution);
    slices += i->opcode == hlo::Opcode::kSlice;
    with_origin += i->metadata && i->metadata->op_name == "depthwise";
  }
  EXPECT_GE(slices, 9u);
  EXPECT_GT(with_origin, 9u);
  // The original is untouched.
  EXPECT_NE(module.entry()->find("conv"), nullptr);
}

TEST(ApplyTest, LayoutsAndBarriersWrapValues) {
  const hlo::Module module = hlo::read_hlo_text(kProgram, "p");
  const hlo::Module tuned =
      apply(module, parse("flat output-layout {0,1}\ndot operand-layout 1 {0,1}\ndot barrier 0\n"));
  hlo::verify(tuned, "tuned");
  const hlo::Instruction& dot = *tuned.entry()->find("dot");
  const hlo::Instruction& barrier = dot.operand(0);
  EXPECT_EQ(barrier.opcode, hlo::Opcode::kOptimizationBarrier);
  const hlo::Instruction& wrapped = barrier.operand(0);
  EXPECT_EQ(wrapped.rare().custom_call_target, "LayoutConstraint");
  EXPECT_EQ(wrapped.shape.layout->minor_to_major, (hlo::Dims{0, 1}));
  EXPECT_TRUE(wrapped.rare().constrain_layout);
  EXPECT_EQ(wrapped.operand(0).name, "flat");
  EXPECT_EQ(dot.operand(1).rare().custom_call_target, "LayoutConstraint");
  EXPECT_EQ(dot.operand(1).operand(0).name, "w");
}

TEST(ApplyTest, WrapsTheRootsValue) {
  const hlo::Module module = hlo::read_hlo_text(kProgram, "p");
  const hlo::Module tuned = apply(module, parse("dot output-layout {0,1}\n"));
  hlo::verify(tuned, "tuned");
  EXPECT_EQ(tuned.entry()->root()->rare().custom_call_target, "LayoutConstraint");
}

TEST(ApplyWithFaultTest, ScalesWhatTheFormsCompute) {
  const hlo::Module module = hlo::read_hlo_text(kProgram, "p");

  const hlo::Module faulty =
      apply_with_fault(module, parse("conv form depthwise_taps\ndot barrier 0\n"), 0.01);

  hlo::verify(faulty, "faulty");
  const hlo::Instruction& scaled = faulty.entry()->find("flat")->operand(0);
  ASSERT_EQ(scaled.opcode, hlo::Opcode::kMultiply);
  EXPECT_EQ(scaled.operand(0).opcode, hlo::Opcode::kAdd);
  ASSERT_EQ(scaled.operand(1).opcode, hlo::Opcode::kBroadcast);
  EXPECT_NEAR(scaled.operand(1).operand(0).literal->row_major_values().at(0), 1.01, 1e-6);
}

TEST(ApplyWithFaultTest, LeavesAloneWhatHasNoForm) {
  const hlo::Module module = hlo::read_hlo_text(kProgram, "p");
  const Configuration configuration = parse("dot barrier 0\n");
  EXPECT_EQ(hlo::describe_difference(apply_with_fault(module, configuration, 0.01),
                                     apply(module, configuration)),
            "");
}

TEST(ApplyTest, RefusesDecisionsThatDoNotFit) {
  const hlo::Module module = hlo::read_hlo_text(kProgram, "p");
  const auto error_of = [&](const std::string& text) -> std::string {
    try {
      apply(module, parse(text));
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error_of("nobody form depthwise_taps\n"),
            "decision 'nobody form depthwise_taps': the module has no instruction of that name");
  EXPECT_THAT(error_of("dot form depthwise_taps\n"), HasSubstr("does not fit"));
  EXPECT_THAT(error_of("conv form no_such_rule\n"), HasSubstr("no such rule"));
  EXPECT_THAT(error_of("dot output-layout {0,0}\n"), HasSubstr("no permutation"));
  EXPECT_THAT(error_of("dot output-layout {0,1,2}\n"), HasSubstr("has shape f32[64,4]"));
  EXPECT_THAT(error_of("dot barrier 5\n"), HasSubstr("has 2 operands"));
}

}  // namespace
}  // namespace lagom::rewrite

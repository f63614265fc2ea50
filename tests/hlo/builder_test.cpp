#include "lagom/hlo/builder.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

#include "lagom/hlo/evaluator.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/verifier.h"

namespace lagom::hlo {
namespace {

// An empty entry to append to.
class BuilderTest : public ::testing::Test {
 protected:
  BuilderTest()
      : entry_(*module_.add_computation(std::make_unique<Computation>("main"))),
        names_(module_),
        builder_(module_, entry_, names_) {
    module_.set_entry(&entry_);
  }

  Instruction* input(Dims dims, ElementType type = ElementType::kF32) {
    return builder_.parameter(next_parameter_++, Shape::array(type, std::move(dims)), "x");
  }

  // Verifies the module with this root and computes it.
  Values value(Instruction* root, const std::vector<Value>& arguments) {
    entry_.set_root(root);
    verify(module_, "built");
    return evaluate(*root, arguments).numbers();
  }

  Module module_;
  Computation& entry_;
  NameTable names_;
  Builder builder_;
  int64_t next_parameter_ = 0;
};

TEST_F(BuilderTest, DotMultipliesMatrices) {
  DotDims dims;
  dims.lhs_contracting = {1};
  dims.rhs_contracting = {0};

  Instruction* lhs = input({1, 2});
  Instruction* rhs = input({2, 2});
  Instruction* product = builder_.dot(lhs, rhs, dims);

  // [1 2] x [[3 4] [5 6]]
  EXPECT_EQ(value(product, {{1, 2}, {3, 4, 5, 6}}), (Values{13, 16}));
}

TEST_F(BuilderTest, PadPlacesValuesBetweenAndAround) {
  Instruction* padded = builder_.pad(input({3}), builder_.constant(ElementType::kF32, 9),
                                     {{.low = 1, .high = -1, .interior = 1}});

  // 9 1 9 2 9 3 without the last.
  EXPECT_EQ(value(padded, {{1, 2, 3}}), (Values{9, 1, 9, 2, 9}));
}

TEST_F(BuilderTest, ReduceSumAddsOverDimensions) {
  Instruction* sum = builder_.reduce_sum(input({2, 3}), {0});

  EXPECT_EQ(value(sum, {{1, 2, 3, 10, 20, 30}}), (Values{11, 22, 33}));
}

TEST_F(BuilderTest, ReduceWindowSlides) {
  Instruction* sums = builder_.reduce_window(
      input({4}), builder_.constant(ElementType::kF32, 0), {{.size = 2, .stride = 2}},
      builder_.scalar_computation(Opcode::kAdd, ElementType::kF32));

  EXPECT_EQ(value(sums, {{1, 2, 3, 4}}), (Values{3, 7}));
}

TEST_F(BuilderTest, MovesCompose) {
  Instruction* x = input({2, 3});
  Instruction* turned = builder_.transpose(x, {1, 0});                // 1 4 | 2 5 | 3 6
  Instruction* top = builder_.slice(turned, {{0, 2, 1}, {0, 2, 1}});  // 1 4 | 2 5
  Instruction* both = builder_.concatenate({top, top}, 1);            // 1 4 1 4 | 2 5 2 5
  Instruction* back = builder_.reverse(both, {0});                    // 2 5 2 5 | 1 4 1 4
  Instruction* wide = builder_.broadcast(builder_.reshape(back, {8}), {1, 8}, {1});

  EXPECT_EQ(value(wide, {{1, 2, 3, 4, 5, 6}}), (Values{2, 5, 2, 5, 1, 4, 1, 4}));
}

TEST_F(BuilderTest, SelectsByComparison) {
  Instruction* x = input({3});
  Instruction* limit = builder_.full(ElementType::kF32, {3}, 2);
  Instruction* capped = builder_.select(builder_.compare(x, limit, "GT"), limit, x);

  EXPECT_EQ(value(capped, {{1, 2, 3}}), (Values{1, 2, 2}));
}

TEST_F(BuilderTest, StepsThatDoNothingReturnTheirOperand) {
  Instruction* x = input({2, 3});

  EXPECT_EQ(builder_.reshape(x, {2, 3}), x);
  EXPECT_EQ(builder_.transpose(x, {0, 1}), x);
  EXPECT_EQ(builder_.slice(x, {{0, 2, 1}, {0, 3, 1}}), x);
  EXPECT_EQ(builder_.pad_zero(x, {{}, {}}), x);
  EXPECT_EQ(builder_.convert(x, ElementType::kF32), x);
  EXPECT_EQ(builder_.broadcast(x, {2, 3}, {0, 1}), x);
  EXPECT_EQ(builder_.concatenate({x}, 0), x);
  EXPECT_EQ(builder_.reverse(x, {}), x);
  EXPECT_EQ(entry_.size(), 1u);
}

TEST_F(BuilderTest, BroadcastThatSwapsEqualDimensionsIsKept) {
  Instruction* x = input({2, 2});

  Instruction* swapped = builder_.broadcast(x, {2, 2}, {1, 0});

  EXPECT_EQ(value(swapped, {{1, 2, 3, 4}}), (Values{1, 3, 2, 4}));
}

TEST_F(BuilderTest, ScalarComputationsAreShared) {
  Computation* first = builder_.scalar_computation(Opcode::kAdd, ElementType::kF32);
  Computation* other = builder_.scalar_computation(Opcode::kMaximum, ElementType::kF32);

  EXPECT_EQ(builder_.scalar_computation(Opcode::kAdd, ElementType::kF32), first);
  EXPECT_NE(first, other);
  EXPECT_NE(builder_.scalar_computation(Opcode::kAdd, ElementType::kF64), first);
  EXPECT_EQ(module_.computations().back().get(), &entry_);  // Callees stand in front.
}

TEST_F(BuilderTest, LayoutConstraintAsksForTheOrder) {
  Instruction* fixed = builder_.layout_constraint(input({2, 3}), {0, 1});

  EXPECT_EQ(fixed->shape.to_string(), "f32[2,3]{0,1}");
  EXPECT_EQ(fixed->rare().custom_call_target, "LayoutConstraint");
  EXPECT_TRUE(fixed->rare().constrain_layout);
  ASSERT_EQ(fixed->rare().operand_layouts.size(), 1u);
  EXPECT_EQ(fixed->rare().operand_layouts[0].to_string(), "f32[2,3]{0,1}");
}

TEST_F(BuilderTest, RefusesOperandsThatDoNotFit) {
  Instruction* x = input({2, 3});
  Instruction* y = input({3, 2});

  EXPECT_THROW(builder_.add(x, y), std::invalid_argument);
  EXPECT_THROW(builder_.reshape(x, {4}), std::invalid_argument);
  EXPECT_THROW(builder_.broadcast(x, {2, 3}, {}), std::invalid_argument);
  EXPECT_THROW(builder_.transpose(x, {1}), std::invalid_argument);
  EXPECT_THROW(builder_.get_tuple_element(x, 0), std::invalid_argument);
  EXPECT_EQ(entry_.size(), 2u);
}

Module two_steps() {
  return read_hlo_text(R"(
HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] negate(x), metadata={op_name="neg" source_file="model.py" source_line=7}
  ROOT z = f32[4] tanh(y)
}
)",
                       "m.hlo");
}

TEST(BuilderInsertTest, CommitPutsNewInstructionsInFrontOfThePosition) {
  Module module = two_steps();
  Computation& entry = *module.entry();
  NameTable names(module);
  Builder builder(module, entry, names, entry.find("z"));
  builder.set_origin(entry.find("y"));

  Instruction* doubled = builder.add(entry.find("y"), entry.find("y"));
  EXPECT_EQ(entry.size(), 3u);
  builder.commit();
  entry.find("z")->operands[0] = doubled;

  EXPECT_EQ(entry.instructions()[2].get(), doubled);
  EXPECT_EQ(doubled->metadata->source_line, 7);
  EXPECT_EQ(builder.num_made(), 1u);
  EXPECT_NO_THROW(verify(module, "m.hlo"));
}

TEST(BuilderInsertTest, WithoutCommitNothingChanges) {
  Module module = two_steps();
  Computation& entry = *module.entry();
  NameTable names(module);
  {
    Builder builder(module, entry, names, entry.find("z"));
    builder.add(entry.find("y"), entry.find("y"));
  }

  EXPECT_EQ(entry.size(), 3u);
}

TEST(BuilderInsertTest, LayoutsFollowTheComputation) {
  for (const bool with_layouts : {true, false}) {
    Module module = two_steps();
    Computation& entry = *module.entry();
    for (const auto& instruction : entry.instructions()) {
      if (!with_layouts) instruction->shape.layout.reset();
    }
    NameTable names(module);
    Builder builder(module, entry, names, entry.find("z"));

    Instruction* doubled = builder.add(entry.find("y"), entry.find("y"));

    EXPECT_EQ(doubled->shape.layout.has_value(), with_layouts);
  }
}

}  // namespace
}  // namespace lagom::hlo

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>

#include "lagom/hlo/builder.h"
#include "lagom/hlo/evaluator.h"
#include "lagom/hlo/shape_inference.h"
#include "lagom/hlo/verifier.h"
#include "lagom/rewrite/rule.h"

namespace lagom::rewrite {
namespace {

using hlo::Dims;
using hlo::ElementType;
using hlo::Instruction;
using hlo::Opcode;
using hlo::Values;

int64_t draw(std::mt19937& generator, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(generator);
}

// Small whole numbers, so that windows hold equal elements.
Values random_values(std::mt19937& generator, const Dims& dims) {
  Values values(static_cast<size_t>(hlo::checked_product(dims).value()));
  for (double& value : values) value = static_cast<double>(draw(generator, -3, 3));
  return values;
}

// A module with one window operation on a drawn array.
class Pool {
 public:
  explicit Pool(std::mt19937& generator, bool dilated)
      : entry_(*module_.add_computation(std::make_unique<hlo::Computation>("main"))),
        names_(module_),
        builder_(module_, entry_, names_) {
    module_.set_entry(&entry_);
    const int64_t rank = draw(generator, 1, 3);
    do {
      dims_.clear();
      window_.clear();
      positions_.clear();
      for (int64_t d = 0; d < rank; ++d) {
        hlo::WindowDim dim{.size = draw(generator, 1, 3), .stride = draw(generator, 1, 3)};
        dim.pad_low = draw(generator, 0, dim.size - 1);
        dim.pad_high = draw(generator, 0, dim.size - 1);
        if (dilated) dim.window_dilation = draw(generator, 1, 2);
        if (dilated) dim.base_dilation = draw(generator, 1, 2);
        dims_.push_back(draw(generator, 1, 6));
        window_.push_back(dim);
        positions_.push_back(hlo::window_output_size(dims_.back(), dim));
      }
    } while (hlo::checked_product(positions_) == 0);
    input_ = builder_.parameter(0, hlo::Shape::array(ElementType::kF32, dims_), "x");
    arguments_ = {random_values(generator, dims_), random_values(generator, positions_)};
  }

  Instruction* pool(Opcode opcode, double init) {
    return root_ =
               builder_.reduce_window(input_, builder_.constant(ElementType::kF32, init), window_,
                                      builder_.scalar_computation(opcode, ElementType::kF32));
  }

  Instruction* max_gradient(const char* direction) {
    auto select = std::make_unique<hlo::Computation>("select");
    hlo::Builder inner(module_, *select, names_);
    Instruction* const a = inner.parameter(0, hlo::Shape::scalar(ElementType::kF32), "a");
    Instruction* const b = inner.parameter(1, hlo::Shape::scalar(ElementType::kF32), "b");
    select->set_root(inner.compare(a, b, direction));

    auto gradient = std::make_unique<Instruction>();
    gradient->opcode = Opcode::kSelectAndScatter;
    gradient->operands = {
        input_, builder_.parameter(1, hlo::Shape::array(ElementType::kF32, positions_), "dy"),
        builder_.constant(ElementType::kF32, 0)};
    gradient->attributes.window = window_;
    gradient->called = {module_.add_computation_before(&entry_, std::move(select)),
                        builder_.scalar_computation(Opcode::kAdd, ElementType::kF32)};
    return root_ = builder_.add_instruction(std::move(gradient));
  }

  // Values before and after the rule are equal.
  void check(const Rule& rule) {
    entry_.set_root(root_);
    hlo::verify(module_, "pool");
    const Values expected = hlo::evaluate(*root_, arguments_).numbers();

    apply_rule(rule, module_, entry_, names_, root_);

    hlo::verify(module_, "pool");
    for (const auto& instruction : entry_.instructions()) {
      ASSERT_NE(instruction->opcode, Opcode::kReduceWindow);
      ASSERT_NE(instruction->opcode, Opcode::kSelectAndScatter);
    }
    ASSERT_EQ(hlo::evaluate(*entry_.root(), arguments_).numbers(), expected);
  }

 private:
  hlo::Module module_;
  hlo::Computation& entry_;
  hlo::NameTable names_;
  hlo::Builder builder_;
  Dims dims_, positions_;
  hlo::Window window_;
  Instruction* input_ = nullptr;
  Instruction* root_ = nullptr;
  std::vector<hlo::Value> arguments_;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(PoolSlicesTest, EqualsTheWindowForAnyAttributes) {
  const Rule& rule = *find_rule("pool_slices");
  std::mt19937 generator(1);
  int tried = 0;
  for (int i = 0; i < 300; ++i) {
    for (const auto& [opcode, init] : {std::pair{Opcode::kMaximum, -kInfinity},
                                       {Opcode::kMinimum, kInfinity},
                                       {Opcode::kAdd, 0.0}}) {
      Pool pool(generator, /*dilated=*/true);
      if (!rule.matches(*pool.pool(opcode, init))) continue;  // A window of one element.
      ++tried;
      SCOPED_TRACE(i);
      pool.check(rule);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(tried, 500);
}

TEST(PoolSlicesTest, LeavesWindowsAloneThatStartFromAnotherValue) {
  std::mt19937 generator(2);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(
        find_rule("pool_slices")->matches(*Pool(generator, false).pool(Opcode::kMaximum, 0)));
    EXPECT_FALSE(find_rule("pool_slices")->matches(*Pool(generator, false).pool(Opcode::kAdd, 1)));
    EXPECT_FALSE(
        find_rule("pool_slices")->matches(*Pool(generator, false).pool(Opcode::kSubtract, 0)));
  }
}

TEST(MaxPoolGradientSlicesTest, GivesTheFirstOfEqualElementsTheGradient) {
  const Rule& rule = *find_rule("max_pool_gradient_slices");
  std::mt19937 generator(3);
  int tried = 0;
  for (int i = 0; i < 600; ++i) {
    Pool pool(generator, /*dilated=*/false);
    if (!rule.matches(*pool.max_gradient("GE"))) continue;
    ++tried;
    SCOPED_TRACE(i);
    pool.check(rule);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(tried, 300);
}

TEST(MaxPoolGradientSlicesTest, LeavesOtherChoicesAlone) {
  std::mt19937 generator(4);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(
        find_rule("max_pool_gradient_slices")->matches(*Pool(generator, false).max_gradient("GT")));
  }
}

}  // namespace
}  // namespace lagom::rewrite

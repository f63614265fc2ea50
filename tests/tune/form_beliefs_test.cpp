#include "lagom/tune/form_beliefs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lagom/hlo/text_reader.h"

namespace lagom::tune {
namespace {

using ::testing::HasSubstr;

constexpr char kDot[] = R"(HloModule m
ENTRY e {
  a = f32[64,96]{1,0} parameter(0)
  b = f32[96,32]{1,0} parameter(1)
  ROOT d = f32[64,32]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)";
constexpr char kHere[] = "cpu xla 7 plugin 1 cpus 0 1";

class FormBeliefsTest : public ::testing::Test {
 protected:
  /// All forms cost e^-2 of the default by a model that was trained on `devices`.
  FormBeliefs beliefs(std::vector<std::string> devices) {
    const auto costs = [this](const hlo::Module&, const auto& configurations) {
      ++asked_;
      std::vector<double> costs(configurations.size(), -2);
      costs[0] = 0;
      return costs;
    };
    return {{}, {.costs = costs, .devices = std::move(devices)}, kHere};
  }
  const Kernel& kernel() const { return space_.kernels().at(0); }
  Belief first(FormBeliefs beliefs) { return beliefs.of(kernel()).at(0); }

  hlo::Module module_ = hlo::read_hlo_text(kDot, "dot");
  SearchSpace space_{module_, {}};
  int asked_ = 0;
};

TEST_F(FormBeliefsTest, AModelOfThisDeviceAndOneOfUnknownDevicesCountAlike) {
  const Belief own = first(beliefs({kHere})), unknown = first(beliefs({}));

  EXPECT_EQ(asked_, 2);
  EXPECT_EQ(own.mean, unknown.mean);
  EXPECT_EQ(own.deviation, unknown.deviation);
  EXPECT_EQ(beliefs({kHere}).model_doubt(), "");
}

TEST_F(FormBeliefsTest, AModelOfAnotherCompilerIsBelievedLessAndSaysWhy) {
  const std::string other = "cpu xla 6 plugin 1 cpus 0 1";
  const Belief own = first(beliefs({kHere})), foreign = first(beliefs({other}));

  EXPECT_EQ(asked_, 2);
  EXPECT_GT(foreign.mean, own.mean);  // nearer to what is believed without a model
  EXPECT_GT(foreign.deviation, own.deviation);
  EXPECT_THAT(beliefs({other}).model_doubt(), HasSubstr(other + ", this is " + kHere));
  // The nearest of several devices counts.
  EXPECT_EQ(first(beliefs({other, kHere})).deviation, own.deviation);
}

TEST_F(FormBeliefsTest, OtherCpusAloneAreNoNews) {
  EXPECT_EQ(beliefs({"cpu xla 7 plugin 1 cpus 1"}).model_doubt(), "");
  EXPECT_GT(first(beliefs({"cpu xla 7 plugin 1 cpus 1"})).deviation,
            first(beliefs({kHere})).deviation);
}

TEST_F(FormBeliefsTest, AModelOfAnotherKindOfDeviceIsNotAsked) {
  FormBeliefs source = beliefs({"cuda 12 plugin 1 cpus 0 1"});
  const Belief without = first(FormBeliefs({}, {}, kHere));

  EXPECT_EQ(source.of(kernel()).at(0).mean, without.mean);
  EXPECT_EQ(asked_, 0);
  EXPECT_FALSE(source.has_model());
  EXPECT_THAT(source.model_error(), HasSubstr("it was trained on cuda 12 plugin 1 cpus 0 1"));
}

}  // namespace
}  // namespace lagom::tune

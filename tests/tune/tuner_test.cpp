#include "lagom/tune/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "lagom/hlo/text_reader.h"
#include "lagom/tune/kernel_features.h"
#include "lagom/tune/shrink.h"
#include "lagom/util/error.h"
#include "tests/testing/command.h"
#include "tests/testing/plugins.h"

// Whole searches on small programs, with a real compiler.
namespace lagom::tune {
namespace {

using ::testing::HasSubstr;

class TunerTest : public ::testing::Test {
 protected:
  TunerTest() {
    options_.worker.plugin = testing::plugin_path();
    options_.budget_seconds = 0;
    setenv("LAGOM_LOCK_DIR", (folder_ / "locks").c_str(), 1);
  }
  ~TunerTest() override { unsetenv("LAGOM_LOCK_DIR"); }

  TuneResult run(const std::string& text) {
    const hlo::Module module = hlo::read_hlo_text(text, "t");
    const SearchSpace space(module, options_.space);
    return tune(module, space, options_);
  }

  testing::TemporaryFolder folder_;
  TuneOptions options_;
};

const std::string kAdd =
    "HloModule add\nENTRY e { a = f32[64]{0} parameter(0)  ROOT s = f32[64]{0} add(a, a) }\n";

std::string depthwise(const std::string& rest) {
  return R"(HloModule m
ENTRY e {
  x = f32[1,24,24,32]{3,2,1,0} parameter(0)
  k = f32[3,3,1,32]{3,2,1,0} parameter(1)
  c = f32[1,24,24,32]{3,2,1,0} convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=32
)" + rest +
         "}\n";
}

TEST_F(TunerTest, AProgramWithoutRulesReturnsTheDefaultWithANote) {
  options_.max_trials = 5;
  options_.space = {.forms = true, .layouts = false, .barriers = false, .flags = false};

  const TuneResult result = run(kAdd);

  EXPECT_TRUE(result.configuration.is_default());
  EXPECT_TRUE(result.trials.empty());
  EXPECT_THAT(result.note, HasSubstr("no candidate was faster than the default"));
  EXPECT_EQ(result.speedup(), 1);
  EXPECT_GT(result.default_seconds, 0);
  EXPECT_FALSE(result.stopped);
}

TEST_F(TunerTest, TrialsAreLimited) {
  for (const Strategy strategy : {Strategy::kRandom, Strategy::kGenetic, Strategy::kModel}) {
    options_.strategy = strategy;
    options_.max_trials = 3;
    options_.budget_seconds = 5;

    const TuneResult result = run(depthwise("  ROOT y = f32[1,24,24,32]{3,2,1,0} add(c, x)\n"));

    // The finalists, three at most, are timed once more.
    const auto searched = std::count_if(
        result.trials.begin(), result.trials.end(),
        [](const Trial& trial) { return trial.origin != "final" && trial.origin != "shrink"; });
    EXPECT_LE(searched, 3) << strategy_name(strategy);
    EXPECT_GE(searched, 1) << strategy_name(strategy);
  }
}

TEST_F(TunerTest, ABudgetIsKeptWithinReason) {
  options_.budget_seconds = 4;
  const auto start = std::chrono::steady_clock::now();

  const TuneResult result = run(depthwise("  ROOT y = f32[1,24,24,32]{3,2,1,0} add(c, x)\n"));

  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 12);
  EXPECT_FALSE(result.trials.empty());
}

TEST_F(TunerTest, WrongNumbersNeverWin) {
  // What a form changes in the last bits is magnified until it is all there is.
  options_.budget_seconds = 6;
  options_.space = {.forms = true, .layouts = false, .barriers = false, .flags = false};

  const TuneResult result = run(depthwise(R"(
  huge = f32[] constant(1e+12)
  h = f32[1,24,24,32]{3,2,1,0} broadcast(huge), dimensions={}
  m = f32[1,24,24,32]{3,2,1,0} multiply(c, h)
  ROOT s = f32[1,24,24,32]{3,2,1,0} sine(m)
)"));

  // Forms that stay convolutions may give the same bits; shifted products do not.
  const auto as_taps = [](const rewrite::Configuration& configuration) {
    return configuration.to_string().find("depthwise_taps") != std::string::npos;
  };
  const auto is_found_out = [&](const Trial& trial) {
    return !as_taps(trial.configuration) ||
           (trial.failure == measure::FailureKind::kWrongNumbers && !trial.measured);
  };
  EXPECT_TRUE(std::any_of(result.trials.begin(), result.trials.end(),
                          [&](const Trial& trial) { return as_taps(trial.configuration); }));
  EXPECT_TRUE(std::all_of(result.trials.begin(), result.trials.end(), is_found_out));
  EXPECT_FALSE(as_taps(result.configuration));
  EXPECT_THAT(result.note, HasSubstr("outputs are a weak check here"));
}

TEST_F(TunerTest, AFaultInTheFormsShowsWhereTheOutputsDependOnThem) {
  options_.strategy = Strategy::kConditions;

  const TuneResult result = run(depthwise("  ROOT y = f32[1,24,24,32]{3,2,1,0} multiply(c, c)\n"));

  ASSERT_FALSE(result.configuration.is_default()) << result.note;
  EXPECT_NEAR(result.fault_shift, 1.01 * 1.01 - 1, 1e-4);
  EXPECT_EQ(result.note, "");
  EXPECT_GE(result.copies_before, 0);
  EXPECT_GE(result.copies_after, 0);
}

TEST_F(TunerTest, FormsThatTheOutputsHideAreComparedOneByOne) {
  options_.strategy = Strategy::kConditions;

  const TuneResult result = run(depthwise(R"(
  tiny = f32[] constant(1e-30)
  t = f32[1,24,24,32]{3,2,1,0} broadcast(tiny), dimensions={}
  m = f32[1,24,24,32]{3,2,1,0} multiply(c, t)
  ROOT y = f32[1,24,24,32]{3,2,1,0} add(m, x)
)"));

  ASSERT_FALSE(result.configuration.is_default()) << result.note;
  EXPECT_EQ(result.fault_shift, 0);
  EXPECT_THAT(result.note, HasSubstr("the forms were compared one by one"));
}

TEST_F(TunerTest, AProgramWhoseKernelsAreKnownBeginsWithTheirWinners) {
  options_.strategy = Strategy::kGreedy;
  options_.max_trials = 2;
  options_.space = {.forms = true, .layouts = false, .barriers = false, .flags = false};
  options_.database = folder_ / "database";
  const std::string first = depthwise("  ROOT y = f32[1,24,24,32]{3,2,1,0} multiply(c, c)\n");
  const std::string second = depthwise("  ROOT y = f32[1,24,24,32]{3,2,1,0} add(c, x)\n");

  const TuneResult cold = run(first);
  const TuneResult warm = run(second);

  ASSERT_FALSE(cold.trials.empty());
  ASSERT_FALSE(warm.trials.empty());
  EXPECT_EQ(cold.trials.front().origin, "conditions");
  EXPECT_GE(cold.num_kernel_trials, 2);
  EXPECT_EQ(warm.trials.front().origin, "likely");
  EXPECT_EQ(warm.num_kernel_trials, 0);
  ASSERT_EQ(warm.kernels.size(), 1u);
  EXPECT_TRUE(warm.kernels[0].from_database);
  EXPECT_EQ(warm.kernels[0].forms.size(), cold.kernels[0].forms.size());
}

TEST_F(TunerTest, CandidatesThatCompileTooSlowlyAreNoResult) {
  options_.strategy = Strategy::kGreedy;
  options_.max_trials = 2;
  options_.space = {.forms = true, .layouts = false, .barriers = false, .flags = false};
  options_.max_compile_ratio = 1e-6;
  options_.compile_slack_seconds = -1e9;

  const TuneResult result = run(depthwise("  ROOT y = f32[1,24,24,32]{3,2,1,0} multiply(c, c)\n"));

  EXPECT_TRUE(result.configuration.is_default());
  EXPECT_THAT(result.note, HasSubstr("of its compile time"));
  EXPECT_FALSE(result.trials.empty());
}

TEST_F(TunerTest, AStopReturnsWhatWasReached) {
  int events = 0;
  options_.on_event = [&](const TuneEvent& event) { events += event.phase == "search"; };
  options_.should_stop = [&] { return events >= 2; };

  const TuneResult result = run(depthwise("  ROOT y = f32[1,24,24,32]{3,2,1,0} add(c, x)\n"));

  EXPECT_TRUE(result.stopped);
  EXPECT_GE(result.trials.size(), 1u);
  EXPECT_LE(result.trials.size(), 3u);
}

TEST_F(TunerTest, ADefaultThatCannotRunIsAnError) {
  try {
    run("HloModule m\nENTRY e { a = f32[4]{0} parameter(0)\n"
        "  ROOT c = f32[4]{0} custom-call(a), custom_call_target=\"no_such_target\" }\n");
    FAIL() << "accepted";
  } catch (const SystemError& e) {
    EXPECT_THAT(e.what(), HasSubstr("no_such_target"));
  }
}

TEST_F(TunerTest, InputsThatCannotBeMadeAreAnError) {
  EXPECT_THROW(run("HloModule m\nENTRY e { ROOT t = token[] parameter(0) }\n"),
               std::invalid_argument);
}

TEST(StrategyTest, NamesReadBack) {
  for (const Strategy s :
       {Strategy::kConditions, Strategy::kGreedy, Strategy::kRandom, Strategy::kGenetic}) {
    EXPECT_EQ(strategy_from_name(strategy_name(s)), s);
  }
  EXPECT_THROW(strategy_from_name("annealing"), std::invalid_argument);
}

const std::string kTwoConvolutions = depthwise(
    "  l = f32[1,1,32,16]{3,2,1,0} parameter(2)\n"
    "  ROOT d = f32[1,24,24,16]{3,2,1,0} convolution(c, l), window={size=1x1}, "
    "dim_labels=b01f_01io->b01f\n");

TEST_F(TunerTest, ACostModelSaysWhichFormsAreMeasured) {
  options_.strategy = Strategy::kModel;
  options_.max_trials = 2;
  options_.space = {.forms = true, .layouts = false, .barriers = false, .flags = false};
  std::set<std::string> asked;
  options_.cost_model.costs = [&](const hlo::Module&, const auto& configurations) {
    std::vector<double> costs;
    for (const auto& configuration : configurations) {
      const std::string text = configuration.to_string();
      asked.insert(text);
      // Nothing but this one is worth a look.
      costs.push_back(text.empty() ? 0 : text == "node form depthwise_taps\n" ? -20 : 20);
    }
    return costs;
  };

  const TuneResult result = run(kTwoConvolutions);

  EXPECT_GT(asked.size(), 3u);
  std::set<std::string> measured;
  for (const KernelResult& kernel : result.kernels) {
    for (const KernelRecord& record : kernel.forms) measured.insert(record.configuration);
  }
  EXPECT_THAT(measured, ::testing::ElementsAre("node form depthwise_taps\n"));
  EXPECT_EQ(result.num_kernel_trials, 2);  // as it is, and in this form
}

TEST_F(TunerTest, WhereTheLikelyFormsCompileTooLongTheConditionsFollow) {
  options_.strategy = Strategy::kModel;
  options_.max_trials = 2;
  options_.max_compile_ratio = 1e-9;
  options_.compile_slack_seconds = 0;
  options_.cost_model.costs = [](const hlo::Module&, const auto& configurations) {
    std::vector<double> costs;
    for (const auto& configuration : configurations) {
      // Anything but what the conditions take.
      const std::string text = configuration.to_string();
      costs.push_back(text.empty() ? 0 : text == "node form depthwise_taps\n" ? 20 : -20);
    }
    return costs;
  };

  const TuneResult result = run(kTwoConvolutions);

  ASSERT_EQ(result.trials.size(), 2u);
  EXPECT_EQ(result.trials[0].origin, "likely");
  EXPECT_EQ(result.trials[1].origin, "conditions");
  EXPECT_TRUE(result.configuration.is_default());
  if (result.trials[1].ratio.median < 1) {
    EXPECT_THAT(result.note, HasSubstr("--allow-slow-compile takes it"));
  }
}

TEST_F(TunerTest, ACostModelThatDoesNotFitIsLeftOutWithANotice) {
  options_.strategy = Strategy::kModel;
  options_.max_trials = 2;
  options_.cost_model.costs = [](const hlo::Module&, const auto&) -> std::vector<double> {
    throw FormatError("m", "", "feature version 2, expected 1");
  };
  std::string events;
  options_.on_event = [&](const TuneEvent& event) { events += event.text + "\n"; };

  const TuneResult result = run(kTwoConvolutions);

  EXPECT_THAT(events, HasSubstr("the cost model is left out"));
  EXPECT_THAT(events, HasSubstr("feature version 2, expected 1"));
  EXPECT_FALSE(result.kernels.empty());
}

TEST_F(TunerTest, WhatNeighboursBroughtSavesMeasurements) {
  options_.strategy = Strategy::kModel;
  options_.max_trials = 1;
  options_.space = {.forms = true, .layouts = false, .barriers = false, .flags = false};
  const TuneResult first = run(kTwoConvolutions);
  // Measured on a device that is not this one: all kernels of it look alike but are not known here.
  const std::filesystem::path other = folder_ / "other";
  {
    Database database(other, "another device");
    const hlo::Module module = hlo::read_hlo_text(kTwoConvolutions, "t");
    const SearchSpace space(module, options_.space);
    for (const Kernel& kernel : space.kernels()) {
      for (const rewrite::Rule* rule : kernel.rules) {
        database.add({.signature = "elsewhere",
                      .configuration = form_configuration(*rule),
                      .opcode = "convolution",
                      .default_seconds = 1,
                      .seconds = 50,
                      .ratio = {.median = 50, .low = 49, .high = 51},
                      .error = {},
                      .node = describe_node(kernel.cut_out.module, kernel.cut_out.node)});
      }
    }
  }
  options_.inform_from = other;

  const TuneResult informed = run(kTwoConvolutions);

  EXPECT_GT(first.num_kernel_trials, 0);
  EXPECT_LT(informed.num_kernel_trials, first.num_kernel_trials);
}

TEST_F(TunerTest, DecisionsThatDoNotPayAreDroppedAndThoseThatDoStay) {
  const hlo::Module module = hlo::read_hlo_text(kTwoConvolutions, "t");
  const SearchSpace space(module, options_.space);
  SearchSession session(module, space, options_);
  session.load_baseline();
  rewrite::Configuration configuration =
      rewrite::Configuration::from_string("c form depthwise_taps\nd barrier 0\n");
  session.try_configuration(configuration, "greedy", session.search_timing());
  ASSERT_LT(session.best_trial()->ratio.median, 0.8) << "the form must pay for this test";

  drop_what_does_not_pay(session);

  EXPECT_THAT(session.preferred().to_string(), HasSubstr("c form depthwise_taps"));
  const size_t left = session.preferred().decisions.size();
  EXPECT_EQ(session.result().num_dropped, static_cast<int>(2 - left));
  // Each candidate leaves something out, and the form is not doubted alone without reason.
  for (const Trial& trial : session.result().trials) {
    EXPECT_LE(trial.configuration.decisions.size(), 2u);
  }
}

}  // namespace
}  // namespace lagom::tune

#include "lagom/tune/advice.h"

#include <gtest/gtest.h>

#include <set>

#include "lagom/hlo/text_reader.h"
#include "lagom/rewrite/rule.h"

namespace lagom::tune {
namespace {

TEST(AdviceTest, EveryRuleSaysHowToWriteItsForm) {
  const hlo::Module module = hlo::read_hlo_text(
      "HloModule m\nENTRY main { x = f32[2] parameter(0) ROOT y = f32[2] tanh(x) }", "m");
  const auto advice = [&](std::string form) {
    return describe_decision(module, {.kind = rewrite::DecisionKind::kForm,
                                      .instruction = "y",
                                      .operand = 0,
                                      .form = std::move(form),
                                      .layout = {}})
        .advice;
  };
  std::set<std::string> seen = {advice("a form that no rule has")};
  for (const rewrite::Rule* rule : rewrite::all_rules()) {
    EXPECT_TRUE(seen.insert(advice(std::string(rule->name()))).second) << rule->name();
  }
}

}  // namespace
}  // namespace lagom::tune

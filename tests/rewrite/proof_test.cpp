// Every rule on generated nodes: the plain node and the rewritten one, each evaluated in double and
// run by XLA, must agree. A failing case is shrunk and printed as HLO.
//
// LAGOM_PROOF_CASES: how many cases of each rule go through XLA; 25 times as many are compared in
// double. LAGOM_PROOF_SEED: another draw.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "lagom/hlo/edit.h"
#include "lagom/hlo/evaluator.h"
#include "lagom/hlo/text_writer.h"
#include "lagom/hlo/verifier.h"
#include "lagom/rewrite/rule.h"
#include "tests/testing/random_nodes.h"
#include "tests/testing/rounding.h"
#include "tests/testing/xla_runner.h"

namespace lagom::rewrite {
namespace {

using hlo::ElementType;
using hlo::Values;
using ::testing::HasSubstr;
using testing::NodeFamily;
using ::testing::Not;
using testing::RandomNode;
using testing::RoundingBound;

int64_t from_environment(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

int64_t num_cases() {
  return from_environment("LAGOM_PROOF_CASES", 6);
}

int64_t chosen_seed() {
  return from_environment("LAGOM_PROOF_SEED", 1);
}

// Choices that rapidcheck draws and shrinks.
class ShrinkingChoices : public testing::Choices {
 public:
  int64_t integer(int64_t low, int64_t high) override {
    return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(low, high + 1));
  }
};

bool fits(const Rule& rule, RandomNode& node) {
  return rewrite::fits(rule, *node.entry, *node.node);
}

// Families with nodes that the rule fits, found by drawing.
const std::vector<const NodeFamily*>& families_of(const Rule& rule) {
  static std::map<const Rule*, std::vector<const NodeFamily*>> found;
  if (found.empty()) {
    for (const NodeFamily& family : testing::node_families()) {
      testing::RandomChoices choices(7);
      std::map<const Rule*, int> hits;
      for (int draw = 0; draw < 200; ++draw) {
        RandomNode node = family.make(choices);
        for (const Rule* candidate : all_rules()) {
          // Once in twenty: rarer ones would only be drawn in vain.
          if (fits(*candidate, node) && ++hits[candidate] == 10) {
            found[candidate].push_back(&family);
          }
        }
      }
    }
  }
  return found[&rule];
}

hlo::Module rewritten(const RandomNode& node, const Rule& rule) {
  hlo::Module module = node.module.clone();
  hlo::NameTable names(module);
  apply_rule(rule, module, *module.entry(), names, module.entry()->find(node.node->name));
  hlo::remove_dead_code(module);
  return module;
}

// A node, its rewritten form, and what both should give.
struct Case {
  RandomNode node;
  hlo::Module form;
  std::vector<Values> expected;    // In double, of the plain node.
  std::vector<Values> magnitudes;  // Of the same, to measure errors by.
  std::vector<ElementType> types;
  double terms = 1;

  Case(RandomNode drawn, const Rule& rule) : node(std::move(drawn)), form(rewritten(node, rule)) {
    hlo::verify(node.module, "plain");
    hlo::verify(form, "rewritten");
    const std::vector<hlo::Instruction*> parameters = node.entry->parameters();
    for (size_t p = 0; p < parameters.size(); ++p) {
      node.arguments[p] =
          testing::rounded(parameters[p]->shape.element_type, std::move(node.arguments[p]));
    }
    types = testing::leaf_types(node.entry->root()->shape);
    expected = evaluated(node.module, node.arguments);
    magnitudes = evaluated(node.module, testing::absolute(node.arguments));
    terms = node.terms > 0
                ? node.terms
                : std::max(testing::summed_terms(node.module), testing::summed_terms(form));
  }

  static std::vector<Values> evaluated(const hlo::Module& module,
                                       const std::vector<Values>& arguments) {
    return testing::leaves(hlo::evaluate(*module.entry(), {arguments.begin(), arguments.end()}));
  }

  RoundingBound bound(size_t output, double unit) const {
    const double magnitude = node.magnitude > 0
                                 ? node.magnitude
                                 : std::max(testing::largest_magnitude(magnitudes[output]),
                                            testing::largest_magnitude(expected[output]));
    return {.unit = unit, .terms = terms, .magnitude = magnitude};
  }

  // What is wrong with these results, "" when nothing is. `unit` gives an output's rounding unit.
  template <typename Unit>
  std::string compare(const std::vector<Values>& actual, const std::string& whose,
                      Unit&& unit) const {
    if (actual.size() != expected.size()) return whose + " has another number of outputs";
    for (size_t o = 0; o < expected.size(); ++o) {
      const std::string error =
          testing::describe_error(expected[o], actual[o], bound(o, unit(types[o])));
      if (!error.empty()) return whose + ", output " + std::to_string(o) + ": " + error;
    }
    return "";
  }

  std::string to_string() const {
    std::ostringstream out;
    out << "\n== the node\n"
        << hlo::write_hlo_text(node.module) << "\n== rewritten\n"
        << hlo::write_hlo_text(form);
    for (size_t p = 0; p < node.arguments.size(); ++p) {
      out << "== argument " << p << ":";
      for (size_t i = 0; i < node.arguments[p].size() && i < 64; ++i) {
        out << ' ' << node.arguments[p][i];
      }
      out << '\n';
    }
    return out.str();
  }
};

double double_unit(ElementType) {
  return testing::unit_roundoff(ElementType::kF64);
}

// Runs a property on cases of the rule that rapidcheck draws from the families. `check` returns
// what is wrong with one, and this the smallest that fails; "" when all hold.
template <typename Check>
std::string prove(const Rule& rule, const std::vector<const NodeFamily*>& families, int64_t cases,
                  int64_t seed, Check&& check) {
  rc::detail::TestParams parameters;
  parameters.seed = static_cast<uint64_t>(seed);
  parameters.maxSuccess = static_cast<int>(cases);
  parameters.maxDiscardRatio = 100;
  const auto property = [&] {
    ShrinkingChoices choices;
    RandomNode node = choices.element(families)->make(choices);
    RC_PRE(fits(rule, node));
    const Case drawn(std::move(node), rule);
    const std::string wrong = check(drawn);
    if (!wrong.empty()) RC_FAIL(wrong + drawn.to_string());
  };
  const rc::detail::TestResult result =
      rc::detail::checkTestable(property, rc::detail::TestMetadata{}, parameters);
  rc::detail::FailureResult failure;
  if (result.match(failure)) return failure.description;
  if (result.is<rc::detail::SuccessResult>()) return "";
  std::ostringstream message;
  rc::detail::printResultMessage(result, message);
  return message.str();
}

std::string compare_in_double(const Case& drawn) {
  return drawn.compare(Case::evaluated(drawn.form, drawn.node.arguments), "the form, in double",
                       double_unit);
}

class ProofTest : public ::testing::TestWithParam<const Rule*> {
 protected:
  void SetUp() override {
    ASSERT_FALSE(families_of(*GetParam()).empty())
        << "no generator of tests/testing/random_nodes.h draws nodes that " << GetParam()->name()
        << " fits: a rule comes with one";
  }
};

TEST_P(ProofTest, FormHasTheNodesValueInDouble) {
  EXPECT_EQ(prove(*GetParam(), families_of(*GetParam()), 25 * num_cases(), chosen_seed(),
                  compare_in_double),
            "");
}

TEST_P(ProofTest, XlaGivesNodeAndFormThisValue) {
  const Rule& rule = *GetParam();
  const auto unit = [&](ElementType type) {
    const double own = testing::unit_roundoff(type);
    if (own == 0 || rule.rule_class() != RuleClass::kRelaxes) return own;
    return std::max(own, testing::unit_roundoff(ElementType::kBF16));
  };
  const auto check = [&](const Case& drawn) -> std::string {
    const auto plain = testing::run_in_xla(drawn.node.module, drawn.node.arguments);
    if (!drawn.node.xla_may_differ) {
      const std::string wrong = drawn.compare(plain, "the node, by XLA", testing::unit_roundoff);
      if (!wrong.empty()) return wrong;
    }
    const auto form = testing::run_in_xla(drawn.form, drawn.node.arguments);
    if (rule.rule_class() != RuleClass::kExact || drawn.node.xla_may_differ) {
      return drawn.compare(form, "the form, by XLA", unit);
    }
    for (size_t o = 0; o < plain.size(); ++o) {
      const std::string error = testing::describe_error(plain[o], form[o], {});
      if (!error.empty()) return "the form of an exact rule, against the node: " + error;
    }
    return "";
  };
  EXPECT_EQ(prove(rule, families_of(rule), num_cases(), chosen_seed(), check), "");
}

INSTANTIATE_TEST_SUITE_P(Rules, ProofTest, ::testing::ValuesIn(all_rules()),
                         [](const auto& info) { return std::string(info.param->name()); });

// Forgets the last element of the window, where it has one in its first dimension.
class WrongRule : public Rule {
 public:
  std::string_view name() const override { return "wrong"; }
  RuleClass rule_class() const override { return RuleClass::kExact; }
  bool matches(const hlo::Instruction& i) const override {
    return i.opcode == hlo::Opcode::kReduceWindow && i.attributes.window[0].size > 2;
  }
  bool is_promising(const hlo::Instruction&) const override { return true; }
  hlo::Instruction* emit(hlo::Builder& builder, const hlo::Instruction& i) const override {
    hlo::Window window = i.attributes.window;
    window[0].size -= 1;
    window[0].pad_high -= window[0].window_dilation;
    return builder.reduce_window(i.operands[0], i.operands[1], window, i.called[0]);
  }
};

TEST(ProofOfWrongRuleTest, FindsAWrongRuleAndShrinksItsCase) {
  const WrongRule rule;
  std::vector<const NodeFamily*> pools;
  for (const NodeFamily& family : testing::node_families()) {
    if (family.name == "pool") pools.push_back(&family);
  }

  const std::string wrong = prove(rule, pools, /*cases=*/100, /*seed=*/1, compare_in_double);

  EXPECT_THAT(wrong, HasSubstr("the form, in double, output 0: element "));
  // One dimension is left, and the smallest window on which it can be seen.
  EXPECT_THAT(wrong, HasSubstr("reduce-window(%x, %constant), window={size=3"));
  EXPECT_THAT(wrong, Not(HasSubstr("window={size=3x")));
}

// Rules are asked about every node, fit or not, empty or not: none may throw, and every form holds
// together.
TEST(RulesTest, AnyRuleCanBeAskedAboutAnyNode) {
  for (const NodeFamily& family : testing::node_families()) {
    testing::RandomChoices choices(3);
    for (int draw = 0; draw < 200; ++draw) {
      RandomNode node = family.make(choices);
      hlo::verify(node.module, family.name);
      for (const Rule* rule : all_rules()) {
        if (!fits(*rule, node)) continue;
        ASSERT_NO_THROW(hlo::verify(rewritten(node, *rule), family.name))
            << rule->name() << '\n'
            << hlo::write_hlo_text(node.module);
      }
    }
  }
}

}  // namespace
}  // namespace lagom::rewrite

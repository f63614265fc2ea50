// The evaluator in double beside XLA, over the example programs.
//
// LAGOM_EVALUATOR_SWEEP=1 takes every kernel and every program (some minutes) instead of a choice.

#include "lagom/hlo/evaluator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <string>

#include "lagom/hlo/module_file.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/text_writer.h"
#include "lagom/measure/compare.h"
#include "lagom/measure/inputs.h"
#include "lagom/tune/input_roles.h"
#include "lagom/tune/space.h"
#include "tests/testing/data.h"
#include "tests/testing/rounding.h"
#include "tests/testing/xla_runner.h"

namespace lagom::hlo {
namespace {

bool is_sweep() {
  return std::getenv("LAGOM_EVALUATOR_SWEEP") != nullptr;
}

std::vector<Values> healthy_inputs(const Module& module, double perturbation = 0) {
  std::vector<Values> inputs;
  const std::vector<measure::InputSpec> specs = tune::input_specs(module);
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::string bytes =
        measure::make_input(specs[i], i, {.seed = 1, .perturbation = perturbation});
    inputs.push_back(testing::decoded(specs[i].element_type, bytes));
  }
  return inputs;
}

std::vector<Value> as_arguments(const Module& module, const std::vector<Values>& inputs) {
  std::vector<Value> arguments(inputs.begin(), inputs.end());
  if (!tune::has_tuple_argument(module)) return arguments;
  return {Value::tuple(std::move(arguments))};
}

// What the evaluator makes of a module, or why it makes nothing.
struct Evaluation {
  std::vector<Values> outputs;
  std::string refusal;
};

Evaluation evaluated(const Module& module, const std::vector<Value>& arguments, double max_work) {
  try {
    return {
        .outputs = testing::leaves(evaluate(*module.entry(), arguments, {.max_work = max_work})),
        .refusal = ""};
  } catch (const EvaluatorLimitError& e) {
    return {.outputs = {}, .refusal = e.what()};
  }
}

// Evaluates and runs `type[n] opcode(x..)` for every opcode; `result` is each one's element type.
void expect_xlas_values(const std::vector<std::string>& opcodes, const std::string& type,
                        const std::string& result, const std::vector<Values>& inputs,
                        double relative_error = 0) {
  const std::string n = "[" + std::to_string(inputs[0].size()) + "]";
  std::string text = "HloModule m\nENTRY e {\n", operands, names, shapes;
  for (size_t p = 0; p < inputs.size(); ++p) {
    const std::string name = "p" + std::to_string(p);
    text += name + " = " + type + n + " parameter(" + std::to_string(p) + ")\n";
    operands += (p > 0 ? ", " : "") + name;
  }
  for (size_t o = 0; o < opcodes.size(); ++o) {
    const std::string name = "r" + std::to_string(o);
    const size_t space = opcodes[o].find(' ');  // Attributes follow the opcode.
    text += name + " = " + result + n + " " + opcodes[o].substr(0, space) + "(" + operands + ")" +
            (space == std::string::npos ? "" : "," + opcodes[o].substr(space)) + "\n";
    names += (o > 0 ? ", " : "") + name;
    shapes += (o > 0 ? ", " : "") + result + n;
  }
  const Module module =
      read_hlo_text(text + "ROOT t = (" + shapes + ") tuple(" + names + ")\n}", "test");
  const std::vector<Values> expected = testing::run_in_xla(module, inputs);
  const std::vector<Values> actual =
      testing::leaves(evaluate(*module.entry(), {inputs.begin(), inputs.end()}));
  for (size_t o = 0; o < opcodes.size(); ++o) {
    for (size_t i = 0; i < expected[o].size(); ++i) {
      const double wanted = expected[o][i];
      const double found =
          result == "f32" ? static_cast<double>(static_cast<float>(actual[o][i])) : actual[o][i];
      const bool is_near = std::isfinite(wanted) && std::isfinite(found) &&
                           std::fabs(wanted - found) <= relative_error * std::fabs(wanted);
      EXPECT_TRUE(wanted == found || (std::isnan(wanted) && std::isnan(found)) || is_near)
          << opcodes[o] << " of " << type << " " << inputs[0][i]
          << (inputs.size() > 1 ? ", " + std::to_string(inputs[1][i]) : "") << ": " << found
          << ", by XLA " << wanted;
    }
  }
}

// Every pair of the numbers.
std::vector<Values> pairs(const Values& numbers) {
  std::vector<Values> result(2);
  for (double a : numbers) {
    for (double b : numbers) {
      result[0].push_back(a);
      result[1].push_back(b);
    }
  }
  return result;
}

TEST(EvaluatorCornersTest, IntegersAreXlas) {
  const std::vector<std::pair<std::string, Values>> types = {
      {"s8", {-128, -127, -7, -2, -1, 0, 1, 2, 3, 8, 31, 127}},
      {"s32", {-2147483648.0, -2147483647.0, -33, -2, -1, 0, 1, 3, 31, 32, 65537, 2147483647}},
      {"u8", {0, 1, 2, 3, 7, 8, 9, 128, 255}},
      {"u32", {0, 1, 2, 3, 31, 32, 65537, 2147483648.0, 4294967295.0}},
      {"s64", {-4294967297.0, -64, -1, 0, 1, 3, 63, 64, 4294967297.0}}};
  for (const auto& [type, numbers] : types) {
    expect_xlas_values(
        {"add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and", "or",
         "xor", "shift-left", "shift-right-logical", "shift-right-arithmetic"},
        type, type, pairs(numbers));
    expect_xlas_values({"compare direction=LT", "compare direction=GE", "compare direction=NE"},
                       type, "pred", pairs(numbers));
    expect_xlas_values({"negate", "not", "popcnt", "count-leading-zeros"}, type, type, {numbers});
    if (type[0] == 's') expect_xlas_values({"abs", "sign"}, type, type, {numbers});
    for (const char* to : {"s8", "u8", "s16", "s32", "u32", "pred", "f32"}) {
      expect_xlas_values({"convert"}, type, to, {numbers}, 1e-7);
    }
  }
  expect_xlas_values({"add", "multiply", "maximum", "minimum", "and", "or", "xor"}, "pred", "pred",
                     pairs({0, 1}));
}

TEST(EvaluatorCornersTest, FloatsAreXlas) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Values numbers = {-infinity, -300, -2.5, -1.5, -1, -0.5, -0.0,     0.0,
                          0.5,       1,    1.5,  2.5,  3,  300,  infinity, nan};
  expect_xlas_values(
      {"abs", "negate", "sign", "ceil", "floor", "round-nearest-afz", "round-nearest-even",
       "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "sqrt", "rsqrt",
       "cbrt", "tanh", "erf", "reduce-precision exponent_bits=5, mantissa_bits=3"},
      "f32", "f32", {numbers}, 1e-5);
  expect_xlas_values({"add", "subtract", "multiply", "divide", "remainder", "power", "atan2"},
                     "f32", "f32", pairs(numbers), 1e-5);
  // XLA's CPU backend drops a NaN on the right of these, against HLO.
  expect_xlas_values({"maximum", "minimum"}, "f32", "f32",
                     pairs({-infinity, -1, -0.0, 0.0, 2, infinity}));
  expect_xlas_values({"compare direction=LT", "compare direction=GE", "compare direction=NE",
                      "compare direction=LT, type=TOTALORDER"},
                     "f32", "pred", pairs(numbers));
  expect_xlas_values({"is-finite"}, "f32", "pred", {numbers});
  for (const char* to : {"s8", "u8", "s32", "u32", "pred"}) {
    expect_xlas_values({"convert"}, "f32", to, {numbers});
  }
  expect_xlas_values({"sine", "cosine", "tan"}, "f32", "f32", {{-0.9, -0.5, 0, 0.25, 0.75, 1}},
                     1e-5);
}

class ExampleTest : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(ExampleTest, KernelsHaveXlasValues) {
  const Module program = read_module_file(GetParam());
  const tune::SearchSpace space(program, {});
  const double max_work = is_sweep() ? 5e9 : 1e7;
  std::map<Opcode, int> checked;
  int compared = 0, too_large = 0;
  for (const tune::Kernel& kernel : space.kernels()) {
    const Module& module = kernel.cut_out.module;
    if (!is_sweep() && checked[kernel.opcode] >= 1) continue;
    SCOPED_TRACE(write_hlo_text(module).substr(0, 3000));
    const std::vector<Values> inputs = healthy_inputs(module);
    const Evaluation result = evaluated(module, as_arguments(module, inputs), max_work);
    if (!result.refusal.empty()) {
      ++too_large;
      continue;
    }
    const std::vector<Values>& expected = result.outputs;
    const std::vector<Values> magnitudes =
        evaluated(module, as_arguments(module, testing::absolute(inputs)), 1e12).outputs;
    const std::vector<Values> actual = testing::run_in_xla(module, inputs);

    const std::vector<ElementType> types = testing::leaf_types(module.entry()->root()->shape);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t o = 0; o < expected.size(); ++o) {
      const testing::RoundingBound bound = {
          .unit = testing::unit_roundoff(types[o]),
          .terms = testing::summed_terms(module),
          .magnitude = std::max(testing::largest_magnitude(magnitudes[o]),
                                testing::largest_magnitude(expected[o]))};
      EXPECT_EQ(testing::describe_error(expected[o], actual[o], bound), "") << "output " << o;
    }
    ++checked[kernel.opcode];
    ++compared;
  }
  RecordProperty("compared", compared);
  RecordProperty("too_large", too_large);
}

TEST_P(ExampleTest, ProgramHasXlasValues) {
  const Module program = read_module_file(GetParam());
  // What XLA compiles in a second or so.
  if (!is_sweep() && program.num_instructions() > 800) GTEST_SKIP() << "too many instructions";
  const double max_work = is_sweep() ? 2e10 : 6e8;
  const std::vector<Values> inputs = healthy_inputs(program);
  const Evaluation result = evaluated(program, as_arguments(program, inputs), max_work);
  if (!result.refusal.empty()) GTEST_SKIP() << result.refusal;
  const std::vector<Values>& expected = result.outputs;
  const std::vector<Values> moved =
      evaluated(program, as_arguments(program, healthy_inputs(program, 1e-6)), 1e12).outputs;
  const std::vector<Values> actual = testing::run_in_xla(program, inputs);

  const auto compare = [](const Values& reference, const Values& candidate) {
    const auto bytes = [](const Values& values) {
      return std::string_view(reinterpret_cast<const char*>(values.data()),
                              values.size() * sizeof(double));
    };
    return measure::compare_output(ElementType::kF64, bytes(reference), bytes(candidate));
  };
  const std::vector<ElementType> types = testing::leaf_types(program.entry()->root()->shape);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t o = 0; o < expected.size(); ++o) {
    measure::Tolerance tolerance =
        measure::output_tolerance(types[o], compare(expected[o], moved[o]));
    // XLA rounds every step of a program in bf16, not only its inputs.
    if (element_bits(types[o]) < 32) tolerance.relative_error = 0.2;
    EXPECT_EQ(measure::judge_output(compare(expected[o], actual[o]), tolerance), "")
        << "output " << o << " of type " << element_type_name(types[o]);
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, ExampleTest,
                         ::testing::ValuesIn(testing::data_files("programs", ".pb.gz")),
                         [](const auto& info) {
                           const std::string name = info.param.filename().string();
                           return name.substr(0, name.find('.'));
                         });

}  // namespace
}  // namespace lagom::hlo

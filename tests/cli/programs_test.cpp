#include "tests/cli/cli_fixture.h"

namespace lagom::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::CommandResult;
using ::testing::HasSubstr;
using ::testing::Not;

using InspectTest = CliTest;
using ConvertTest = CliTest;
using RunTest = CliTest;
using ProfileTest = CliTest;

TEST_F(InspectTest, JsonSaysWhatIsInAProgram) {
  const CommandResult result = lagom({"inspect", "--json", depthwise_program()});

  ASSERT_EQ(result.status, 0) << result.err;
  const json j = json::parse(result.out);
  EXPECT_EQ(j.at("kind"), "HLO text");
  EXPECT_EQ(j.at("module"), "depthwise");
  EXPECT_EQ(j.at("instructions"), 3);
  EXPECT_EQ(j.at("parameters"), 2);
  EXPECT_EQ(j.at("parameter_bytes"), 4 * (32 * 32 * 64 + 9 * 64));
  EXPECT_EQ(j.at("output_bytes"), 4 * 32 * 32 * 64);
  EXPECT_EQ(j.at("opcodes").at("convolution"), 1);
  EXPECT_EQ(j.at("nodes_with_forms"), 1);
  EXPECT_FALSE(j.contains("problem"));
}

TEST_F(InspectTest, OneBadFileDoesNotHideTheOthers) {
  const CommandResult result = lagom({"inspect", "--json", folder_ / "absent", add_program()});

  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(json::parse(result.out).at(0).at("module"), "add");
  EXPECT_THAT(result.err, HasSubstr("absent: cannot be opened"));
}

TEST_F(InspectTest, SizesPastCountingAndNamesOfAnyBytesAreShown) {
  std::string text =
      "HloModule m, num_partitions=9223372036854775807, replica_count=8\nENTRY e {\n";
  std::string operands;
  for (int i = 0; i < 20; ++i) {
    const std::string n = std::to_string(i);
    text += "  p" + n + " = f64[288230376151711744]{0} parameter(" + n + ")\n";
    operands += (i > 0 ? ", p" : "p") + n;
  }
  text += "  ROOT c = f32[] custom-call(" + operands + "), custom_call_target=\"\xff\xfe\"\n}\n";

  const CommandResult result = lagom({"inspect", "--json", folder_.write("huge.hlo", text)});

  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(json::parse(result.out).at("parameter_bytes"), INT64_MAX);
  EXPECT_EQ(lagom({"inspect", folder_ / "huge.hlo"}).status, 0);
}

TEST_F(ConvertTest, TextAndProtoAndCompressedFormsAreEqual) {
  const std::string original = depthwise_program();

  ASSERT_EQ(lagom({"convert", original, folder_ / "a.hlo.pb.gz"}).status, 0);
  ASSERT_EQ(lagom({"convert", folder_ / "a.hlo.pb.gz", folder_ / "b.hlo"}).status, 0);
  ASSERT_EQ(lagom({"convert", original, folder_ / "c.txt.gz"}).status, 0);
  ASSERT_EQ(lagom({"convert", folder_ / "c.txt.gz", folder_ / "d.hlo"}).status, 0);

  const auto content = [](const std::string& path) {
    std::ifstream in(path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  // A proto always holds the entry's layout; the text had none.
  const std::string b = content(folder_ / "b.hlo"), d = content(folder_ / "d.hlo");
  EXPECT_EQ(b.substr(b.find('\n')), d.substr(d.find('\n')));
}

TEST_F(ConvertTest, SaysWhatIsLeftOut) {
  const std::string two =
      folder_.write("two.hlo",
                    "HloModule a, odd_option=3\nENTRY e { ROOT p = f32[] parameter(0) }\n"
                    "// -----\nHloModule b\nENTRY e { ROOT p = f32[] parameter(0) }\n");

  const CommandResult result = lagom({"convert", two, folder_ / "out.pb"});

  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("holds 2 modules; the first is converted"),
                    HasSubstr("a proto has no place for attribute module: odd_option")));
}

TEST_F(ConvertTest, ConstantsWithoutValuesHaveNoProto) {
  const std::string elided = folder_.write(
      "elided.hlo", "HloModule m\nENTRY e { ROOT c = (f32[9]{0}, f32[]) constant({...}) }\n");

  EXPECT_THAT(lagom({"convert", elided, folder_ / "out.pb"}), FailsWith("has no values"));
  EXPECT_THAT(lagom({"run", elided}), FailsWith("constant 'c': has no values"));
  const CommandResult filled = lagom({"run", elided, "--fill-elided", "--budget-seconds", "0.1"});
  EXPECT_EQ(filled.status, 0) << filled.err;
  EXPECT_THAT(filled.out, HasSubstr("output 0 f32[9]: min 1, max 1"));
}

TEST_F(RunTest, JsonHoldsTimesAndOutputs) {
  const CommandResult result = lagom({"run", add_program(), "--json", "--budget-seconds", "0.1"});

  ASSERT_EQ(result.status, 0) << result.err;
  const json j = json::parse(result.out);
  EXPECT_GT(j.at("seconds"), 0);
  EXPECT_GT(j.at("runs"), 0);
  EXPECT_GT(j.at("compile_seconds"), 0);
  EXPECT_EQ(j.at("outputs").at(0).at("dimensions"), json({64}));
  EXPECT_EQ(j.at("outputs").at(0).at("nan"), 0);
}

TEST_F(RunTest, OutputsThatAreNanByDefaultAreEqualToThemselves) {
  const std::string nan = folder_.write("nan.hlo", R"(HloModule nan
ENTRY e {
  a = f32[4]{0} parameter(0)
  c = f32[4]{0} constant({-1, -2, -3, 1})
  l = f32[4]{0} log(c)
  ROOT s = f32[4]{0} add(a, l)
})");

  EXPECT_THAT(lagom({"run", nan, "--budget-seconds", "0.1"}).out, HasSubstr("3 NaN"));
  const CommandResult compared = lagom({"run", nan, "--compare", nan, "--budget-seconds", "0.1"});
  EXPECT_EQ(compared.status, 0) << compared.err;
  EXPECT_THAT(compared.out, AllOf(HasSubstr("outputs are identical bit for bit"),
                                  HasSubstr("note: 3 outputs are NaN")));
}

TEST_F(RunTest, CompareTellsEqualFromDifferent) {
  const std::string add = add_program();
  const std::string same = folder_.write(
      "same.hlo",
      "HloModule m\nENTRY e { a = f32[64]{0} parameter(0) c = f32[] constant(2)\n"
      "b = f32[64]{0} broadcast(c), dimensions={} ROOT s = f32[64]{0} multiply(a, b) }\n");
  const std::string other = folder_.write(
      "other.hlo",
      "HloModule m\nENTRY e { a = f32[64]{0} parameter(0) ROOT s = f32[64]{0} multiply(a, a) }\n");
  const std::string longer = folder_.write(
      "longer.hlo",
      "HloModule m\nENTRY e { a = f32[65]{0} parameter(0) ROOT s = f32[65]{0} add(a, a) }\n");
  const std::string two = folder_.write(
      "two.hlo",
      "HloModule m\nENTRY e { a = f32[64]{0} parameter(0) b = f32[64]{0} parameter(1)\n"
      "ROOT s = f32[64]{0} add(a, b) }\n");

  const CommandResult equal =
      lagom({"run", add, "--compare", same, "--json", "--budget-seconds", "0.1"});
  EXPECT_EQ(equal.status, 0) << equal.err;
  EXPECT_EQ(json::parse(equal.out).at("outputs_identical"), true);

  const CommandResult different =
      lagom({"run", add, "--compare", other, "--json", "--budget-seconds", "0.1"});
  EXPECT_EQ(different.status, 1);
  EXPECT_EQ(json::parse(different.out).at("outputs_identical"), false);
  EXPECT_NE(json::parse(different.out).at("problem"), "");

  EXPECT_THAT(lagom({"run", add, "--compare", two}), FailsWith("takes 2 inputs"));
  EXPECT_THAT(lagom({"run", add, "--compare", longer}),
              FailsWith("input 0 is f32[65], that of " + add + " is f32[64]"));
}

TEST_F(RunTest, DonatedInputsAreHandled) {
  const std::string donated =
      folder_.write("donated.hlo",
                    "HloModule m, input_output_alias={ {}: (0, {}, must-alias) }\n"
                    "ENTRY e { a = f32[64]{0} parameter(0)  ROOT s = f32[64]{0} add(a, a) }\n");

  const CommandResult result =
      lagom({"run", donated, "--compare", add_program(), "--json", "--budget-seconds", "0.1"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(json::parse(result.out).at("outputs_identical"), true);

  const auto resnet = (testing::data_folder() / "hlo" / "resnet50_keras_jax_f32.hlo").string();
  EXPECT_EQ(lagom({"run", resnet, "--budget-seconds", "0.1"}).status, 0);
}

TEST_F(RunTest, ProgramsThatCannotRunHereAreNamed) {
  const auto data = testing::data_folder() / "hlo";

  EXPECT_THAT(lagom({"run", (data / "jax_issue_26021.hlo").string()}),
              FailsWith("lapack_dgeqrf_ffi"));
  const CommandResult large =
      lagom({"run", (data / "llama3_8b_jit_generate.before_optimizations.txt").string()});
  EXPECT_THAT(large, FailsWith("GiB of parameters"));
  EXPECT_THAT(large.err, HasSubstr("are available"));
}

TEST_F(RunTest, AScheduledProgramRunsWithoutItsSchedule) {
  // XLA aborts when it is given this one as it is: it must copy the parameter.
  const std::string scheduled = folder_.write(
      "scheduled.hlo",
      "HloModule m, is_scheduled=true\n"
      "ENTRY e { a = f32[64]{0} parameter(0)  ROOT t = (f32[64]{0}, f32[64]{0}) tuple(a, a) }\n");

  const CommandResult result = lagom({"run", scheduled, "--budget-seconds", "0.1"});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("is a compiler's output (scheduled)"));
}

TEST_F(RunTest, FlagFilesAreChecked) {
  const std::string add = add_program();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[1]", "expected an object of flag names and values"},
      {"3", "expected an object of flag names and values"},
      {"{\"a\": {\"b\": 1}}", "a: expected true, false, a number or a string"},
      {"{\"a\": null}", "a: expected true, false, a number or a string"},
      {"{\"a\": 18446744073709551615}", "does not fit in 64 bits"},
      {"{\"a\": 1e999}", "number overflow"},
      {"{\"a\":", "parse error"},
      {std::string(2000000, '['), "parse error"},
      {"", "parse error"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(lagom({"run", add, "--flags", folder_.write("flags.json", text)}),
                FailsWith(expected));
  }
  const CommandResult unknown =
      lagom({"run", add, "--flags", folder_.write("flags.json", "{\"xla_no_such_flag\": true}"),
             "--budget-seconds", "0.1"});
  EXPECT_EQ(unknown.status, 0) << unknown.err;
  EXPECT_THAT(unknown.out, HasSubstr("does not know flag xla_no_such_flag"));
}

TEST_F(RunTest, ACpuNamedTwiceIsNotWaitedFor) {
  EXPECT_EQ(lagom({"run", add_program(), "--cpus", "0,0", "--budget-seconds", "0.1"}).status, 0);
}

TEST_F(ProfileTest, JsonHoldsKernelsAndTheMachinesRate) {
  const CommandResult result = lagom({"profile", depthwise_program(), "--json"});

  ASSERT_EQ(result.status, 0) << result.err;
  const json j = json::parse(result.out);
  EXPECT_GT(j.at("program_seconds"), 0);
  EXPECT_GT(j.at("machine").at("flops_per_second"), 1e8);
  EXPECT_GT(j.at("machine").at("bytes_per_second"), 1e7);
  ASSERT_EQ(j.at("kernels").size(), 1u);
  const json& kernel = j.at("kernels").at(0);
  EXPECT_EQ(kernel.at("opcode"), "convolution");
  EXPECT_EQ(kernel.at("instructions"), json({"c"}));
  EXPECT_EQ(kernel.at("op_name"), "model/depthwise");
  EXPECT_EQ(kernel.at("executions"), 1);
  EXPECT_GT(kernel.at("seconds"), 0);
  EXPECT_FALSE(kernel.contains("error"));
}

}  // namespace
}  // namespace lagom::cli

#include <filesystem>

#include "tests/cli/cli_fixture.h"

namespace lagom::cli {
namespace {

using testing::CommandResult;
using ::testing::HasSubstr;

using UsageTest = CliTest;

TEST_F(UsageTest, EveryCommandShowsHelpWithAnExample) {
  for (const std::string command : {"inspect", "convert", "run", "profile", "tune"}) {
    const CommandResult result = lagom({command, "--help"});

    EXPECT_EQ(result.status, 0) << command;
    EXPECT_THAT(result.out, HasSubstr("Example: lagom " + command + " ")) << command;
    EXPECT_EQ(result.err, "") << command;
  }
  EXPECT_THAT(lagom({"--help"}).out, HasSubstr("lagom tune program.hlo"));
}

TEST_F(UsageTest, BadUsageExitsWithTwo) {
  const std::string add = add_program();
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "required"},
      {{"frob"}, "unknown command 'frob'; expected one of inspect, convert, run, profile, tune"},
      {{"run"}, "file is required"},
      {{"run", add, "--frob"}, "--frob"},
      {{"inspect"}, "required"},
      {{"convert", add}, "output is required"},
      {{"tune", add, "--strategy", "annealing"}, "not in {model,greedy,random,genetic,conditions}"},
      {{"tune", add, "--trials", "0"}, "--trials"},
      {{"tune", add, "--budget-seconds", "-1"}, "expected a number of seconds above 0, found '-1'"},
      {{"run", add, "--budget-seconds", "nan"}, "found 'nan'"},
      {{"run", add, "--budget-seconds", "inf"}, "found 'inf'"},
      {{"run", add, "--budget-seconds", "soon"}, "found 'soon'"},
      {{"run", add, "--cpus", "99999"}, "CPU 99999 is not one that this process may run on"},
      {{"run", add, "--cpus", "-1"}, "CPU -1"},
  };
  for (const auto& [arguments, expected] : cases) {
    const CommandResult result = lagom(arguments);

    EXPECT_EQ(result.status, 2) << expected;
    EXPECT_THAT(result.err, HasSubstr(expected));
    EXPECT_EQ(result.out, "") << expected;
  }
}

TEST_F(UsageTest, AFolderIsRefusedWhereOneFileIsExpected) {
  const std::string folder = folder_.path().string();
  for (const std::string command : {"run", "profile"}) {
    EXPECT_THAT(lagom({command, folder}), FailsWith("is a directory, expected a file")) << command;
  }
  EXPECT_THAT(lagom({"convert", folder, folder_ / "out.hlo"}),
              FailsWith("is a directory, expected a file"));
  EXPECT_THAT(lagom({"tune", folder}), FailsWith("holds no program"));
}

TEST_F(UsageTest, FilesThatAreNoProgramsAreNamed) {
  const std::string pb =
      (testing::data_folder() / "hlo_pb" / "module_0016.jit_train_step.before_optimizations.hlo.pb")
          .string();
  std::ifstream in(pb, std::ios::binary);
  std::string truncated(3000, '\0');
  in.read(truncated.data(), 3000);
  using namespace std::string_literals;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {folder_.write("f.mlir", "module @jit_f attributes {} {}"), "found MLIR (StableHLO)"},
      {folder_.write("x.png", "\x89PNG\r\n\x1a\n"), "found an image"},
      {folder_.write("empty.hlo", ""), "found an empty file"},
      {folder_.write("cut.pb", truncated), "truncated"},
      {folder_.write("cut.gz", "\x1f\x8b\x08\x00"s), "the stream ends early"},
      {folder_ / "absent.hlo", "cannot be opened: No such file"},
      {folder_.write("bad.hlo", "HloModule m\nENTRY e {\n  a = f32[2 parameter(0)\n}\n"),
       "line 3, column 13: expected ',' or ']' in a shape, found 'parameter'"},
      {folder_.write("binary", "\xff\x00\x01\x02"s), "truncated"},
  };
  for (const auto& [path, expected] : cases) {
    for (const std::string command : {"inspect", "run", "profile", "tune"}) {
      const CommandResult result = lagom({command, path});

      EXPECT_THAT(result, FailsWith(expected)) << command;
      EXPECT_THAT(result.err, HasSubstr(path));
    }
    EXPECT_THAT(lagom({"convert", path, folder_ / "out.hlo"}), FailsWith(expected));
  }
}

TEST_F(UsageTest, ArchivesAndFoldersWithoutGraphsAreNamed) {
  const std::string npz = folder_.write("x.npz", "PK\x03\x04 and more");
  for (const std::string command : {"run", "profile"}) {
    EXPECT_THAT(lagom({command, npz}), FailsWith("found a zip archive (npz)"));
  }
  EXPECT_THAT(lagom({"inspect", npz}), FailsWith("has no central directory"));
  EXPECT_THAT(lagom({"inspect", folder_ / "absent/"}), FailsWith("absent/"));
  std::filesystem::remove(npz);
  EXPECT_THAT(lagom({"inspect", folder_.path()}), FailsWith("no .graph and no .npz files in it"));
}

TEST_F(UsageTest, BrokenProgramsAreNamedByWhatIsWrong) {
  const std::string wrong_shape = folder_.write(
      "shape.hlo",
      "HloModule m\nENTRY e { a = f32[4]{0} parameter(0) ROOT b = f32[5]{0} add(a, a) }\n");

  for (const std::string command : {"run", "profile", "tune"}) {
    EXPECT_THAT(lagom({command, wrong_shape}),
                FailsWith("computation 'e', instruction 'b': add: expected f32[4], found f32[5]"));
  }
  const std::string dynamic = folder_.write(
      "dynamic.hlo",
      "HloModule m\nENTRY e { a = f32[<=8]{0} parameter(0) ROOT b = f32[<=8]{0} add(a, a) }\n");
  for (const std::string command : {"run", "profile", "tune"}) {
    EXPECT_THAT(lagom({command, dynamic}),
                FailsWith("dynamic.hlo: a parameter has shape f32[<=8]{0}"));
  }
  // What is in a broken program can still be looked at.
  const CommandResult inspected = lagom({"inspect", wrong_shape});
  EXPECT_EQ(inspected.status, 0);
  EXPECT_THAT(inspected.out, HasSubstr("problem: "));
}

TEST_F(UsageTest, HostileTextEndsQuickly) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {std::string(100 << 20, '('), "found a file of unknown kind"},
      {"HloModule m\nENTRY e { a = f32[2] constant(" + std::string(1 << 20, '{'), "line 2"},
      {"HloModule m\nENTRY e { a = " + std::string(1 << 20, '('), "nested too deeply"},
      {"HloModule m, x=" + std::string(1 << 20, '['), "the bracket is not closed"},
      {"/*" + std::string(1 << 20, '*'), "the comment /* has no end"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(lagom({"inspect", folder_.write("hostile.hlo", text)}), FailsWith(expected));
  }
}

TEST_F(UsageTest, OutputsThatCannotBeWrittenAreNamedBeforeTheSearch) {
  const std::string add = add_program();

  EXPECT_THAT(lagom({"tune", add, "--out", add}), FailsWith("cannot be written: Not a directory"));
  EXPECT_THAT(lagom({"tune", add, "--out", "/proc/lagom"}), FailsWith("/proc/lagom"));
  EXPECT_THAT(lagom({"tune", add, "--out", folder_ / "out", "--database", add}),
              FailsWith("add.hlo"));
  EXPECT_THAT(lagom({"convert", add, "/proc/lagom.hlo"}), FailsWith("/proc/lagom.hlo"));
  EXPECT_THAT(lagom({"convert", add, folder_ / "out.xyz"}), FailsWith("expected an ending of"));
}

TEST_F(UsageTest, PluginsThatCannotBeUsedAreNamed) {
  const std::string add = add_program();

  EXPECT_THAT(lagom({"run", add}, {{"LAGOM_PJRT_PLUGIN", ""}}),
              FailsWith("no XLA plugin found under"));
  EXPECT_THAT(lagom({"run", add, "--plugin", "/absent.so"}), FailsWith("no such plugin file"));
  EXPECT_THAT(lagom({"run", add, "--plugin", add}), FailsWith("not a loadable plugin"));
  EXPECT_THAT(lagom({"tune", add, "--plugin", add, "--out", folder_ / "out"}),
              FailsWith("not a loadable plugin"));
  EXPECT_THAT(lagom({"profile", add, "--plugin", add}), FailsWith("not a loadable plugin"));
}

}  // namespace
}  // namespace lagom::cli

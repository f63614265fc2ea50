#include "lagom/measure/worker.h"

#include <cmath>
#include <cstring>
#include <fstream>

#include "lagom/measure/machine.h"
#include "tests/measure/worker_fixture.h"

namespace lagom::measure {
namespace {

using lagom::testing::TinyModule;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(WorkerTest, SaysWhatItIs) {
  Worker worker(options());

  const WorkerInfo info = worker.hello();

  ASSERT_TRUE(info.ok()) << info.error;
  EXPECT_EQ(info.platform, "cpu");
  EXPECT_EQ(info.pid, worker.pid());
  EXPECT_EQ(info.plugin_version.substr(0, 2), "0.");
}

TEST_F(WorkerTest, FindsThePluginItself) {
  WorkerOptions own = options();
  setenv("LAGOM_PJRT_PLUGIN", own.plugin.c_str(), 1);
  own.plugin.clear();

  const WorkerInfo info = Worker(own).hello();

  EXPECT_TRUE(info.ok()) << info.error;
  EXPECT_EQ(info.plugin, options().plugin);
}

TEST_F(WorkerTest, WorksWithEveryPlugin) {
  for (const std::string& plugin : lagom::testing::test_plugins()) {
    WorkerOptions own = options();
    own.plugin = lagom::testing::plugin_path(plugin);
    Worker worker(own);
    const BaselineResult baseline = worker.load_baseline(matmul_baseline());
    ASSERT_TRUE(baseline.ok()) << plugin << ": " << baseline.error;
    const MeasureResult result = worker.measure(candidate(lagom::testing::matmul_module(128)));
    ASSERT_TRUE(result.ok()) << plugin << ": " << result.error;
  }
}

TEST_F(WorkerTest, BaselineHasTimesNoiseAndHealth) {
  Worker worker(options());

  const BaselineResult result = worker.load_baseline(matmul_baseline());

  ASSERT_TRUE(result.ok()) << result.error;
  EXPECT_GT(result.seconds, 1e-6);
  EXPECT_LT(result.seconds, 1);
  EXPECT_GE(result.self_ratio.pairs, 3);
  EXPECT_LE(result.self_ratio.low, result.self_ratio.median);
  EXPECT_GE(result.self_ratio.high, result.self_ratio.median);
  EXPECT_GT(result.noise_floor, 0);
  EXPECT_EQ(result.noise_floor, result.self_ratio.distance_from_one());
  EXPECT_TRUE(result.health.finite);
  EXPECT_TRUE(result.health.moves);
  EXPECT_TRUE(result.health.deterministic);
  EXPECT_TRUE(result.health.calm);
  EXPECT_EQ(result.health.note, "");
  ASSERT_EQ(result.outputs.size(), 1u);
  EXPECT_EQ(result.outputs[0].dimensions, (std::vector<int64_t>{128, 128}));
  // Sums of 128 products of standard normals: values of about sqrt(128), changed by a millionth.
  EXPECT_GT(result.outputs[0].statistics.max_abs, 11);
  EXPECT_LT(result.outputs[0].sensitivity, 1e-5);
  EXPECT_GT(result.outputs[0].sensitivity, 1e-8);
  EXPECT_EQ(result.figures.argument_bytes, 2 * 128 * 128 * 4);
  EXPECT_GT(result.peak_memory_bytes, 0);
}

TEST_F(WorkerTest, TheSameProgramWithOtherInputsIsNotCompiledAgain) {
  Worker worker(options());
  BaselineRequest request = matmul_baseline();

  const BaselineResult first = worker.load_baseline(request);
  request.seed += 1;
  const BaselineResult second = worker.load_baseline(request);

  ASSERT_TRUE(first.ok() && second.ok());
  // The time of one compilation: two would differ in some digit.
  EXPECT_EQ(second.figures.compile_seconds, first.figures.compile_seconds);
  EXPECT_NE(second.outputs[0].statistics.max_abs, first.outputs[0].statistics.max_abs);
}

TEST_F(WorkerTest, UnhealthyOutputsNeedNotBeTimed) {
  Worker worker(options());
  BaselineRequest request = matmul_baseline();
  for (InputSpec& input : request.inputs) input.role = InputRole::kZeros;

  request.time_unhealthy = false;
  const BaselineResult untimed = worker.load_baseline(request);
  request.time_unhealthy = true;
  const BaselineResult timed = worker.load_baseline(request);

  ASSERT_TRUE(untimed.ok() && timed.ok());
  EXPECT_FALSE(untimed.health.is_good());
  EXPECT_EQ(untimed.self_ratio.pairs, 0);
  EXPECT_GE(timed.self_ratio.pairs, 3);
}

TEST_F(WorkerTest, CandidateIsTimedAgainstTheDefault) {
  Worker worker(options());
  constexpr int64_t kSize = 384;
  ASSERT_TRUE(worker.load_baseline(matmul_baseline(kSize)).ok());

  const MeasureResult same =
      measure_until(&worker, candidate(lagom::testing::matmul_module(kSize)),
                    [](const MeasureResult& r) { return std::abs(r.ratio.median - 1) < 0.4; });
  const MeasureResult slower =
      measure_until(&worker, candidate(slower_matmul(kSize)),
                    [](const MeasureResult& r) { return r.ratio.median > 1.3; });

  ASSERT_TRUE(same.ok()) << same.error;
  ASSERT_TRUE(slower.ok()) << slower.error;
  EXPECT_NEAR(same.ratio.median, 1, 0.4);
  EXPECT_GT(slower.ratio.median, 1.3);
  EXPECT_LE(slower.ratio.low, slower.ratio.median);
  EXPECT_GE(slower.ratio.high, slower.ratio.median);
  EXPECT_GE(slower.ratio.pairs, 5);
  EXPECT_GT(*slower.seconds, slower.default_seconds);
  ASSERT_EQ(same.outputs.size(), 1u);
  EXPECT_EQ(same.outputs[0].mismatches, 0);
  EXPECT_EQ(worker.starts(), 1);
}

TEST_F(WorkerTest, ACandidateIsNotCompiledAgainUnlessAnotherDefaultCameBetween) {
  Worker worker(options());
  ASSERT_TRUE(worker.load_baseline(matmul_baseline()).ok());
  const MeasureRequest request = candidate(lagom::testing::matmul_module(128));

  const MeasureResult first = worker.measure(request);
  const MeasureResult other = worker.measure(candidate(slower_matmul(128)));
  const MeasureResult again = worker.measure(request);
  ASSERT_TRUE(worker.load_baseline(matmul_baseline(64)).ok());
  ASSERT_TRUE(worker.load_baseline(matmul_baseline()).ok());
  const MeasureResult anew = worker.measure(request);

  ASSERT_TRUE(first.ok() && other.ok() && again.ok() && anew.ok());
  // A compilation's time tells it from any other.
  EXPECT_EQ(again.figures.compile_seconds, first.figures.compile_seconds);
  EXPECT_NE(anew.figures.compile_seconds, first.figures.compile_seconds);
  EXPECT_GE(again.ratio.pairs, 3);
}

TEST_F(WorkerTest, SlowCandidateIsDroppedEarly) {
  Worker worker(options());
  TinyModule module("one");
  const int64_t x = module.parameter(PrimitiveType::kF32, {256, 256});
  const std::string fast = module.finish(module.op("tanh", PrimitiveType::kF32, {256, 256}, {x}));
  ASSERT_TRUE(worker
                  .load_baseline({.program = {.module = fast},
                                  .inputs = {f32({256, 256})},
                                  .noise = {.min_pairs = 3, .max_pairs = 3}})
                  .ok());
  MeasureRequest request = candidate(lagom::testing::matmul_chain_module(256, 20));
  request.check_outputs = false;
  request.timing.stop_ratio = 1.5;
  request.timing.budget_seconds = 20;

  const MeasureResult result = worker.measure(request);

  ASSERT_TRUE(result.ok()) << result.error;
  EXPECT_TRUE(result.dropped_early);
  EXPECT_LE(result.ratio.pairs, 2);
  EXPECT_GT(result.ratio.median, 1.5);
}

TEST_F(WorkerTest, WrongNumbersAreAFailure) {
  Worker worker(options());
  ASSERT_TRUE(worker.load_baseline(matmul_baseline()).ok());

  const MeasureResult result = worker.measure(candidate(wrong_matmul(128)));

  EXPECT_EQ(result.failure, FailureKind::kWrongNumbers);
  EXPECT_THAT(result.error, HasSubstr("wrong numbers: output 0 differs by"));
  EXPECT_FALSE(result.seconds.has_value());
}

TEST_F(WorkerTest, OutputsOfAnotherShapeAreAFailure) {
  Worker worker(options());
  ASSERT_TRUE(worker.load_baseline(matmul_baseline()).ok());
  TinyModule module("other");
  const int64_t a = module.parameter(PrimitiveType::kF32, {128, 128});
  const int64_t b = module.parameter(PrimitiveType::kF32, {128, 128});
  const int64_t product = module.dot_f32(128, 128, a, b);

  const MeasureResult result = worker.measure(
      candidate(module.finish(module.op("reshape", PrimitiveType::kF32, {16384}, {product}))));

  EXPECT_EQ(result.failure, FailureKind::kWrongNumbers);
  EXPECT_THAT(result.error, HasSubstr("other types or shapes"));
}

TEST_F(WorkerTest, ProgramThatDoesNotCompileIsAFailureAndTheWorkerLives) {
  Worker worker(options());
  ASSERT_TRUE(worker.load_baseline(matmul_baseline()).ok());

  const MeasureResult garbage = worker.measure(candidate("no protobuf at all"));
  const MeasureResult fine = worker.measure(candidate(lagom::testing::matmul_module(128)));

  EXPECT_EQ(garbage.failure, FailureKind::kCompile);
  EXPECT_THAT(garbage.error, HasSubstr("compile failed: "));
  EXPECT_TRUE(fine.ok()) << fine.error;
  EXPECT_EQ(worker.starts(), 1);
}

TEST_F(WorkerTest, CustomCallWithoutHandlerIsNamed) {
  Worker worker(options());
  TinyModule module("call");
  const int64_t x = module.parameter(PrimitiveType::kF32, {4});
  const std::string bytes =
      module.finish(module.custom_call("no_such_target", PrimitiveType::kF32, {4}, {x}));

  const RunReport report = worker.run({.program = {.module = bytes}, .inputs = {f32({4})}});

  EXPECT_FALSE(report.ok());
  EXPECT_THAT(report.error, HasSubstr("no_such_target"));
}

TEST_F(WorkerTest, UnknownFlagsAreDroppedAndReported) {
  Worker worker(options());
  ASSERT_TRUE(worker.load_baseline(matmul_baseline()).ok());
  MeasureRequest request = candidate(lagom::testing::matmul_module(128));
  request.program.flags["xla_no_such_flag"] = true;
  request.program.flags["xla_backend_optimization_level"] = int64_t{1};

  const MeasureResult result = worker.measure(request);

  ASSERT_TRUE(result.ok()) << result.error;
  EXPECT_THAT(result.figures.dropped_flags, ::testing::ElementsAre("xla_no_such_flag"));
}

TEST_F(WorkerTest, DonatedInputsAreMeasuredAsTheyAre) {
  TinyModule module("donated");
  const int64_t x = module.parameter(PrimitiveType::kF32, {1000});
  module.alias_output_with_parameter(0);
  const std::string bytes = module.finish(module.op("add", PrimitiveType::kF32, {1000}, {x, x}));
  Worker worker(options());
  const BaselineResult baseline =
      worker.load_baseline({.program = {.module = bytes},
                            .inputs = {f32({1000})},
                            .noise = {.min_pairs = 3, .max_pairs = 3, .budget_seconds = 0.1}});

  ASSERT_TRUE(baseline.ok()) << baseline.error;
  const MeasureResult result = worker.measure(candidate(bytes));
  ASSERT_TRUE(result.ok()) << result.error;
  EXPECT_EQ(result.outputs.at(0).mismatches, 0);
}

TEST_F(WorkerTest, NanOutputsAreComparedAsNan) {
  TinyModule module("nan");
  const int64_t x = module.parameter(PrimitiveType::kF32, {100});
  const std::string bytes = module.finish(module.op("log", PrimitiveType::kF32, {100}, {x}));
  Worker worker(options());
  const BaselineResult baseline =
      worker.load_baseline({.program = {.module = bytes},
                            .inputs = {f32({100})},
                            .noise = {.min_pairs = 3, .max_pairs = 3, .budget_seconds = 0.1}});

  ASSERT_TRUE(baseline.ok()) << baseline.error;
  EXPECT_FALSE(baseline.health.finite);
  EXPECT_THAT(baseline.health.note, HasSubstr("NaN"));
  EXPECT_TRUE(worker.measure(candidate(bytes)).ok());
}

TEST_F(WorkerTest, ProgramThatIgnoresItsInputsIsNoted) {
  TinyModule module("constant");
  module.parameter(PrimitiveType::kF32, {4});
  const std::string bytes =
      module.finish(module.broadcast_scalar(PrimitiveType::kF32, {4}, module.constant_f32(3)));
  Worker worker(options());

  const BaselineResult baseline =
      worker.load_baseline({.program = {.module = bytes},
                            .inputs = {f32({4})},
                            .noise = {.min_pairs = 3, .max_pairs = 3, .budget_seconds = 0.1}});

  ASSERT_TRUE(baseline.ok()) << baseline.error;
  EXPECT_FALSE(baseline.health.moves);
  EXPECT_THAT(baseline.health.note, HasSubstr("do not depend on the inputs"));
}

TEST_F(WorkerTest, SaturatedOutputsAreNoted) {
  // The sign of a number does not react to a change of one millionth.
  TinyModule module("sign");
  const int64_t x = module.parameter(PrimitiveType::kF32, {100});
  const std::string bytes = module.finish(module.op("sign", PrimitiveType::kF32, {100}, {x}));
  Worker worker(options());

  const BaselineResult baseline =
      worker.load_baseline({.program = {.module = bytes},
                            .inputs = {f32({100})},
                            .noise = {.min_pairs = 3, .max_pairs = 3, .budget_seconds = 0.1}});

  ASSERT_TRUE(baseline.ok()) << baseline.error;
  EXPECT_TRUE(baseline.health.moves);
  EXPECT_FALSE(baseline.health.responsive);
  EXPECT_THAT(baseline.health.note, HasSubstr("saturated"));
}

TEST_F(WorkerTest, WildProgramsAreNotedAndGetTheLargestTolerance) {
  // sin(1e7 x): a change of one millionth in x is many periods.
  TinyModule module("wild");
  const int64_t x = module.parameter(PrimitiveType::kF32, {100});
  const int64_t factor =
      module.broadcast_scalar(PrimitiveType::kF32, {100}, module.constant_f32(1e7F));
  const int64_t large = module.op("multiply", PrimitiveType::kF32, {100}, {x, factor});
  const std::string bytes = module.finish(module.op("sine", PrimitiveType::kF32, {100}, {large}));
  Worker worker(options());

  const BaselineResult baseline =
      worker.load_baseline({.program = {.module = bytes},
                            .inputs = {f32({100})},
                            .noise = {.min_pairs = 3, .max_pairs = 3, .budget_seconds = 0.1}});

  ASSERT_TRUE(baseline.ok()) << baseline.error;
  EXPECT_FALSE(baseline.health.calm);
  EXPECT_EQ(baseline.outputs.at(0).tolerance.relative_error, kLargestTolerance);
}

TEST_F(WorkerTest, MoreParametersThanMemoryAreRefusedBeforeAllocating) {
  Worker worker(options());
  constexpr int64_t kHuge = int64_t{1} << 40;  // 4 TiB of f32
  const BaselineResult result = worker.load_baseline(
      {.program = {.module = lagom::testing::double_module(kHuge)}, .inputs = {f32({kHuge})}});

  EXPECT_EQ(result.failure, FailureKind::kMemory);
  EXPECT_THAT(result.error, AllOf(HasSubstr("4096.0 GiB of parameters"), HasSubstr("available")));
}

TEST_F(WorkerTest, OptimizedProgramComesBack) {
  Worker worker(options());

  const OptimizedResult result = worker.optimized({.module = lagom::testing::matmul_module(64)});

  ASSERT_TRUE(result.ok()) << result.error;
  EXPECT_THAT(result.module, HasSubstr("matmul"));
  EXPECT_GT(result.figures.compile_seconds, 0);
}

TEST_F(WorkerTest, RunTakesGivenInputsAndReturnsOutputs) {
  Worker worker(options());
  const float values[4] = {1, 2, 3, -4};
  RunRequest request{.program = {.module = lagom::testing::double_module(4)},
                     .inputs = {f32({4})},
                     .min_runs = 2,
                     .max_runs = 3,
                     .return_outputs = true};
  request.input_data.emplace_back(reinterpret_cast<const char*>(values), sizeof values);

  const RunReport report = worker.run(request);

  ASSERT_TRUE(report.ok()) << report.error;
  ASSERT_EQ(report.output_data.size(), 1u);
  float doubled[4];
  ASSERT_EQ(report.output_data[0].size(), sizeof doubled);
  std::memcpy(doubled, report.output_data[0].data(), sizeof doubled);
  EXPECT_THAT(doubled, ::testing::ElementsAre(2, 4, 6, -8));
  EXPECT_EQ(report.outputs.at(0).statistics.max, 6);
  EXPECT_EQ(report.seconds.size(), 3u);
}

TEST_F(WorkerTest, RunRefusesAWrongNumberOfArrays) {
  Worker worker(options());
  RunRequest request{.program = {.module = lagom::testing::matmul_module(4)},
                     .inputs = {f32({4, 4}), f32({4, 4})}};
  request.input_data.emplace_back(64, '\0');

  EXPECT_THAT(worker.run(request).error, HasSubstr("1 arrays for 2 parameters"));
}

TEST_F(WorkerTest, TheSameSeedGivesTheSameOutputs) {
  Worker worker(options());
  RunRequest request{.program = {.module = lagom::testing::matmul_module(32)},
                     .inputs = {f32({32, 32}), f32({32, 32})},
                     .seed = 5,
                     .max_runs = 1};
  const uint64_t first = worker.run(request).outputs.at(0).statistics.hash;
  EXPECT_EQ(worker.run(request).outputs.at(0).statistics.hash, first);
  request.seed = 6;
  EXPECT_NE(worker.run(request).outputs.at(0).statistics.hash, first);
}

TEST_F(WorkerTest, RunsOnItsCpusOnly) {
  WorkerOptions own = options();
  own.cpus = {allowed_cpus().front()};
  Worker worker(own);
  ASSERT_TRUE(worker.hello().ok());

  std::ifstream status("/proc/" + std::to_string(worker.pid()) + "/status");
  std::string allowed;
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("Cpus_allowed_list:", 0) == 0) allowed = line.substr(18);
  }
  EXPECT_THAT(allowed, HasSubstr(std::to_string(own.cpus[0])));
  EXPECT_EQ(allowed.find(','), std::string::npos);
  EXPECT_EQ(allowed.find('-'), std::string::npos);
}

}  // namespace
}  // namespace lagom::measure

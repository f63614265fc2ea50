#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "tests/measure/worker_fixture.h"
#include "tests/testing/data.h"

// Workers that crash, hang, eat memory, are killed or never start.
namespace lagom::measure {
namespace {

using lagom::testing::TinyModule;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

using WorkerFailuresTest = WorkerTest;

bool process_exists(int pid) {
  return kill(pid, 0) == 0;
}

// True when the process ends within a few seconds; for processes that are not our children.
bool process_ends(int pid) {
  for (int i = 0; i < 500 && process_exists(pid); ++i) std::this_thread::sleep_for(10ms);
  return !process_exists(pid);
}

TEST_F(WorkerFailuresTest, AbortIsAFailureWithTheLastLines) {
  Worker worker(options());
  ASSERT_TRUE(worker.load_baseline(matmul_baseline()).ok());

  const WorkerInfo info = worker.debug("abort");
  EXPECT_EQ(info.failure, FailureKind::kCrash);
  EXPECT_THAT(info.error, AllOf(HasSubstr("worker aborted (SIGABRT)"), HasSubstr("debug: abort")));

  // The next candidate gets a new worker with the baseline loaded again.
  const MeasureResult result = worker.measure(candidate(lagom::testing::matmul_module(128)));
  ASSERT_TRUE(result.ok()) << result.error;
  EXPECT_EQ(result.outputs.at(0).mismatches, 0);
  EXPECT_EQ(worker.starts(), 2);
}

TEST_F(WorkerFailuresTest, ProgramThatMakesTheCompilerAbortIsOneFailure) {
  Worker worker(options());
  ASSERT_TRUE(worker.load_baseline(matmul_baseline()).ok());

  const MeasureResult crashed = worker.measure(candidate(lagom::testing::aborting_module()));

  EXPECT_EQ(crashed.failure, FailureKind::kCrash) << crashed.error;
  EXPECT_THAT(crashed.error, AllOf(HasSubstr("worker aborted (SIGABRT)"), HasSubstr("heck")));
  EXPECT_TRUE(worker.measure(candidate(lagom::testing::matmul_module(128))).ok());
}

TEST_F(WorkerFailuresTest, KilledWorkerIsAFailure) {
  Worker worker(options());
  ASSERT_TRUE(worker.hello().ok());
  std::thread killer([pid = worker.pid()] {
    std::this_thread::sleep_for(300ms);
    kill(pid, SIGKILL);
  });

  const WorkerInfo info = worker.debug("hang");
  killer.join();

  EXPECT_EQ(info.failure, FailureKind::kCrash);
  EXPECT_THAT(info.error, HasSubstr("worker was killed (SIGKILL)"));
  EXPECT_TRUE(worker.hello().ok());
}

TEST_F(WorkerFailuresTest, WorkerKilledBetweenRequestsIsReplaced) {
  Worker worker(options());
  ASSERT_TRUE(worker.load_baseline(matmul_baseline()).ok());
  kill(worker.pid(), SIGKILL);
  std::this_thread::sleep_for(100ms);

  const MeasureResult first = worker.measure(candidate(lagom::testing::matmul_module(128)));
  const MeasureResult second = worker.measure(candidate(lagom::testing::matmul_module(128)));

  EXPECT_TRUE(first.ok() || first.failure == FailureKind::kCrash) << first.error;
  EXPECT_TRUE(second.ok()) << second.error;
}

TEST_F(WorkerFailuresTest, ACandidateMayHaveALimitOfItsOwn) {
  TinyModule module("endless");
  const int64_t x = module.parameter(PrimitiveType::kF32, {4});
  const std::string endless = module.finish(module.endless_loop({4}, x));
  Worker worker(options());
  ASSERT_TRUE(worker
                  .load_baseline({.program = {.module = lagom::testing::double_module(4)},
                                  .inputs = {f32({4})}})
                  .ok());
  MeasureRequest request{.program = {.module = endless}};
  request.timing.budget_seconds = 0;
  request.limit_seconds = 1;

  const MeasureResult late = worker.measure(request);
  request.program.module = lagom::testing::double_module(4);
  request.limit_seconds = 30;
  const MeasureResult in_time = worker.measure(request);

  EXPECT_EQ(late.failure, FailureKind::kTimeout) << late.error;
  EXPECT_THAT(late.error, HasSubstr("no answer within 1 s"));
  EXPECT_TRUE(in_time.ok()) << in_time.error;
}

TEST_F(WorkerFailuresTest, HangingWorkerIsKilledInTime) {
  WorkerOptions own = options();
  own.timeout = 1500ms;
  Worker worker(own);
  ASSERT_TRUE(worker.hello().ok());
  const int pid = worker.pid();
  const auto begin = std::chrono::steady_clock::now();

  const WorkerInfo info = worker.debug("spin");

  EXPECT_EQ(info.failure, FailureKind::kTimeout);
  EXPECT_THAT(info.error, HasSubstr("no answer within 1.5 s"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 4s);
  EXPECT_FALSE(process_exists(pid));
}

TEST_F(WorkerFailuresTest, EndlessProgramIsKilledInTime) {
  TinyModule module("endless");
  const int64_t x = module.parameter(PrimitiveType::kF32, {4});
  const std::string bytes = module.finish(module.endless_loop({4}, x));
  WorkerOptions own = options();
  own.timeout = 3s;
  Worker worker(own);
  RunRequest request{.program = {.module = bytes}, .inputs = {f32({4})}};
  request.budget_seconds = 0;

  const RunReport report = worker.run(request);

  EXPECT_EQ(report.failure, FailureKind::kTimeout) << report.error;
}

TEST_F(WorkerFailuresTest, MemoryEaterIsStoppedAtItsLimit) {
  WorkerOptions own = options();
  own.memory_limit_bytes = int64_t{700} << 20;
  Worker worker(own);
  ASSERT_TRUE(worker.hello().ok());

  const WorkerInfo info = worker.debug("eat_memory");

  EXPECT_EQ(info.failure, FailureKind::kMemory);
  EXPECT_THAT(info.error, HasSubstr("exceeded the memory limit of 700 MiB"));
}

TEST_F(WorkerFailuresTest, ProgramPastTheWorkersLimitIsRefused) {
  WorkerOptions own = options();
  own.memory_limit_bytes = int64_t{700} << 20;
  Worker worker(own);
  constexpr int64_t kSize = int64_t{200} << 20;  // 800 MiB of f32

  const RunReport report = worker.run(
      {.program = {.module = lagom::testing::double_module(kSize)}, .inputs = {f32({kSize})}});

  EXPECT_EQ(report.failure, FailureKind::kMemory);
  EXPECT_THAT(report.error, HasSubstr("800 MiB of parameters"));
}

TEST_F(WorkerFailuresTest, ExitAndSegmentationFaultAreTold) {
  Worker worker(options());
  EXPECT_THAT(worker.debug("exit").error, HasSubstr("worker exited with code 7"));
  const WorkerInfo fault = worker.debug("segfault");
  EXPECT_EQ(fault.failure, FailureKind::kCrash);
  EXPECT_THAT(worker.debug("half_message").error, HasSubstr("worker exited with code 0"));
  EXPECT_TRUE(worker.hello().ok());
}

TEST_F(WorkerFailuresTest, GarbageInsteadOfAnAnswerIsASystemFailure) {
  Worker worker(options());
  const WorkerInfo info = worker.debug("garbage");
  EXPECT_EQ(info.failure, FailureKind::kSystem);
  EXPECT_THAT(info.error, HasSubstr("damaged"));
  EXPECT_TRUE(worker.hello().ok());
}

TEST_F(WorkerFailuresTest, MuchOutputDoesNotBlockTheWorker) {
  Worker worker(options());
  EXPECT_TRUE(worker.debug("chatter").ok());
  EXPECT_THAT(worker.debug("exit").error, HasSubstr("line 19999 of much chatter"));
}

TEST_F(WorkerFailuresTest, StopRequestEndsTheWorkAtOnce) {
  std::atomic<bool> stop{false};
  WorkerOptions own = options();
  own.should_stop = [&] { return stop.load(); };
  Worker worker(own);
  ASSERT_TRUE(worker.hello().ok());
  const int pid = worker.pid();
  std::thread stopper([&] {
    std::this_thread::sleep_for(200ms);
    stop = true;
  });

  const WorkerInfo info = worker.debug("hang");
  stopper.join();

  EXPECT_EQ(info.failure, FailureKind::kStopped);
  EXPECT_FALSE(process_exists(pid));
  EXPECT_EQ(worker.hello().failure, FailureKind::kStopped);
}

TEST_F(WorkerFailuresTest, WorkerDiesWithItsParent) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    Worker worker(options());
    worker.hello();
    const int pid = worker.pid();
    if (write(ends[1], &pid, sizeof pid) != sizeof pid) _exit(1);
    worker.debug("spin");
    _exit(0);
  }
  int worker_pid = 0;
  ASSERT_EQ(read(ends[0], &worker_pid, sizeof worker_pid), ssize_t{sizeof worker_pid});
  std::this_thread::sleep_for(200ms);
  ASSERT_TRUE(process_exists(worker_pid));

  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);

  EXPECT_TRUE(process_ends(worker_pid));
  close(ends[0]);
  close(ends[1]);
}

TEST_F(WorkerFailuresTest, BadPluginsAreNamed) {
  WorkerOptions own = options();
  own.plugin = "/no/such/plugin.so";
  EXPECT_THAT(Worker(own).hello().error,
              AllOf(HasSubstr("/no/such/plugin.so"), HasSubstr("./run setup")));
  own.plugin = testing::data_folder() / "README.md";
  const WorkerInfo info = Worker(own).hello();
  EXPECT_EQ(info.failure, FailureKind::kSystem);
  EXPECT_THAT(info.error, HasSubstr("not a loadable plugin"));
  EXPECT_THAT(Worker(own).run({.program = {.module = "x"}}).error,
              HasSubstr("not a loadable plugin"));
}

TEST_F(WorkerFailuresTest, MissingWorkerProgramIsNamed) {
  WorkerOptions own = options();
  own.program = "/no/such/worker";
  const WorkerInfo info = Worker(own).hello();
  EXPECT_FALSE(info.ok());
  EXPECT_THAT(info.error, HasSubstr("No such file"));
}

TEST_F(WorkerFailuresTest, MeasureWithoutBaselineIsTheCallersMistake) {
  Worker worker(options());
  EXPECT_THROW(worker.measure(candidate("")), std::logic_error);
}

TEST_F(WorkerFailuresTest, DebugRequestsAreOffByDefault) {
  unsetenv("LAGOM_WORKER_DEBUG");
  Worker worker(options());
  EXPECT_THAT(worker.debug("abort").error, HasSubstr("switched off"));
}

}  // namespace
}  // namespace lagom::measure

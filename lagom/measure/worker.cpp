#include "lagom/measure/worker.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "lagom/measure/machine.h"
#include "lagom/measure/messages.h"
#include "lagom/measure/process.h"
#include "lagom/measure/timing_lock.h"
#include "lagom/util/error.h"

namespace lagom::measure {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr auto kTick = std::chrono::milliseconds(50);
constexpr double kSecondsToDie = 2;

// Ends a request: what happened instead of an answer.
struct Broken {
  FailureKind kind;
  std::string error;
};

std::string seconds_to_string(Clock::duration duration) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count() / 100;
  const std::string whole = std::to_string(tenths / 10);
  return tenths % 10 == 0 ? whole + " s" : whole + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

class Worker::State {
 public:
  explicit State(WorkerOptions options) : options_(std::move(options)) {
    if (options_.cpus.empty()) options_.cpus = allowed_cpus();
  }

  // Sends a request and gives the decoded answer, or an answer that says what went wrong.
  // `budget` is what the request may take beyond the usual timeout, or beyond `limit` where that is
  // given and shorter; `times` makes it wait for the timing lock.
  template <typename Answer, typename Decode>
  Answer ask(const MessageView& request, double budget, bool times, Decode&& decode,
             double limit = 0) {
    Answer answer;
    try {
      Clock::duration timeout = options_.timeout;
      if (limit > 0)
        timeout = std::min(timeout, std::chrono::duration_cast<Clock::duration>(Seconds(limit)));
      timeout += std::chrono::duration_cast<Clock::duration>(Seconds(budget));
      start_if_needed();
      std::optional<TimingLock> lock;
      if (times) {
        const Clock::time_point before = Clock::now();
        lock.emplace(options_.cpus, options_.notice, options_.should_stop);
        waited_seconds_ += Seconds(Clock::now() - before).count();
        if (!lock->locked()) throw Broken{FailureKind::kStopped, "stopped"};
      }
      answer = decode(exchange(request, timeout));
    } catch (const Broken& broken) {
      answer.failure = broken.kind;
      answer.error = broken.error;
    } catch (const FormatError& error) {
      stop_process();
      answer.failure = FailureKind::kSystem;
      answer.error = std::string("the worker's answer is damaged: ") + error.what();
    } catch (const SystemError& error) {
      stop_process();
      answer.failure = FailureKind::kSystem;
      answer.error = error.what();
    }
    return answer;
  }

  const WorkerOptions& options() const { return options_; }
  int pid() const { return process_ ? process_->pid() : -1; }
  int starts() const { return starts_; }
  double waited_seconds() const { return waited_seconds_; }

  std::optional<BaselineRequest> baseline;  // the last one that was asked for
  int baseline_start = 0;                   // the process (counted by starts) that holds it

 private:
  void start_if_needed() {
    if (process_) return;
    if (options_.should_stop && options_.should_stop()) {
      throw Broken{FailureKind::kStopped, "stopped"};
    }
    const std::string program = options_.program.empty() ? find_worker_program() : options_.program;
    memory_limit_ = options_.memory_limit_bytes > 0 ? options_.memory_limit_bytes
                                                    : available_memory_bytes() / 10 * 9;
    std::string cpus;
    for (const int cpu : options_.cpus) {
      if (!cpus.empty()) cpus += ',';
      cpus += std::to_string(cpu);
    }
    const SocketPair sockets = make_socket_pair();
    channel_ = std::make_unique<Channel>(
        sockets.first, [this](int descriptor, short events) { wait(descriptor, events); });
    std::vector<std::string> arguments{"--fd=3", "--cpus=" + cpus,
                                       "--memory-limit-mib=" + std::to_string(memory_limit_ >> 20)};
    if (!options_.plugin.empty()) arguments.push_back("--plugin=" + options_.plugin);
    for (const auto& option : options_.plugin_options) {
      arguments.push_back("--plugin-option=" + option);
    }
    try {
      process_ = std::make_unique<ChildProcess>(program, arguments, sockets.second);
    } catch (...) {
      close(sockets.second);
      throw;
    }
    close(sockets.second);
    ++starts_;
  }

  void stop_process() {
    channel_.reset();
    process_.reset();
  }

  Message exchange(const MessageView& request, Clock::duration timeout) {
    allowed_ = timeout;
    deadline_ = Clock::now() + allowed_;
    Message answer;
    try {
      channel_->send(request.header, request.payloads);
      if (channel_->receive(&answer)) return answer;
    } catch (const SystemError&) {
      // Sending to a worker that is gone: its end is described below.
    } catch (const FormatError& error) {
      // A message cut short by the worker's death is the death; anything else is reported as is.
      if (std::string_view(error.what()).find("the stream ends") == std::string_view::npos) throw;
    }
    throw describe_death();
  }

  Broken describe_death() {
    const std::string end = process_->wait_for_end(kSecondsToDie);
    const std::string lines = process_->last_lines();
    stop_process();
    // The C++ library's and the allocators' words for an allocation that failed.
    const bool memory = lines.find("bad_alloc") != std::string::npos ||
                        lines.find("out of memory") != std::string::npos ||
                        lines.find("Out of memory") != std::string::npos;
    std::string error = "worker " + end;
    if (memory) {
      error += ", out of memory (its limit is " + memory_to_string(memory_limit_) + ")";
    }
    if (!lines.empty()) error += ": " + lines;
    return {memory ? FailureKind::kMemory : FailureKind::kCrash, error};
  }

  // Waits until the socket is ready; looks after the worker meanwhile.
  void wait(int descriptor, short events) {
    while (true) {
      pollfd watched[2] = {{descriptor, events, 0}, {process_->output_descriptor(), POLLIN, 0}};
      poll(watched, 2, static_cast<int>(kTick.count()));
      if ((watched[1].revents & POLLIN) != 0) process_->drain_output();
      if (watched[0].revents != 0) return;
      if (options_.should_stop && options_.should_stop()) give_up(FailureKind::kStopped, "stopped");
      if (Clock::now() >= deadline_) {
        give_up(FailureKind::kTimeout, "no answer within " + seconds_to_string(allowed_));
      }
      if (private_memory_bytes(process_->pid()) > memory_limit_) {
        give_up(FailureKind::kMemory,
                "exceeded the memory limit of " + memory_to_string(memory_limit_));
      }
      // A child that ended keeps no socket open, but its output's end would wake poll at once.
      if ((watched[1].revents & (POLLHUP | POLLERR)) != 0) usleep(1000);
    }
  }

  [[noreturn]] void give_up(FailureKind kind, std::string error) {
    process_->drain_output();
    if (kind != FailureKind::kStopped) {
      const std::string lines = process_->last_lines(2);
      if (!lines.empty()) error += ": " + lines;
    }
    process_->kill_now();
    // The channel is in use further up the stack: it goes with the next start.
    process_.reset();
    throw Broken{kind, std::move(error)};
  }

  WorkerOptions options_;
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<ChildProcess> process_;
  int64_t memory_limit_ = 0;
  double waited_seconds_ = 0;
  Clock::duration allowed_{};
  Clock::time_point deadline_{};
  int starts_ = 0;
};

Worker::Worker(WorkerOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Worker::~Worker() = default;
Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&&) noexcept = default;

int Worker::pid() const {
  return state_->pid();
}
int Worker::starts() const {
  return state_->starts();
}

double Worker::waited_seconds() const {
  return state_->waited_seconds();
}
const std::vector<int>& Worker::cpus() const {
  return state_->options().cpus;
}

WorkerInfo Worker::hello() {
  return state_->ask<WorkerInfo>(encode_hello_request(), 0, false, decode_worker_info);
}

BaselineResult Worker::load_baseline(const BaselineRequest& request) {
  auto result = state_->ask<BaselineResult>(encode(request), request.noise.budget_seconds, true,
                                            decode_baseline_result);
  state_->baseline.reset();
  if (result.ok()) {
    state_->baseline = request;
    state_->baseline_start = state_->starts();
  }
  return result;
}

MeasureResult Worker::measure(const MeasureRequest& request) {
  if (!state_->baseline) throw std::logic_error("Worker: measure before load_baseline");
  if (state_->pid() < 0 || state_->baseline_start != state_->starts()) {
    BaselineRequest again = *state_->baseline;
    // Its noise is known already: only the reference outputs are wanted.
    again.noise = {.min_pairs = 1, .max_pairs = 1, .budget_seconds = 0};
    const auto reloaded =
        state_->ask<BaselineResult>(encode(again), 0, true, decode_baseline_result);
    if (!reloaded.ok()) {
      MeasureResult result;
      result.failure =
          reloaded.failure == FailureKind::kStopped ? FailureKind::kStopped : FailureKind::kSystem;
      result.error = reloaded.failure == FailureKind::kStopped
                         ? reloaded.error
                         : "the baseline cannot be loaded again: " + reloaded.error;
      return result;
    }
    state_->baseline_start = state_->starts();
  }
  return state_->ask<MeasureResult>(encode(request), request.timing.budget_seconds, true,
                                    decode_measure_result, request.limit_seconds);
}

OptimizedResult Worker::optimized(const Program& program) {
  return state_->ask<OptimizedResult>(encode_optimized_request(program), 0, false,
                                      decode_optimized_result);
}

RunReport Worker::run(const RunRequest& request) {
  return state_->ask<RunReport>(encode(request), request.budget_seconds, true, decode_run_report);
}

WorkerInfo Worker::debug(std::string_view action) {
  return state_->ask<WorkerInfo>(encode_debug_request(action), 0, false, decode_worker_info);
}

std::string device_key(const WorkerInfo& info, const std::vector<int>& cpus) {
  std::string key =
      info.platform + " " + info.platform_version + " " + info.plugin_version + " cpus";
  for (const int cpu : cpus) key += " " + std::to_string(cpu);
  return key;
}

}  // namespace lagom::measure

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lagom/measure/protocol.h"
#include "lagom/measure/types.h"

namespace lagom::measure {

struct WorkerOptions {
  std::string plugin;  ///< Path of a PJRT plugin; "" finds one as xla::find_plugin does.
  /// "NAME=VALUE" each (xla::parse_client_option), for the plugin's client.
  std::vector<std::string> plugin_options;
  std::string program;             ///< The worker program; "" finds it beside the running program.
  std::vector<int> cpus;           ///< CPUs to run on; empty: all that this process may use.
  int64_t memory_limit_bytes = 0;  ///< 0: nine tenths of what is available at the start.
  /// Longest time without an answer, beside the request's own budget for timing.
  std::chrono::milliseconds timeout = std::chrono::seconds(120);
  /// Asked about every twentieth of a second: true ends the current request and kills the worker.
  std::function<bool()> should_stop;
  /// Gets lines for the user ("waiting: another lagom is timing on CPU 0").
  std::function<void(const std::string&)> notice;
};

/// A worker process as its parent sees it.
///
/// The process is started at the first request and again after it died or was killed; the last
/// baseline is then loaded again when the next candidate needs it. Requests never throw for what a
/// program or the worker does: the answer's Outcome says what happened. Calls come from one thread
/// at a time. The process dies with the parent.
class Worker {
 public:
  explicit Worker(WorkerOptions options);
  ~Worker();
  Worker(Worker&&) noexcept;
  Worker& operator=(Worker&&) noexcept;

  WorkerInfo hello();

  /// Compiles and times the default; candidates of `measure` are compared with it.
  BaselineResult load_baseline(const BaselineRequest& request);

  /// Compiles a candidate, checks its outputs against the default's and times the two in pairs.
  /// Throws std::logic_error when no baseline was loaded.
  MeasureResult measure(const MeasureRequest& request);

  OptimizedResult optimized(const Program& program);
  RunReport run(const RunRequest& request);

  /// Makes the worker misbehave, for tests; see encode_debug_request.
  WorkerInfo debug(std::string_view action);

  int pid() const;     ///< Of the running process; -1 when there is none.
  int starts() const;  ///< How many processes were started so far.
  const std::vector<int>& cpus() const;
  /// Time spent so far waiting for others that time on the same CPUs.
  double waited_seconds() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lagom::measure

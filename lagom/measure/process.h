#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lagom::measure {

/// A child process with one inherited socket as descriptor 3 and its output captured.
///
/// Destroying it kills it.
class ChildProcess {
 public:
  /// Starts `program` with `arguments` (without the program's name). `socket` stays the caller's;
  /// everything else that is open is closed in the child, but for standard streams: input is empty,
  /// output and errors are captured. Throws SystemError when it cannot be started.
  ChildProcess(const std::string& program, const std::vector<std::string>& arguments, int socket);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  int pid() const { return pid_; }
  /// The descriptor that delivers the captured output, for poll.
  int output_descriptor() const { return output_; }

  /// Takes what the child has written so far; the last 16 KiB are kept.
  void drain_output();
  /// The last lines of the output joined by " | ", at most `count` of them; frames of stack traces
  /// are left out.
  std::string last_lines(int count = 4) const;

  /// Waits up to `seconds` for the end, then kills. Returns how it ended: "aborted (SIGABRT)",
  /// "was killed (SIGKILL)", "exited with code 7".
  std::string wait_for_end(double seconds);
  void kill_now();

 private:
  int pid_ = -1;
  int output_ = -1;
  std::string tail_;
};

/// The worker program: LAGOM_WORKER, else `lagom-worker` in the folder of the running program.
/// Throws SystemError when it is not there.
std::string find_worker_program();

}  // namespace lagom::measure

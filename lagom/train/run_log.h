#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "lagom/formats/event_log.h"

namespace lagom::train {

/// A run's numbers by step: a line of JSON each in `log.jsonl`, and TensorBoard events beside it.
class RunLog {
 public:
  /// `first_step` is the step that comes next: lines of that step and later, which a run that was
  /// stopped after its last checkpoint left, are dropped. Throws SystemError.
  RunLog(const std::filesystem::path& folder, int64_t first_step);

  /// Appends {"step": step, NAME: value...}. A number that is not finite becomes null.
  void add(int64_t step, std::span<const formats::Scalar> scalars);

 private:
  std::filesystem::path path_;
  formats::EventLog events_;
};

/// How far a long run is, on stderr: one line that is rewritten on a terminal, otherwise a line
/// now and then.
class Progress {
 public:
  Progress(int64_t first_step, int64_t num_steps);
  ~Progress();

  /// After `step` steps of all: prints share, `text`, steps per second and the time left, if it is
  /// time to.
  void update(int64_t step, const std::string& text);
  /// A line of its own, above the one that is rewritten.
  void note(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  void end_line();

  int64_t first_step_, num_steps_;
  bool is_terminal_, has_open_line_ = false;
  Clock::time_point start_, last_;
};

/// "3 h 05 min", "2 min 10 s", "45 s".
std::string duration_to_string(double seconds);

}  // namespace lagom::train

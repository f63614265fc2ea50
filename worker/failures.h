#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "lagom/measure/types.h"

namespace lagom::worker {

/// A program's arrays do not fit into memory.
class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A step of the work, for the words and the kind of its failure.
enum class Step { kLoadPlugin, kCompile, kRun };

/// Runs `work` and turns whatever it throws into the outcome: "compile failed: ...". `step` is read
/// when that happens, so that `work` can move it on.
void guarded(measure::Outcome* outcome, const Step& step, const std::function<void()>& work);

/// The first line of a compiler's message, without XLA's stack trace, at most 600 bytes.
std::string first_line(const std::string& text);

}  // namespace lagom::worker

#include "worker/failures.h"

#include <new>

#include "lagom/xla/plugin.h"

namespace lagom::worker {
namespace {

using measure::FailureKind;

constexpr int kResourceExhausted = 8;
constexpr size_t kLongestError = 600;

FailureKind kind_of(Step step) {
  switch (step) {
    case Step::kLoadPlugin:
      return FailureKind::kSystem;
    case Step::kCompile:
      return FailureKind::kCompile;
    case Step::kRun:
      return FailureKind::kRun;
  }
  return FailureKind::kSystem;
}

const char* words_for(Step step) {
  switch (step) {
    case Step::kLoadPlugin:
      return "";
    case Step::kCompile:
      return "compile failed: ";
    case Step::kRun:
      return "run failed: ";
  }
  return "";
}

void fail(measure::Outcome* outcome, FailureKind kind, const std::string& error) {
  outcome->failure = kind;
  outcome->error = error;
}

}  // namespace

std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  if (line.size() > kLongestError) line = line.substr(0, kLongestError) + "...";
  return line;
}

void guarded(measure::Outcome* outcome, const Step& step, const std::function<void()>& work) {
  try {
    work();
  } catch (const OutOfMemory& error) {
    fail(outcome, FailureKind::kMemory, error.what());
  } catch (const std::bad_alloc&) {
    fail(outcome, FailureKind::kMemory, std::string(words_for(step)) + "out of memory");
  } catch (const xla::PjrtError& error) {
    const bool memory = error.code() == kResourceExhausted;
    fail(outcome, memory ? FailureKind::kMemory : kind_of(step),
         words_for(step) + first_line(error.reason()));
  } catch (const std::exception& error) {
    fail(outcome, kind_of(step), words_for(step) + first_line(error.what()));
  }
}

}  // namespace lagom::worker

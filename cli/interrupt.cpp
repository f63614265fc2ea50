#include "cli/interrupt.h"

#include <csignal>

namespace lagom::cli {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void on_signal(int signal) {
  g_interrupted = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void catch_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

bool interrupted() {
  return g_interrupted != 0;
}

}  // namespace lagom::cli

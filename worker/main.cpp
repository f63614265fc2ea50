// lagom-worker: compiles and times programs for its parent, which may kill it at any time.

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "lagom/measure/messages.h"
#include "lagom/measure/protocol.h"
#include "worker/debug.h"
#include "worker/session.h"

namespace {

using namespace lagom;

struct WorkerOptions {
  int descriptor = 3;
  std::string plugin;
  std::vector<std::string> plugin_options;
  std::vector<int> cpus;
  int64_t memory_limit_mib = 0;
};

// Before the plugin loads: XLA makes as many threads as the process may use CPUs.
void pin_to(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    std::fprintf(stderr, "lagom-worker: cannot be pinned to the CPUs that were asked for\n");
  }
}

// The parent watches resident memory; this stops what grows faster than it looks.
void limit_memory(int64_t mib) {
#if !defined(__SANITIZE_ADDRESS__)
  if (mib <= 0) return;
  const rlim_t bytes = static_cast<rlim_t>(mib + mib / 4 + 1024) << 20;
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_DATA, &limit);
#else
  (void)mib;  // the sanitizer's shadow memory counts as data
#endif
}

// Ends the process as soon as the parent is gone, whatever the other threads are doing. (A death
// signal would be tied to the parent's thread that started us, which may end long before it.)
void die_with_parent(int descriptor) {
  std::thread([descriptor] {
    while (true) {
      pollfd watched{descriptor, POLLRDHUP, 0};
      if (poll(&watched, 1, -1) > 0 && (watched.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
        _exit(0);
      }
    }
  }).detach();
}

measure::MessageView answer_debug(const std::string& action, int descriptor) {
  measure::WorkerInfo info;
  if (std::getenv("LAGOM_WORKER_DEBUG") == nullptr) {
    info.failure = measure::FailureKind::kSystem;
    info.error = "debug requests are switched off";
  } else {
    worker::misbehave(action, descriptor);
  }
  return measure::encode(info);
}

void serve(const WorkerOptions& options) {
  measure::Channel channel(options.descriptor);
  xla::ClientOptions plugin_options;
  for (const std::string& text : options.plugin_options) {
    plugin_options.insert(xla::parse_client_option(text));
  }
  worker::Session session(options.plugin, std::move(plugin_options),
                          options.memory_limit_mib << 20);
  const auto send = [&](const measure::MessageView& view) {
    channel.send(view.header, view.payloads);
  };
  measure::Message message;
  while (channel.receive(&message)) {
    const std::string name = measure::request_name(message);
    if (name == measure::kHello) {
      send(measure::encode(session.hello()));
    } else if (name == measure::kLoadBaseline) {
      const auto request = measure::decode_baseline_request(std::move(message));
      send(measure::encode(session.load_baseline(request)));
    } else if (name == measure::kMeasure) {
      const auto request = measure::decode_measure_request(std::move(message));
      send(measure::encode(session.measure(request)));
    } else if (name == measure::kOptimized) {
      const auto program = measure::decode_optimized_request(std::move(message));
      const measure::OptimizedResult result = session.optimized(program);
      send(measure::encode(result));
    } else if (name == measure::kRun) {
      const auto request = measure::decode_run_request(std::move(message));
      const measure::RunReport report = session.run(request);
      send(measure::encode(report));
    } else if (name == measure::kDebug) {
      send(answer_debug(measure::decode_debug_request(message), options.descriptor));
    } else {
      throw std::runtime_error("unknown request '" + name + "'");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  WorkerOptions options;
  CLI::App app("Compiles and times XLA programs for lagom, which starts it; not for use by hand.");
  app.add_option("--fd", options.descriptor, "the socket to the parent")->required();
  app.add_option("--plugin", options.plugin, "PJRT plugin");
  app.add_option("--plugin-option", options.plugin_options, "NAME=VALUE for the plugin")
      ->allow_extra_args(false);
  app.add_option("--cpus", options.cpus, "CPUs to run on")->delimiter(',');
  app.add_option("--memory-limit-mib", options.memory_limit_mib, "0: none");
  CLI11_PARSE(app, argc, argv);

  // Ctrl-C reaches the whole foreground group: the parent decides what becomes of a measurement.
  std::signal(SIGINT, SIG_IGN);
  fcntl(options.descriptor, F_SETFD, FD_CLOEXEC);
  pin_to(options.cpus);
  limit_memory(options.memory_limit_mib);
  setenv("TF_CPP_MIN_LOG_LEVEL", "2", /*overwrite=*/0);
  die_with_parent(options.descriptor);
  try {
    serve(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lagom-worker: %s\n", error.what());
    _exit(1);
  }
  // XLA's threads may still be about: no destructors.
  _exit(0);
}

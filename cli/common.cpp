#include "cli/common.h"

#include <cstdio>

#include "cli/interrupt.h"
#include "lagom/hlo/module_file.h"
#include "lagom/hlo/verifier.h"

namespace lagom::cli {

void DeviceArguments::add_to(CLI::App& command) {
  command.add_option("--plugin", plugin,
                     "PJRT plugin to compile and run with (default: LAGOM_PJRT_PLUGIN, then the "
                     "cache folder)");
  command.add_option("--cpus", cpus, "CPUs to run on, for instance 0,1 (default: all)")
      ->delimiter(',');
}

measure::WorkerOptions DeviceArguments::worker_options() const {
  measure::WorkerOptions options;
  options.plugin = plugin;
  options.cpus = cpus;
  options.should_stop = interrupted;
  options.notice = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  return options;
}

hlo::Module load_program(const std::string& path) {
  hlo::Module module = hlo::read_module_file(path);
  hlo::verify(module, path);
  return module;
}

std::string time_to_string(double seconds) {
  char buffer[32];
  if (seconds >= 1) {
    std::snprintf(buffer, sizeof buffer, "%.3g s", seconds);
  } else if (seconds >= 1e-3) {
    std::snprintf(buffer, sizeof buffer, "%.3g ms", seconds * 1e3);
  } else {
    std::snprintf(buffer, sizeof buffer, "%.3g us", seconds * 1e6);
  }
  return buffer;
}

std::string count_to_string(double count, const std::string& unit) {
  const char* prefixes[] = {"", "k", "M", "G", "T", "P"};
  size_t i = 0;
  while (count >= 1000 && i + 1 < std::size(prefixes)) {
    count /= 1000;
    ++i;
  }
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, "%.4g %s%s", count, prefixes[i], unit.c_str());
  return buffer;
}

}  // namespace lagom::cli

#include "cli/common.h"

#include <cstdio>

#include "cli/interrupt.h"
#include "lagom/hlo/module_file.h"
#include "lagom/hlo/verifier.h"
#include "lagom/util/error.h"

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

hlo::Module load_program(const std::string& path, bool fill_elided) {
  hlo::Module module = hlo::read_module_file(path);
  hlo::verify(module, path);
  size_t filled = 0;
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) {
      if (!i->literal || !i->literal->elided) continue;
      if (!fill_elided) {
        throw FormatError(path, "constant '" + i->name + "'",
                          "has no values: the text says {...}; dump the program with large "
                          "constants (--xla_dump_large_constants), or take --fill-elided to "
                          "measure it with made-up ones");
      }
      const double value = hlo::is_floating(i->shape.element_type) ? 1 : 0;
      const std::vector<double> values(static_cast<size_t>(i->shape.num_elements()), value);
      i->literal = std::make_shared<const hlo::Literal>(
          hlo::Literal::from_values(i->literal->shape, values));
      ++filled;
    }
  }
  if (filled > 0) {
    std::fprintf(stderr,
                 "note: %zu constants without values were filled with zeros and ones: times are "
                 "meaningful, results are not\n",
                 filled);
  }
  return module;
}

void add_fill_elided(CLI::App& command, bool& fill_elided) {
  command.add_flag("--fill-elided", fill_elided,
                   "Give constants printed as {...} made-up values instead of refusing them");
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

#include "cli/common.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/interrupt.h"
#include "lagom/hlo/edit.h"
#include "lagom/hlo/module_file.h"
#include "lagom/hlo/verifier.h"
#include "lagom/measure/machine.h"
#include "lagom/tune/input_roles.h"
#include "lagom/util/error.h"
#include "lagom/xla/client_options.h"

namespace lagom::cli {

void DeviceArguments::add_to(CLI::App& command) {
  command.add_option("--plugin", plugin,
                     "PJRT plugin to compile and run with (default: LAGOM_PJRT_PLUGIN, then the "
                     "cache folder)");
  command
      .add_option("--plugin-option", plugin_options,
                  "NAME=VALUE for the plugin's client, as memory_fraction=0.5; may be repeated "
                  "(docs/devices.md)")
      ->allow_extra_args(false)
      ->check([](const std::string& text) -> std::string {
        try {
          xla::parse_client_option(text);
          return "";
        } catch (const std::invalid_argument& e) {
          return e.what();
        }
      });
  command.add_option("--cpus", cpus, "CPUs to run on, for instance 0,1 (default: all)")
      ->delimiter(',')
      ->check([](const std::string& text) -> std::string {
        const std::vector<int> allowed = measure::allowed_cpus();
        const bool known = std::any_of(allowed.begin(), allowed.end(),
                                       [&](int cpu) { return text == std::to_string(cpu); });
        return known ? "" : "CPU " + text + " is not one that this process may run on";
      });
}

std::filesystem::path program_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

std::string first_bytes(const std::string& path) {
  std::string bytes(16, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(in.gcount()));
  return bytes;
}

CLI::Validator positive_seconds() {
  return {[](const std::string& text) -> std::string {
            double seconds = 0;
            const bool is_number = CLI::detail::lexical_cast(text, seconds);
            // A year is no limit in practice, and clocks can still count to it.
            constexpr double kMax = 366.0 * 24 * 3600;
            if (is_number && seconds > 0 && seconds <= kMax) return "";
            return "expected a number of seconds above 0, found '" + text + "'";
          },
          "SECONDS"};
}

measure::WorkerOptions DeviceArguments::worker_options() const {
  measure::WorkerOptions options;
  options.plugin = plugin;
  options.plugin_options = plugin_options;
  options.cpus = cpus;
  options.should_stop = interrupted;
  options.notice = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  return options;
}

namespace {

bool has_elided(const hlo::Literal& literal) {
  return literal.elided ||
         std::any_of(literal.elements.begin(), literal.elements.end(), has_elided);
}

hlo::Literal filled(const hlo::Shape& shape) {
  if (shape.is_array()) {
    const double value = hlo::is_floating(shape.element_type) ? 1 : 0;
    return hlo::Literal::from_values(
        shape, std::vector<double>(static_cast<size_t>(shape.num_elements()), value));
  }
  hlo::Literal literal{.shape = shape};
  for (const hlo::Shape& element : shape.tuple_shapes) literal.elements.push_back(filled(element));
  return literal;
}

}  // namespace

hlo::Module load_program(const std::string& path, bool fill_elided) {
  std::vector<hlo::Module> modules = hlo::read_module_files(path);
  if (modules.size() > 1) {
    std::fprintf(stderr, "note: %s holds %zu modules; the first is taken\n", path.c_str(),
                 modules.size());
  }
  hlo::Module module = std::move(modules.front());
  hlo::verify(module, path);
  if (module.is_scheduled) {
    std::fprintf(
        stderr,
        "note: %s is a compiler's output (scheduled); what a compiler made need not compile "
        "again\n",
        path.c_str());
  }
  hlo::make_rerunnable(module);
  try {
    tune::input_specs(module);
  } catch (const std::invalid_argument& error) {
    throw FormatError(path, "", error.what());
  }
  size_t num_filled = 0;
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) {
      if (!i->literal || !has_elided(*i->literal)) continue;
      if (!fill_elided) {
        throw FormatError(path, "constant '" + i->name + "'",
                          "has no values: the text says {...}; dump the program with large "
                          "constants (--xla_dump_large_constants), or take --fill-elided to "
                          "measure it with made-up ones");
      }
      i->literal = std::make_shared<const hlo::Literal>(filled(i->literal->shape));
      ++num_filled;
    }
  }
  if (num_filled > 0) {
    std::fprintf(stderr,
                 "note: %zu constants without values were filled with zeros and ones: times are "
                 "meaningful, results are not\n",
                 num_filled);
  }
  return module;
}

void add_fill_elided(CLI::App& command, bool& fill_elided) {
  command.add_flag("--fill-elided", fill_elided,
                   "Give constants printed as {...} made-up values instead of refusing them");
}

void print_json(const nlohmann::ordered_json& json) {
  std::printf("%s\n",
              json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
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

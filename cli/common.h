#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "lagom/hlo/module.h"
#include "lagom/measure/worker.h"

namespace lagom::cli {

/// Options of every command that compiles or runs something.
struct DeviceArguments {
  std::string plugin;
  std::vector<int> cpus;

  void add_to(CLI::App& command);
  measure::WorkerOptions worker_options() const;
};

/// Reads and verifies a program. Constants whose values the text left out ({...}) are refused, or
/// with `fill_elided` get zeros (integers) and ones (floats), with a note on stderr.
hlo::Module load_program(const std::string& path, bool fill_elided = false);
/// The option that asks for it.
void add_fill_elided(CLI::App& command, bool& fill_elided);

/// "12.3 ms", "4.56 s", "789 us".
std::string time_to_string(double seconds);
/// "1.23 GFLOP", with the unit given ("FLOP", "B"): decimal prefixes.
std::string count_to_string(double count, const std::string& unit);

}  // namespace lagom::cli

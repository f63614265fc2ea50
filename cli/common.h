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

/// Reads and verifies a program.
hlo::Module load_program(const std::string& path);

/// "12.3 ms", "4.56 s", "789 us".
std::string time_to_string(double seconds);
/// "1.23 GFLOP", with the unit given ("FLOP", "B"): decimal prefixes.
std::string count_to_string(double count, const std::string& unit);

}  // namespace lagom::cli

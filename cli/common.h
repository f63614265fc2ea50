#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lagom/hlo/module.h"
#include "lagom/measure/worker.h"

namespace lagom::cli {

/// Options of every command that compiles or runs something.
struct DeviceArguments {
  std::string plugin;
  std::vector<std::string> plugin_options;
  std::vector<int> cpus;

  void add_to(CLI::App& command);
  measure::WorkerOptions worker_options() const;
};

/// Where the running program lies.
std::filesystem::path program_folder();

/// The first 16 bytes of a file, fewer of a shorter one or one that cannot be read: what it is.
std::string first_bytes(const std::string& path);

/// For options that take a time: a finite number above 0.
CLI::Validator positive_seconds();

/// Reads and verifies a program for which inputs can be made. Constants whose values the text left
/// out ({...}) are refused, or with `fill_elided` get zeros (integers) and ones (floats), with a
/// note on stderr. Outputs that must take over an input's memory only may do so in what is
/// returned, and there is no schedule: neither holds for a program that is run again and again, or
/// changed.
hlo::Module load_program(const std::string& path, bool fill_elided = false);
/// The option that asks for it.
void add_fill_elided(CLI::App& command, bool& fill_elided);

/// Prints indented JSON; bytes that are no UTF-8 become U+FFFD.
void print_json(const nlohmann::ordered_json& json);

/// "12.3 ms", "4.56 s", "789 us".
std::string time_to_string(double seconds);
/// "1.23 GFLOP", with the unit given ("FLOP", "B"): decimal prefixes.
std::string count_to_string(double count, const std::string& unit);

}  // namespace lagom::cli

#pragma once

// What tuning one program and tuning many share.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/common.h"
#include "lagom/tune/tuner.h"

namespace lagom::cli {

struct TuneArguments {
  std::vector<std::string> inputs;
  std::string out = "tuned", database, inform_from, model, strategy = "genetic";
  double budget_seconds = 0;
  int trials = 0;
  double limit_trial_seconds = 0, explore_share = 0.1;
  bool explain = false, no_learning = false;
  uint64_t seed = 1;
  bool allow_inexact = false, allow_slow_compile = false, no_forms = false, no_layouts = false,
       no_barriers = false, no_flags = false, retime = false, json = false, quiet = false;
  bool fill_elided = false;
  DeviceArguments device;
  tune::CostModel cost_model;  ///< Of `model`.
};

/// Reads a model file, which the user named or lagom comes with; throws when it is none.
using LoadCostModel = std::function<tune::CostModel(const std::string& path, bool is_named)>;

/// Adds the subcommand, as commands.h.
void add_tune(CLI::App& app, Action& chosen, LoadCostModel load_cost_model);

/// Without `on_event`. Throws SystemError when the database the user named cannot be written.
tune::TuneOptions tune_options(const TuneArguments& args);

/// Throws now what would otherwise be thrown after the search, when its result is to be written.
void check_can_write(const std::filesystem::path& folder);

/// Tunes every program of the inputs into one folder; results that are there already, with the same
/// settings, are kept. Prints a line per program and a summary. 1 when some program failed. To
/// re-time is to time what a folder holds afresh, without a search.
int tune_many(const TuneArguments& args, const std::vector<std::filesystem::path>& programs);

}  // namespace lagom::cli

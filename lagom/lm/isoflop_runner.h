#pragma once

// Runs a plan's models: one process each, on a core of its own, resumable at any point and shared
// between as many runners as look at one folder.
//
//   FOLDER/plan.toml, plan.csv       the plan, resolved
//   FOLDER/runs/ID/                  a run of `lagom lm train`, with its config train.toml, what it
//                                    printed train.log, and at its end result.json
//   FOLDER/runs/ID.lock              held while a runner has the run in hand

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lagom/lm/isoflop_plan.h"

namespace lagom::lm {

/// How a run ended.
struct IsoflopResult {
  double loss = 0;              ///< Validation, causal routing, nats per token; NaN if it diverged.
  double loss_topk = 0;         ///< The same under top-k, which looks ahead.
  double training_seconds = 0;  ///< In training steps.
  double wall_seconds = 0;      ///< Of the processes, start to end.
};

/// The result of a run, if it is done. Throws FormatError when the folder holds a result of another
/// plan (other options) or of another version of this program.
std::optional<IsoflopResult> read_result(const std::filesystem::path& folder,
                                         const IsoflopRun& run);

/// Writes it for read_result: the run is done then.
void write_result(const std::filesystem::path& folder, const IsoflopRun& run,
                  const IsoflopResult& result);

/// The learning rate that a family's tries speak for: the lowest loss, the lower rate of equal
/// ones; empty while a try is not done. 0 where nothing is tried.
std::optional<double> chosen_rate(const std::filesystem::path& folder,
                                  const std::vector<IsoflopRun>& runs, const std::string& family);

struct IsoflopRunnerOptions {
  std::filesystem::path folder;
  std::string program;                ///< What is run as `program lm train ...`.
  std::vector<int> cpus;              ///< A run at a time on each of them, pinned.
  int64_t shard = 1, num_shards = 1;  ///< Takes each num_shards-th run, from the shard-th.
  std::function<bool()> stop;         ///< Asked often; true saves all runs and returns.
  std::function<void(const std::string&)> note;  ///< Gets a line when something happened.
};

/// What a call did.
struct IsoflopSummary {
  int64_t done = 0;                               ///< Runs with a result now, of the shard.
  int64_t total = 0;                              ///< Of the shard.
  int64_t elsewhere = 0;                          ///< Not done, and in the hands of another runner.
  std::vector<std::string> failures;              ///< "ID: last line of its log".
  double training_seconds = 0, wall_seconds = 0;  ///< Of the runs that this call ended.
  double seconds = 0;                             ///< Of the call.
};

/// Runs what is not done. Throws as plan_runs and read_result, and SystemError.
IsoflopSummary run_plan(const IsoflopPlan& plan, const IsoflopRunnerOptions& options);

}  // namespace lagom::lm

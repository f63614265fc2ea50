#pragma once

#include <filesystem>
#include <string>

#include "lagom/tune/tuner.h"

namespace lagom::tune {

/// Files that a tuning leaves in its folder.
struct ResultFiles {
  std::filesystem::path text, proto, flags, decisions, report;
};

/// Where they go: FOLDER/NAME.tuned.hlo, .tuned.hlo.pb, .flags.json, .decisions.json, .report.html.
ResultFiles result_files(const std::filesystem::path& folder, const std::string& name);

/// "mobilenet" for "dir/mobilenet.hlo.pb.gz".
std::string program_name(const std::filesystem::path& path);

/// Writes the tuned program in both forms, the flags, the decisions and the report.
///
/// flags.json maps flag names to values, as JAX's compiler_options takes them. decisions.json holds
/// everything about the result: device, speed-up with interval, noise floor, decisions by source
/// line with their effect, every trial.
void write_results(const ResultFiles& files, const hlo::Module& module, const SearchSpace& space,
                   const TuneResult& result);

/// The content of decisions.json.
std::string decisions_json(const SearchSpace& space, const TuneResult& result);

/// The configuration that a decisions.json describes. Throws SystemError when it cannot be read,
/// FormatError when it holds none.
rewrite::Configuration read_configuration(const std::filesystem::path& decisions);

}  // namespace lagom::tune

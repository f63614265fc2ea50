#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/interrupt.h"
#include "cli/tune.h"
#include "lagom/tune/batch.h"
#include "lagom/tune/results.h"
#include "lagom/util/file.h"
#include "lagom/util/hash.h"

namespace lagom::cli {
namespace {

/// What decides a program's result besides the program and the machine.
std::string settings_text(const TuneArguments& args) {
  std::string text = args.strategy + " " + std::to_string(args.budget_seconds) + " " +
                     std::to_string(args.trials) + " " + std::to_string(args.seed) + " " +
                     args.model + " " + args.inform_from + " " +
                     std::to_string(args.explore_share) + " " +
                     std::to_string(args.limit_trial_seconds) + " ";
  for (const bool flag : {args.allow_inexact, args.allow_slow_compile, args.no_forms,
                          args.no_layouts, args.no_barriers, args.no_flags, args.fill_elided}) {
    text += flag ? '1' : '0';
  }
  for (const int cpu : args.device.cpus) text += " " + std::to_string(cpu);
  return text + args.device.plugin;
}

/// What only the search knows: how long it took, and what it looked at.
void copy_search_figures(const tune::BatchEntry* searched, tune::BatchEntry& entry) {
  if (searched == nullptr) return;
  entry.elapsed_seconds = searched->elapsed_seconds;
  entry.kernels = searched->kernels;
  entry.known_kernels = searched->known_kernels;
}

tune::BatchEntry tune_program(const std::filesystem::path& path, const TuneArguments& args,
                              const tune::TuneOptions& options, bool* stopped) {
  tune::BatchEntry entry{.program = tune::program_name(path)};
  try {
    const hlo::Module module = load_program(path.string(), args.fill_elided);
    const tune::SearchSpace space(module, options.space);
    const tune::ResultFiles files = tune::result_files(args.out, entry.program);
    tune::TuneResult result = args.retime ? tune::retime(module, space, options,
                                                         tune::read_configuration(files.decisions))
                                          : tune::tune(module, space, options);
    result.program = entry.program;
    *stopped = result.stopped;
    if (!args.retime) tune::write_results(files, module, space, result);
    return tune::batch_entry(module, result);
  } catch (const std::exception& error) {
    *stopped = interrupted();
    entry.error = error.what();
    return entry;
  }
}

std::string describe(const tune::BatchEntry& entry) {
  if (!entry.error.empty()) return "failed: " + entry.error;
  char text[160];
  if (entry.speedup > 1) {
    std::snprintf(text, sizeof text, "%.2fx [%.2f, %.2f], %.3g ms -> %.3g ms", entry.speedup,
                  entry.low, entry.high, entry.default_seconds * 1e3, entry.tuned_seconds * 1e3);
  } else {
    std::snprintf(text, sizeof text, "default kept, %.3g ms", entry.default_seconds * 1e3);
  }
  std::string line = text;
  std::snprintf(text, sizeof text, ", %.0f s, %d of %d kernels known", entry.elapsed_seconds,
                entry.known_kernels, entry.kernels);
  return line + text;
}

}  // namespace

int tune_many(const TuneArguments& args, const std::vector<std::filesystem::path>& programs) {
  check_can_write(args.out);
  tune::TuneOptions options = tune_options(args);
  options.should_stop = interrupted;
  catch_interrupts();
  const std::filesystem::path stem =
      std::filesystem::path(args.out) / (args.retime ? "retimed" : "summary");
  const tune::BatchSummary searched(std::filesystem::path(args.out) / "summary.jsonl");
  tune::BatchSummary summary(stem.string() + ".jsonl");
  const std::string settings = settings_text(args);
  std::vector<tune::BatchEntry> entries;
  int failures = 0;
  bool stopped = false;
  for (size_t i = 0; i < programs.size() && !stopped; ++i) {
    const std::string key = hex64(hash64(settings + read_file(programs[i])));
    const tune::BatchEntry* kept = summary.find(tune::program_name(programs[i]));
    const bool is_known = kept != nullptr && kept->key == key && kept->error.empty();
    tune::BatchEntry entry;
    if (is_known) {
      entry = *kept;
    } else {
      entry = tune_program(programs[i], args, options, &stopped);
      entry.key = key;
      if (args.retime) copy_search_figures(searched.find(entry.program), entry);
      // What a stop cut short is tuned again next time.
      if (!stopped) summary.add(entry);
    }
    failures += !entry.error.empty() && !stopped;
    if (!args.quiet) {
      std::fprintf(stderr, "[%zu/%zu] %s: %s%s\n", i + 1, programs.size(), entry.program.c_str(),
                   describe(entry).c_str(),
                   is_known  ? " (kept)"
                   : stopped ? " (stopped; run the command again to go on)"
                             : "");
    }
    if (!stopped) entries.push_back(std::move(entry));
  }
  const std::string text = tune::summary_markdown(entries);
  write_file(stem.string() + ".md", text);
  if (args.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const tune::BatchEntry& entry : entries) {
      list.push_back({{"program", entry.program},
                      {"family", entry.family},
                      {"speedup", entry.speedup},
                      {"interval", {entry.low, entry.high}},
                      {"error", entry.error}});
    }
    print_json(list);
  } else {
    std::fputs(text.c_str(), stdout);
  }
  return failures > 0 ? 1 : 0;
}

}  // namespace lagom::cli

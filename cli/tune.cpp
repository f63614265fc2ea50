#include "cli/tune.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/interrupt.h"
#include "lagom/collect/form_trees.h"
#include "lagom/rank/boosted_trees.h"
#include "lagom/tune/advice.h"
#include "lagom/tune/batch.h"
#include "lagom/tune/database.h"
#include "lagom/tune/results.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"

namespace lagom::cli {
namespace {

/// One line per event; on a terminal the line of the search is overwritten.
class ProgressPrinter {
 public:
  explicit ProgressPrinter(bool quiet) : quiet_(quiet), terminal_(::isatty(STDERR_FILENO) != 0) {}
  ~ProgressPrinter() { finish(); }

  void operator()(const tune::TuneEvent& event) {
    if (quiet_) return;
    if (terminal_) std::fprintf(stderr, "\r\033[K");
    std::fprintf(stderr, "[%5.1f s] %-8s %s", event.elapsed_seconds, event.phase.c_str(),
                 event.text.c_str());
    const bool overwrite = terminal_ && event.phase == "search";
    if (!overwrite) std::fputc('\n', stderr);
    open_line_ = overwrite;
    std::fflush(stderr);
  }
  void finish() {
    if (open_line_) std::fputc('\n', stderr);
    open_line_ = false;
  }

 private:
  bool quiet_, terminal_, open_line_ = false;
};

std::filesystem::path default_database() {
  if (const char* cache = std::getenv("LAGOM_CACHE"))
    return std::filesystem::path(cache) / "kernels";
  if (const char* cache = std::getenv("XDG_CACHE_HOME")) {
    return std::filesystem::path(cache) / "lagom" / "kernels";
  }
  if (const char* home = std::getenv("HOME")) {
    return std::filesystem::path(home) / ".cache" / "lagom" / "kernels";
  }
  return {};
}

/// What was measured for everyone, beside the program; empty when it is not there.
std::filesystem::path shipped(const char* name) {
  std::error_code error;
  const auto path = program_folder().parent_path() / "share" / "lagom" / name;
  return std::filesystem::exists(path, error) ? path : std::filesystem::path{};
}

/// What `--model` or what lagom comes with has, where the strategy asks a model.
tune::CostModel cost_model(const TuneArguments& args, const LoadCostModel& load) {
  if (args.strategy != "model" || args.model == "none" || args.retime) return {};
  const bool is_named = !args.model.empty();
  const std::string path =
      is_named ? args.model : shipped("models/kernel_xla_cpu.safetensors").string();
  if (path.empty()) return {};
  return is_named && rank::BoostedTrees::is_boosted_trees(first_bytes(path))
             ? collect::load_form_trees(path)
             : load(path, is_named);
}

/// The folder of kernel measurements; empty when they are to be forgotten, or the user named none
/// and the cache cannot be written.
std::filesystem::path database_folder(const TuneArguments& args) {
  if (args.database == "none") return {};
  if (!args.database.empty()) {
    check_can_write(args.database);
    return args.database;
  }
  const std::filesystem::path folder = default_database();
  try {
    if (!folder.empty()) check_can_write(folder);
    return folder;
  } catch (const SystemError& error) {
    std::fprintf(stderr, "note: kernel measurements will be forgotten: %s\n", error.what());
    return {};
  }
}

/// The decisions that were measured in place, by what they bring; equal ones once.
void print_effects(const tune::TuneResult& r) {
  std::vector<const tune::DecisionReport*> measured;
  for (const auto& d : r.decisions) {
    if (!std::isnan(d.effect_in_place)) measured.push_back(&d);
  }
  std::stable_sort(measured.begin(), measured.end(), [](const auto* a, const auto* b) {
    return a->effect_in_place > b->effect_in_place;
  });
  if (measured.empty()) return;
  std::printf("  what matters (the whole program's time without it, of the default's):\n");
  std::map<std::pair<std::string, double>, int> printed;
  for (const auto* d : measured) {
    const std::string what = d->opcode + " " + d->shape;
    if (printed[{what, d->effect_in_place}]++ > 0) continue;
    std::printf("    %+6.1f %%  %s: %s\n", d->effect_in_place * 100,
                d->decision.to_string().c_str(), d->shape.c_str());
    if (!d->source.empty()) std::printf("              %s\n", d->source.c_str());
    std::printf("              %s\n", d->advice.c_str());
  }
}

/// Why candidates of the whole program failed, by kind, with an example of each.
void print_failures(const tune::TuneResult& r) {
  std::map<std::string_view, std::pair<int, std::string>> failures;
  for (const tune::Trial& trial : r.trials) {
    if (trial.failure == measure::FailureKind::kNone) continue;
    auto& [count, example] = failures[measure::failure_kind_name(trial.failure)];
    if (++count == 1) example = trial.error.substr(0, trial.error.find('\n'));
  }
  for (const auto& [kind, entry] : failures) {
    std::printf("  %d candidates failed: %s, for instance: %.160s\n", entry.first,
                std::string(kind).c_str(), entry.second.c_str());
  }
}

void print_summary(const tune::TuneResult& r, const tune::ResultFiles& files) {
  if (r.configuration.is_default()) {
    std::printf("%s: no faster form found; the default is returned\n", r.program.c_str());
  } else {
    std::printf("%s: %.2fx faster [%.2f, %.2f], %.3g ms -> %.3g ms%s\n", r.program.c_str(),
                r.speedup(), 1 / r.ratio.high, 1 / r.ratio.low, r.default_seconds * 1e3,
                r.tuned_seconds * 1e3, r.retimed ? "" : " (not timed afresh)");
  }
  std::printf("  noise floor %.1f %%; %zu trials of the whole, %d of kernels, in %.0f s\n",
              r.baseline.noise_floor * 100, r.trials.size(), r.num_kernel_trials,
              r.elapsed_seconds);
  if (r.num_dropped > 0) {
    std::printf("  %d decisions that did not pay were dropped\n", r.num_dropped);
  }
  double worst = 0;
  for (const auto& o : r.outputs) {
    if (o.max_abs_difference > 0) worst = std::max(worst, o.relative_error());
  }
  if (!r.outputs.empty()) {
    std::printf("  outputs agree with the default's to %.1e (relative to the largest value)\n",
                worst);
  }
  if (r.fault_shift > 0) {
    std::printf("  an error of 1 %% in the new forms would show in them as %.1e\n", r.fault_shift);
  } else if (r.forms_compared_alone) {
    std::printf("  each new form's results were compared by themselves too\n");
  }
  if (!r.note.empty()) std::printf("  note: %s\n", r.note.c_str());
  std::map<std::string, std::pair<int, double>> forms;
  for (const auto& d : r.decisions) {
    const std::string what = d.decision.kind == rewrite::DecisionKind::kForm ? d.decision.form
                             : d.decision.kind == rewrite::DecisionKind::kBarrier
                                 ? "barrier"
                                 : "layout constraint";
    auto& [count, saved] = forms[what];
    ++count;
    saved += d.default_seconds - d.seconds;
  }
  for (const auto& [what, entry] : forms) {
    std::printf("  %3d x %s", entry.first, what.c_str());
    if (entry.second > 0) std::printf(" (measured alone: %.3g ms less)", entry.second * 1e3);
    std::printf("\n");
  }
  print_effects(r);
  print_failures(r);
  if (!r.configuration.flags.empty()) {
    std::printf("  compiler_options=%s\n",
                tune::compiler_options_python(r.configuration.flags).c_str());
  }
  std::printf("  %s\n  %s\n", files.text.c_str(), files.report.c_str());
}

int tune_one(const TuneArguments& args) {
  const std::string& input = args.inputs[0];
  const hlo::Module module = load_program(input, args.fill_elided);
  check_can_write(args.out);
  ProgressPrinter progress(args.quiet);
  tune::TuneOptions options = tune_options(args);
  options.on_event = [&](const tune::TuneEvent& event) { progress(event); };
  options.should_stop = interrupted;
  catch_interrupts();

  const tune::SearchSpace space(module, options.space);
  tune::TuneResult result = tune::tune(module, space, options);
  result.program = tune::program_name(input);
  progress.finish();
  const tune::ResultFiles files = tune::result_files(args.out, tune::program_name(input));
  tune::write_results(files, module, space, result);
  if (args.json) {
    std::fputs(tune::decisions_json(space, result).c_str(), stdout);
  } else {
    if (result.stopped) std::printf("stopped; the best so far:\n");
    print_summary(result, files);
  }
  return 0;
}

int run_tune(const TuneArguments& args) {
  std::error_code ec;
  if (!args.retime && args.inputs.size() == 1 &&
      !std::filesystem::is_directory(args.inputs[0], ec)) {
    return tune_one(args);
  }
  return tune_many(args, tune::find_programs(args.inputs));
}

}  // namespace

tune::TuneOptions tune_options(const TuneArguments& args) {
  tune::TuneOptions options;
  options.budget_seconds = args.budget_seconds == 0 && args.trials == 0 ? 60 : args.budget_seconds;
  options.max_trials = args.trials;
  options.strategy = tune::strategy_from_name(args.strategy);
  options.seed = args.seed;
  if (args.allow_slow_compile) options.max_compile_ratio = 0;
  options.space = {.forms = !args.no_forms,
                   .layouts = !args.no_layouts,
                   .barriers = !args.no_barriers,
                   .flags = !args.no_flags,
                   .allow_inexact = args.allow_inexact};
  options.database = database_folder(args);
  if (args.inform_from.empty()) {
    options.inform_from = shipped("forms");
  } else if (args.inform_from != "none") {
    options.inform_from = args.inform_from;
    tune::read_databases(options.inform_from);  // throws now, not after the default was timed
  }
  options.cost_model = args.cost_model;
  options.explore_share = args.explore_share;
  options.learns = !args.no_learning;
  options.limit_trial_seconds = args.limit_trial_seconds;
  options.explain_top = args.explain ? 5 : 0;
  options.worker = args.device.worker_options();
  return options;
}

void check_can_write(const std::filesystem::path& folder) {
  const std::filesystem::path probe = folder / ".lagom-probe";
  write_file(probe, "");
  std::filesystem::remove(probe);
}

void add_tune(CLI::App& app, Action& chosen, LoadCostModel load_cost_model) {
  auto* command = app.add_subcommand(
      "tune", "Search a faster program with the same results on the device at hand");
  auto args = std::make_shared<TuneArguments>();
  command
      ->add_option(
          "files", args->inputs,
          "HLO text or proto, also compressed with gzip; of several, and of folders, there "
          "is a summary, and what is in --out already is kept")
      ->required();
  command->add_option("--out", args->out, "Folder for the tuned program and the report")
      ->capture_default_str();
  command
      ->add_option("--budget-seconds", args->budget_seconds,
                   "Wall time of the search for each program (60 when no limit is given)")
      ->check(positive_seconds());
  command->add_option("--trials", args->trials, "Whole-program candidates to measure at most")
      ->check(CLI::Range(1, INT_MAX));
  command
      ->add_option("--strategy", args->strategy,
                   "model: what is believed of forms and decisions says what to measure; genetic, "
                   "greedy, random; conditions: fixed rules of thumb, nothing searched")
      ->check(CLI::IsMember({"model", "greedy", "random", "genetic", "conditions"}))
      ->capture_default_str();
  command->add_option("--seed", args->seed, "Of the inputs and the search")->capture_default_str();
  command->add_option("--database", args->database,
                      "Folder that remembers kernel measurements; 'none' forgets them "
                      "(default: kernels/ in the cache folder)");
  command->add_option(
      "--model", args->model,
      "model: trained cost model of kernels' forms (lagom train, or LightGBM's trees; "
      "default: what lagom comes with; none: measurements alone)");
  command
      ->add_option("--from", args->inform_from,
                   "model: another folder of kernel measurements, of any device, to learn from "
                   "(default: what lagom comes with; none: only the database)")
      ->check(CLI::ExistingDirectory | CLI::IsMember({"none"}));
  command->add_flag("--no-learning", args->no_learning,
                    "model: stay with what is believed before the program is measured");
  command
      ->add_option("--explore", args->explore_share, "model: share of candidates drawn at random")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      ->add_option("--time-limit-per-trial", args->limit_trial_seconds,
                   "Seconds after which a candidate has failed")
      ->check(positive_seconds());
  command->add_flag("--explain", args->explain,
                    "Measure the program without each of the five decisions that matter most");
  add_fill_elided(*command, args->fill_elided);
  args->device.add_to(*command);
  command->add_flag("--allow-inexact", args->allow_inexact,
                    "Also try forms and flags that lower precision");
  command->add_flag("--allow-slow-compile", args->allow_slow_compile,
                    "Also take results that compile more than 3x as long as the default");
  command->add_flag("--no-forms", args->no_forms, "Leave every operation as it is");
  command->add_flag("--no-layouts", args->no_layouts, "Leave layouts to the compiler");
  command->add_flag("--no-barriers", args->no_barriers, "Set no optimization barriers");
  command->add_flag("--no-flags", args->no_flags, "Set no compiler flags");
  command->add_flag("--retime", args->retime,
                    "Time the results in --out afresh, without a search: retimed.jsonl and "
                    "retimed.md there");
  command->add_flag("--json", args->json, "Print the decisions as JSON instead of the summary");
  command->add_flag("--quiet", args->quiet, "No progress on stderr");
  command->footer(
      "Example: lagom tune model.hlo.pb --out tuned --budget-seconds 60\n"
      "         lagom tune programs/ --out tuned    (again to go on after a stop)\n"
      "         lagom tune programs/ --out tuned --retime    (on a quiet machine)");
  command->callback([args, &chosen, load_cost_model = std::move(load_cost_model)] {
    chosen = [args, load_cost_model] {
      args->cost_model = cost_model(*args, load_cost_model);
      return run_tune(*args);
    };
  });
}

}  // namespace lagom::cli

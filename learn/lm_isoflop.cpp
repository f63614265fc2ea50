#include <sched.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/common.h"
#include "cli/interrupt.h"
#include "lagom/lm/isoflop_report.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "learn/lm_commands.h"

namespace lagom::learn {
namespace {

using nlohmann::ordered_json;

struct IsoflopArguments {
  std::string plan, out, shard = "1/1";
  std::vector<std::string> overrides;
  int jobs = 0;
  bool dry_run = false, report_only = false, json = false;
};

/// The cores that this process may use, at most `jobs` of them (0: all).
std::vector<int> usable_cpus(int jobs) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  if (jobs > static_cast<int>(cpus.size())) {
    throw std::invalid_argument("--jobs " + std::to_string(jobs) + ": only " +
                                std::to_string(cpus.size()) + " cores may be used here");
  }
  if (jobs > 0) cpus.resize(static_cast<size_t>(jobs));
  return cpus;
}

void set_shard(const std::string& text, lm::IsoflopRunnerOptions& options) {
  long long shard = 0, count = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%lld/%lld%c", &shard, &count, &rest) != 2 || shard < 1 ||
      shard > count) {
    throw std::invalid_argument("--shard: expected i/n with i from 1 to n, got '" + text + "'");
  }
  options.shard = shard;
  options.num_shards = count;
}

ordered_json json_of(const lm::IsoflopAnalysis& analysis) {
  const auto pair = [](const Interval& i) { return ordered_json::array({i.low, i.high}); };
  ordered_json curves = ordered_json::array(), comparisons = ordered_json::array();
  for (const lm::IsoflopCurve& curve : analysis.curves) {
    ordered_json points = ordered_json::array();
    for (const lm::IsoflopPoint& point : curve.points) {
      points.push_back({{"size", point.size},
                        {"parameters", point.parameters},
                        {"forward_flops_per_token", point.forward_flops_per_token},
                        {"losses", point.losses},
                        {"loss", point.loss},
                        {"deviation", point.deviation},
                        {"loss_topk", point.loss_topk},
                        {"steps_per_second", point.steps_per_second}});
    }
    ordered_json row = {{"budget", curve.budget},
                        {"family", curve.family},
                        {"learning_rate", curve.learning_rate},
                        {"points", points}};
    if (curve.fit) {
      row["optimum"] = {{"parameters", curve.parameters},
                        {"parameters_interval", pair(curve.parameters_interval)},
                        {"loss", curve.loss},
                        {"loss_interval", pair(curve.loss_interval)},
                        {"forward_flops_per_token", curve.forward_flops_per_token},
                        {"bracketed", curve.is_bracketed}};
    }
    curves.push_back(std::move(row));
  }
  for (const lm::IsoflopComparison& c : analysis.comparisons) {
    comparisons.push_back({{"budget", c.budget},
                           {"family", c.family},
                           {"what", c.what},
                           {"difference_percent", c.difference},
                           {"interval", pair(c.interval)},
                           {"seeds", c.seeds}});
  }
  return {{"runs_done", analysis.runs_done},
          {"runs_total", analysis.runs_total},
          {"curves", curves},
          {"comparisons", comparisons}};
}

void report(const IsoflopArguments& args, const lm::IsoflopPlan& plan) {
  const lm::IsoflopAnalysis analysis = lm::analyze_isoflop(plan, args.out);
  const std::filesystem::path folder(args.out);
  write_file(folder / "points.csv", lm::isoflop_points_csv(analysis));
  write_file(folder / "fit.csv", lm::isoflop_fit_csv(analysis));
  write_file(folder / "report.html", lm::isoflop_html(plan, analysis, folder));
  if (args.json) {
    cli::print_json(json_of(analysis));
  } else {
    std::fputs(lm::isoflop_text(analysis).c_str(), stdout);
    std::printf("\n%s has the charts\n", (folder / "report.html").c_str());
  }
}

int isoflop(const IsoflopArguments& args) {
  lm::IsoflopPlan plan;
  read_options(args.plan, args.overrides, plan);
  if (args.dry_run) {
    std::fputs(lm::plan_text(lm::plan_runs(plan)).c_str(), stdout);
    return 0;
  }
  if (args.out.empty()) throw std::invalid_argument("lm isoflop: name a folder with --out");
  if (args.report_only) {
    report(args, plan);
    return 0;
  }
  cli::catch_interrupts();
  lm::IsoflopRunnerOptions options = {
      .folder = args.out,
      .program = std::filesystem::read_symlink("/proc/self/exe").string(),
      .cpus = usable_cpus(args.jobs),
      .stop = cli::interrupted,
      .note = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }};
  set_shard(args.shard, options);
  const lm::IsoflopSummary summary = lm::run_plan(plan, options);
  if (summary.wall_seconds > 0) {
    std::fprintf(stderr, "%.1f %% of the runs' time was training steps\n",
                 100 * summary.training_seconds / summary.wall_seconds);
  }
  if (summary.elsewhere > 0) {
    std::fprintf(stderr, "%lld runs are in the hands of another runner\n",
                 static_cast<long long>(summary.elsewhere));
  }
  if (summary.done < summary.total) {
    std::fprintf(stderr, "%lld of %lld runs are done; the same command goes on\n",
                 static_cast<long long>(summary.done), static_cast<long long>(summary.total));
  }
  report(args, plan);
  if (!summary.failures.empty()) {
    throw SystemError(std::to_string(summary.failures.size()) + " runs failed, the first " +
                      summary.failures.front());
  }
  return 0;
}

}  // namespace

void add_lm_isoflop(CLI::App& lm, Action& chosen) {
  auto* command = lm.add_subcommand("isoflop", "Compare kinds of models at equal training FLOPs");
  auto args = std::make_shared<IsoflopArguments>();
  command->add_option("plan", args->plan, "TOML; configs/lm/isoflop-*.toml are examples")
      ->required();
  command->add_option("--out", args->out, "Folder of the runs and the report");
  command->add_option("--set", args->overrides, "KEY=VALUE over the plan, as seeds=[1]");
  command->add_option("--jobs", args->jobs, "Runs at a time, each on a core; default: all cores")
      ->check(CLI::PositiveNumber);
  command->add_option("--shard", args->shard, "i/n: only each n-th run, for several machines");
  command->add_flag("--dry-run", args->dry_run, "Only print what would be run");
  command->add_flag("--report", args->report_only, "Only report on what is done");
  command->add_flag("--json", args->json, "Machine-readable output");
  command->footer("Example: lagom lm isoflop configs/lm/isoflop-small.toml --out out/isoflop");
  command->callback([args, &chosen] { chosen = [args] { return isoflop(*args); }; });
}

}  // namespace lagom::learn

#include <CLI/CLI.hpp>
#include <climits>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/interrupt.h"
#include "lagom/collect/collector.h"
#include "lagom/tune/batch.h"

namespace lagom::cli {
namespace {

struct CollectArguments {
  std::vector<std::string> inputs;
  std::string kind = "kernel", out, strategy = "random", shard = "0/1", splits, from;
  collect::CollectOptions options;
  DeviceArguments device;
  bool quiet = false;
};

CLI::Validator shard_text() {
  return {[](const std::string& text) -> std::string {
            int shard = 0, count = 0, end = 0;
            const bool parsed = std::sscanf(text.c_str(), "%d/%d%n", &shard, &count, &end) == 2;
            if (parsed && static_cast<size_t>(end) == text.size() && shard >= 0 && shard < count) {
              return "";
            }
            return "expected I/N with I from 0 to N-1, found '" + text + "'";
          },
          "I/N"};
}

int run_collect(CollectArguments& args) {
  collect::CollectOptions& options = args.options;
  options.kind =
      args.kind == "kernel" ? collect::CollectionKind::kKernel : collect::CollectionKind::kGraph;
  options.out = args.out;
  options.splits = args.splits;
  options.from_database = args.from;
  options.strategy = tune::strategy_from_name(args.strategy);
  std::sscanf(args.shard.c_str(), "%d/%d", &options.shard, &options.num_shards);
  options.worker = args.device.worker_options();
  options.should_stop = interrupted;
  if (!args.quiet) {
    options.on_progress = [](const std::string& line) {
      std::fprintf(stderr, "%s\n", line.c_str());
    };
  }
  catch_interrupts();
  const collect::CollectSummary summary =
      collect::collect(tune::find_programs(args.inputs), options);
  std::printf(
      "%s%zu files written, %zu kept, %zu left out; %zu rows measured, %zu of them failed\n",
      summary.stopped ? "stopped (run the command again to go on); " : "", summary.written,
      summary.kept, summary.left_out, summary.rows, summary.failures);
  return 0;
}

}  // namespace

void add_collect(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand(
      "collect", "Measure many configurations of programs into a data set of TpuGraphs' form");
  auto args = std::make_shared<CollectArguments>();
  command->add_option("files", args->inputs, "Programs, and folders of programs")->required();
  command->add_option("--out", args->out, "Folder of the data set")->required();
  command
      ->add_option("--kind", args->kind, "kernel (each heavy node alone) or graph (whole programs)")
      ->check(CLI::IsMember({"kernel", "graph"}))
      ->capture_default_str();
  command
      ->add_option("--configurations", args->options.configurations,
                   "Rows for each kernel or program")
      ->check(CLI::Range(2, INT_MAX))
      ->capture_default_str();
  command->add_option("--strategy", args->strategy, "graph: random or genetic")
      ->check(CLI::IsMember({"random", "genetic"}))
      ->capture_default_str();
  command->add_option("--shard", args->shard, "This call's part, for instance 0/4")
      ->check(shard_text())
      ->capture_default_str();
  command->add_option("--seed", args->options.seed, "Of inputs and configurations")
      ->capture_default_str();
  command
      ->add_option("--max-compile-seconds", args->options.max_compile_seconds,
                   "graph: leave out programs whose default compiles longer")
      ->check(positive_seconds());
  command
      ->add_option("--max-run-seconds", args->options.max_run_seconds,
                   "graph: leave out programs whose default runs longer")
      ->check(positive_seconds());
  command
      ->add_option("--seconds-per-row", args->options.seconds_per_row,
                   "kernel: time for timing one configuration")
      ->check(positive_seconds())
      ->capture_default_str();
  command->add_option("--splits", args->splits,
                      "Table of programs, families and splits: files then go into folders train, "
                      "valid and test");
  command
      ->add_option("--from", args->from,
                   "kernel: measure nothing, take what lagom tune left in this database")
      ->check(CLI::ExistingDirectory);
  args->device.add_to(*command);
  command->add_flag("--quiet", args->quiet, "No progress on stderr");
  command->footer(
      "Rows are kept as they are measured; after a stop or a kill the same command goes on.\n"
      "Example: lagom collect programs/ --out measured --configurations 16 --cpus 1");
  command->callback([args, &chosen] { chosen = [args] { return run_collect(*args); }; });
}

}  // namespace lagom::cli

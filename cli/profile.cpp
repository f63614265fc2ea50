#include "lagom/tune/profile.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/interrupt.h"

namespace lagom::cli {
namespace {

using nlohmann::ordered_json;

struct ProfileArguments {
  std::string file;
  size_t top = 25;
  bool json = false;
  bool fill_elided = false;
  DeviceArguments device;
};

ordered_json to_json(const ProfileArguments& args, const tune::Profile& profile) {
  ordered_json j = {{"file", args.file},
                    {"program_seconds", profile.program_seconds},
                    {"machine",
                     {{"flops_per_second", profile.machine.flops_per_second},
                      {"bytes_per_second", profile.machine.bytes_per_second}}}};
  j["kernels"] = ordered_json::array();
  for (const tune::ProfileRow& row : profile.rows) {
    ordered_json r = {{"opcode", row.opcode},         {"shape", row.shape},
                      {"signature", row.signature},   {"instructions", row.instructions},
                      {"op_name", row.op_name},       {"source", row.source},
                      {"executions", row.executions}, {"seconds", row.seconds},
                      {"flops", row.flops},           {"bytes", row.bytes}};
    if (!row.error.empty()) r["error"] = row.error;
    j["kernels"].push_back(std::move(r));
  }
  return j;
}

void print_table(const ProfileArguments& args, const tune::Profile& profile) {
  double sum = 0;
  for (const tune::ProfileRow& row : profile.rows) sum += row.total_seconds();
  std::printf("%s: %s a run; heavy kernels measured alone sum to %s\n", args.file.c_str(),
              time_to_string(profile.program_seconds).c_str(), time_to_string(sum).c_str());
  std::printf("machine: %s/s in a matrix product, %s/s in an element-wise sum\n\n",
              count_to_string(profile.machine.flops_per_second, "FLOP").c_str(),
              count_to_string(profile.machine.bytes_per_second, "B").c_str());
  std::printf("%6s %10s %5s %9s %6s %9s %6s  %s\n", "share", "total", "runs", "GFLOP/s", "of max",
              "GB/s", "of max", "kernel");
  size_t shown = 0;
  for (const tune::ProfileRow& row : profile.rows) {
    if (shown++ == args.top) break;
    if (row.seconds <= 0) {
      std::printf("%6s %10s %5.0f %9s %6s %9s %6s  %s %s %s: %s\n", "", "failed", row.executions,
                  "", "", "", "", row.opcode.c_str(), row.instructions[0].c_str(),
                  row.shape.c_str(), row.error.c_str());
      continue;
    }
    const double flops = row.flops / row.seconds, bytes = row.bytes / row.seconds;
    std::printf("%5.1f%% %10s %5.0f %9.1f %5.0f%% %9.1f %5.0f%%  %s %s %s%s%s\n",
                100 * row.total_seconds() / sum, time_to_string(row.total_seconds()).c_str(),
                row.executions, flops / 1e9, 100 * flops / profile.machine.flops_per_second,
                bytes / 1e9, 100 * bytes / profile.machine.bytes_per_second, row.opcode.c_str(),
                row.instructions[0].c_str(), row.shape.c_str(), row.source.empty() ? "" : " ",
                row.source.c_str());
  }
  if (profile.rows.size() > args.top) {
    std::printf("and %zu more (--top shows more)\n", profile.rows.size() - args.top);
  }
  if (profile.stopped) std::printf("stopped: not all kernels were measured\n");
}

int run_profile(const ProfileArguments& args) {
  const hlo::Module module = load_program(args.file, args.fill_elided);
  const tune::SearchSpace space(module, {.layouts = false, .barriers = false, .flags = false});
  catch_interrupts();
  measure::Worker worker(args.device.worker_options());
  tune::ProfileOptions options;
  options.should_stop = interrupted;
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  if (terminal) {
    options.on_progress = [](size_t done, size_t all) {
      std::fprintf(stderr, "\r\033[K%zu of %zu kernels", done, all);
      if (done == all) std::fprintf(stderr, "\r\033[K");
    };
  }
  const tune::Profile profile = tune::profile(module, space, worker, options);
  if (args.json) {
    print_json(to_json(args, profile));
  } else {
    print_table(args, profile);
  }
  return 0;
}

}  // namespace

void add_profile(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("profile", "Cut out and time each heavy kernel of a program");
  auto args = std::make_shared<ProfileArguments>();
  command->add_option("file", args->file, "HLO text or proto, also compressed with gzip")
      ->required();
  command->add_option("--top", args->top, "Rows to show")->capture_default_str();
  command->add_flag("--json", args->json, "Machine-readable output");
  add_fill_elided(*command, args->fill_elided);
  args->device.add_to(*command);
  command->footer("Example: lagom profile model.hlo.pb --top 10");
  command->callback([args, &chosen] { chosen = [args] { return run_profile(*args); }; });
}

}  // namespace lagom::cli

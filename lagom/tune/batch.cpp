#include "lagom/tune/batch.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "lagom/hlo/cost_analysis.h"
#include "lagom/tune/profile.h"
#include "lagom/tune/results.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "lagom/util/json_lines.h"

namespace lagom::tune {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(BatchEntry, program, family, key, error, note,
                                                default_seconds, tuned_seconds, speedup, low, high,
                                                conditions_speedup, noise_floor,
                                                default_compile_seconds, tuned_compile_seconds,
                                                elapsed_seconds, known_kernels, kernels, trials,
                                                kernel_trials, default_share, tuned_share, forms)

namespace {

using nlohmann::json;

std::string fixed(double value, int digits) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return buffer;
}

std::string significant(double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.3g", value);
  return buffer;
}

/// A file's name tells whether it may hold a program.
bool has_program_name(const std::filesystem::path& path) {
  std::string name = path.filename().string();
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return name.ends_with(".hlo") || name.ends_with(".pb") || name.ends_with(".txt");
}

struct Work {
  double depthwise = 0, deep = 0, convolution = 0, dot = 0, looped = 0;
  size_t num_indexed = 0;
};

Work work_of(const hlo::Module& module) {
  Work work;
  hlo::CostAnalysis costs(module);
  for (const auto& computation : module.computations()) {
    const double executions = executions_of(module, *computation);
    for (const auto& i : computation->instructions()) {
      if (i->opcode == hlo::Opcode::kConvolution) {
        const auto& a = i->attributes;
        const bool is_depthwise = a.feature_group_count > 4 || a.batch_group_count > 4;
        (is_depthwise          ? work.depthwise
         : a.window.size() > 2 ? work.deep
                               : work.convolution) += executions * costs.of(*i).flops;
      } else if (i->opcode == hlo::Opcode::kDot) {
        (executions > 1 ? work.looped : work.dot) += executions * costs.of(*i).flops;
      } else if (i->opcode == hlo::Opcode::kGather || i->opcode == hlo::Opcode::kScatter) {
        ++work.num_indexed;
      }
    }
  }
  return work;
}

struct Group {
  std::vector<double> speedups, by_conditions;
  int faster = 0;
  double default_seconds = 0, tuned_seconds = 0;

  void add(const BatchEntry& entry) {
    speedups.push_back(entry.speedup);
    by_conditions.push_back(std::max(entry.conditions_speedup, 1.0));
    faster += entry.speedup > 1;
    default_seconds += entry.default_seconds;
    tuned_seconds += entry.tuned_seconds;
  }
  std::string row(const std::string& name) const {
    return "| " + name + " | " + std::to_string(speedups.size()) + " | " + std::to_string(faster) +
           " | " + fixed(geometric_mean(speedups), 2) + "x | " +
           fixed(geometric_mean(by_conditions), 2) + "x | " + significant(default_seconds * 1e3) +
           " | " + significant(tuned_seconds * 1e3) + " |\n";
  }
};

std::string program_row(const BatchEntry& e) {
  std::string row = "| " + e.program + " | " + e.family + " | ";
  if (!e.error.empty()) return row + "failed: " + e.error + " | | | | | | | | |\n";
  row += significant(e.default_seconds * 1e3) + " | " + significant(e.tuned_seconds * 1e3) + " | ";
  if (e.speedup > 1) {
    row += fixed(e.speedup, 2) + "x [" + fixed(e.low, 2) + ", " + fixed(e.high, 2) + "]";
  } else {
    row += "default kept";
  }
  row += " | ";
  if (e.conditions_speedup > 0) row += fixed(e.conditions_speedup, 2) + "x";
  row += " | " + fixed(e.noise_floor * 100, 1) + " % | ";
  row += e.default_share > 0
             ? fixed(e.default_share * 100, 0) + " -> " + fixed(e.tuned_share * 100, 0) + " %"
             : "";
  row += " | ";
  if (e.speedup > 1 && e.default_compile_seconds > 0) {
    row += fixed(e.tuned_compile_seconds / e.default_compile_seconds, 1) + "x";
  }
  row += " | " + fixed(e.elapsed_seconds, 0) + " | ";
  bool first = true;
  for (const auto& [form, count] : e.forms) {
    row += (first ? "" : ", ") + std::to_string(count) + " " + form;
    first = false;
  }
  return row + " |\n";
}

}  // namespace

std::string program_family(const hlo::Module& module) {
  const Work work = work_of(module);
  if (work.depthwise > 0) return "depthwise convolution";
  if (work.deep > 0) return "3-D convolution";
  if (work.convolution > 0.1 * (work.dot + work.looped)) return "convolution";
  if (work.looped > work.dot) return "recurrent";
  if (work.num_indexed > 8) return "graph";
  return work.dot > 0 ? "dot" : "other";
}

BatchEntry batch_entry(const hlo::Module& module, const TuneResult& result) {
  BatchEntry entry{.program = result.program, .family = program_family(module)};
  entry.note = result.note;
  entry.default_seconds = result.default_seconds;
  entry.tuned_seconds = result.tuned_seconds;
  if (!result.configuration.is_default()) {
    entry.speedup = result.speedup();
    entry.low = 1 / result.ratio.high;
    entry.high = 1 / result.ratio.low;
  }
  for (const Trial& trial : result.trials) {
    if (trial.origin != "conditions") continue;
    entry.conditions_speedup = trial.measured ? std::max(1 / trial.ratio.median, 1.0) : 1;
  }
  entry.noise_floor = result.baseline.noise_floor;
  entry.default_compile_seconds = result.default_compile_seconds;
  entry.tuned_compile_seconds = result.tuned_compile_seconds;
  entry.elapsed_seconds = result.elapsed_seconds;
  entry.trials = static_cast<int>(result.trials.size());
  entry.kernel_trials = result.num_kernel_trials;
  entry.kernels = static_cast<int>(result.kernels.size());
  entry.known_kernels = static_cast<int>(
      std::count_if(result.kernels.begin(), result.kernels.end(),
                    [](const KernelResult& kernel) { return kernel.from_database; }));
  if (result.machine.flops_per_second > 0) {
    const double seconds_at_best = result.program_flops / result.machine.flops_per_second;
    entry.default_share = seconds_at_best / result.default_seconds;
    entry.tuned_share = seconds_at_best / result.tuned_seconds;
  }
  for (const rewrite::Decision& decision : result.configuration.decisions) {
    switch (decision.kind) {
      case rewrite::DecisionKind::kForm:
        ++entry.forms[decision.form];
        break;
      case rewrite::DecisionKind::kBarrier:
        ++entry.forms["barrier"];
        break;
      default:
        ++entry.forms["layout"];
    }
  }
  if (!result.configuration.flags.empty()) {
    entry.forms["flag"] = static_cast<int>(result.configuration.flags.size());
  }
  return entry;
}

BatchSummary::BatchSummary(std::filesystem::path file) : file_(std::move(file)) {
  for_each_json_line(file_, [&](const json& j) {
    auto entry = j.get<BatchEntry>();
    by_program_[entry.program] = std::move(entry);
  });
}

const BatchEntry* BatchSummary::find(const std::string& program) const {
  const auto it = by_program_.find(program);
  return it == by_program_.end() ? nullptr : &it->second;
}

void BatchSummary::add(const BatchEntry& entry) {
  by_program_[entry.program] = entry;
  append_line(file_, json(entry).dump(-1, ' ', false, json::error_handler_t::replace));
}

std::vector<BatchEntry> BatchSummary::entries() const {
  std::vector<BatchEntry> entries;
  for (const auto& [program, entry] : by_program_) entries.push_back(entry);
  return entries;
}

std::vector<std::filesystem::path> find_programs(const std::vector<std::string>& paths) {
  std::vector<std::filesystem::path> programs;
  for (const std::string& text : paths) {
    const std::filesystem::path path(text);
    std::error_code ec;
    if (!std::filesystem::is_directory(path, ec)) {
      if (!std::filesystem::exists(path, ec)) throw SystemError(text + ": there is no such file");
      programs.push_back(path);
      continue;
    }
    std::vector<std::filesystem::path> inside;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.is_regular_file() && has_program_name(entry.path())) inside.push_back(entry.path());
    }
    if (inside.empty()) {
      throw std::invalid_argument(text + ": holds no program (.hlo, .txt or .pb, also with .gz)");
    }
    std::sort(inside.begin(), inside.end());
    programs.insert(programs.end(), inside.begin(), inside.end());
  }
  std::map<std::string, std::filesystem::path> names;
  for (const auto& program : programs) {
    const auto [it, is_new] = names.emplace(program_name(program), program);
    if (!is_new) {
      throw std::invalid_argument(program.string() + " and " + it->second.string() +
                                  " would write the same results: name one of them otherwise");
    }
  }
  return programs;
}

double geometric_mean(const std::vector<double>& speedups) {
  if (speedups.empty()) return 1;
  double sum = 0;
  for (const double speedup : speedups) sum += std::log(speedup);
  return std::exp(sum / static_cast<double>(speedups.size()));
}

std::string summary_markdown(const std::vector<BatchEntry>& entries) {
  std::map<std::string, Group> families;
  std::map<std::string, std::pair<int, int>> rules;  // programs, instructions
  Group all;
  std::string programs =
      "| program | family | default ms | tuned ms | speed-up | by conditions | noise floor | share "
      "of "
      "GEMM rate | compile time | tuning s | decisions |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const BatchEntry& entry : entries) {
    programs += program_row(entry);
    if (!entry.error.empty()) continue;
    families[entry.family].add(entry);
    all.add(entry);
    for (const auto& [form, count] : entry.forms) {
      ++rules[form].first;
      rules[form].second += count;
    }
  }
  std::string text =
      "| family | programs | faster | geometric mean | by conditions alone | default ms, sum | "
      "tuned ms, sum |\n|---|---|---|---|---|---|---|\n";
  for (const auto& [family, group] : families) text += group.row(family);
  text += all.row("all") + "\n";
  text += "| decision | programs | instructions |\n|---|---|---|\n";
  for (const auto& [rule, counts] : rules) {
    text += "| " + rule + " | " + std::to_string(counts.first) + " | " +
            std::to_string(counts.second) + " |\n";
  }
  return text + "\n" + programs;
}

}  // namespace lagom::tune

#include "lagom/collect/collector.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <unordered_set>

#include "lagom/collect/measured_file.h"
#include "lagom/collect/splits.h"
#include "lagom/hlo/edit.h"
#include "lagom/hlo/module_file.h"
#include "lagom/hlo/proto_writer.h"
#include "lagom/hlo/text_writer.h"
#include "lagom/tune/input_roles.h"
#include "lagom/tune/results.h"
#include "lagom/tune/search_session.h"
#include "lagom/util/hash.h"

namespace lagom::collect {
namespace {

namespace fs = std::filesystem;
using rewrite::Configuration;
using rewrite::Decision;
using rewrite::DecisionKind;

/// A kernel's own first number, so that every run and every machine measures the same rows.
uint64_t seed_of(const std::string& signature, uint64_t seed) {
  return hash64(signature) ^ seed;
}

hlo::Dims shuffled_layout(int64_t rank, std::mt19937_64& random) {
  hlo::Dims layout(static_cast<size_t>(rank));
  std::iota(layout.begin(), layout.end(), 0);
  std::shuffle(layout.begin(), layout.end(), random);
  return layout;
}

Configuration with_form(const std::string& node, const rewrite::Rule* rule) {
  Configuration configuration;
  if (rule != nullptr) {
    configuration.set({.kind = DecisionKind::kForm,
                       .instruction = node,
                       .operand = 0,
                       .form = std::string(rule->name()),
                       .layout = {}});
  }
  return configuration;
}

/// A random layout for the node's output or one of its first two operands.
bool add_layout(Configuration& configuration, const hlo::Instruction& node,
                std::mt19937_64& random) {
  const int64_t place = static_cast<int64_t>(random() % 3) - 1;  // -1: the output
  if (place >= static_cast<int64_t>(node.operands.size())) return false;
  const hlo::Shape& shape = place < 0 ? node.shape : node.operand(static_cast<size_t>(place)).shape;
  if (!shape.is_array() || shape.is_dynamic() || shape.rank() < 2) return false;
  configuration.set({.kind = place < 0 ? DecisionKind::kOutputLayout : DecisionKind::kOperandLayout,
                     .instruction = node.name,
                     .operand = std::max<int64_t>(place, 0),
                     .form = {},
                     .layout = shuffled_layout(shape.rank(), random)});
  return true;
}

class Collector {
 public:
  Collector(const std::vector<fs::path>& programs, const CollectOptions& options)
      : programs_(programs), options_(options), worker_(worker_options()) {
    if (!options_.from_database.empty()) read_database();
    if (options_.splits.empty()) return;
    splits_.emplace(options_.splits);
    for (const fs::path& program : programs_) (void)splits_->split_of(tune::program_name(program));
  }

  CollectSummary run() {
    fs::create_directories(options_.out);
    if (options_.kind == CollectionKind::kKernel) find_kernels();
    for (size_t i = 0; i < programs_.size() && !stopped(); ++i) {
      const std::string name = tune::program_name(programs_[i]);
      const bool is_graph = options_.kind == CollectionKind::kGraph;
      if (!is_graph || static_cast<int>(i) % options_.num_shards == options_.shard) {
        try {
          hlo::Module module = hlo::read_module_file(programs_[i]);
          hlo::make_rerunnable(module);
          const std::string text =
              is_graph ? collect_graph(name, module) : collect_kernels(name, module);
          ++num_done_;
          report(name + ": " + text);
        } catch (const std::exception& e) {
          ++summary_.left_out;
          ++num_done_;
          report(name + ": left out: " + e.what());
        }
      } else {
        ++num_done_;
      }
    }
    summary_.stopped = stopped();
    return summary_;
  }

 private:
  measure::WorkerOptions worker_options() const {
    measure::WorkerOptions worker = options_.worker;
    worker.should_stop = options_.should_stop;
    return worker;
  }
  /// Where the files of something that these programs have begin, without their ending.
  fs::path stem_of(const std::string& name, std::span<const std::string> programs) const {
    fs::path folder = options_.out;
    folder /= options_.kind == CollectionKind::kKernel ? "kernel" : "graph";
    if (splits_) folder /= splits_->split_of(programs);
    fs::create_directories(folder);
    return folder / name;
  }
  bool stopped() const { return options_.should_stop && options_.should_stop(); }

  void report(const std::string& text) {
    if (!options_.on_progress) return;
    const double elapsed = std::chrono::duration<double>(Clock::now() - begin_).count();
    char figures[200];
    std::snprintf(figures, sizeof figures,
                  "[%zu/%zu programs, %.0f s, %zu rows (%.1f/s), %zu failures", num_done_,
                  programs_.size(), elapsed, summary_.rows,
                  static_cast<double>(summary_.rows) / elapsed, summary_.failures);
    std::string line = figures;
    if (num_done_ > 0) {
      const auto open = static_cast<double>(programs_.size() - num_done_);
      std::snprintf(figures, sizeof figures, ", about %.0f min left",
                    std::ceil(elapsed / 60 * open / static_cast<double>(num_done_)));
      line += figures;
    }
    last_report_ = Clock::now();
    options_.on_progress(line + "] " + text);
  }

  void report_sometimes(const std::string& text) {
    if (Clock::now() - last_report_ > std::chrono::seconds(20)) report(text);
  }

  std::string device() {
    if (device_.empty()) device_ = measure::device_key(worker_.hello(), worker_.cpus());
    return device_;
  }

  // ---- Kernels

  /// Which programs have each kernel: all are read before any is measured, since the split of a
  /// kernel is known only then.
  void find_kernels() {
    for (const fs::path& path : programs_) {
      if (stopped()) return;
      try {
        hlo::Module module = hlo::read_module_file(path);
        hlo::make_rerunnable(module);
        const tune::SearchSpace space(module, {});
        for (const tune::Kernel& kernel : space.kernels()) {
          std::vector<std::string>& programs = programs_of_kernel_[kernel.cut_out.signature];
          const std::string name = tune::program_name(path);
          if (programs.empty() || programs.back() != name) programs.push_back(name);
        }
      } catch (const std::exception&) {
        // Said when it is its turn.
      }
    }
    report(std::to_string(programs_of_kernel_.size()) + " distinct kernels");
  }

  std::string collect_kernels(const std::string& program, const hlo::Module& module) {
    const tune::SearchSpace space(module, {});
    const size_t written = summary_.written;
    for (const tune::Kernel& kernel : space.kernels()) {
      if (stopped()) return "stopped";
      const std::string& signature = kernel.cut_out.signature;
      if (!seen_.insert(signature).second) continue;
      const auto shards = static_cast<uint64_t>(options_.num_shards);
      if (hash64(signature) % shards != static_cast<uint64_t>(options_.shard)) continue;
      const fs::path stem = stem_of(signature, programs_of_kernel_.at(signature));
      if (fs::exists(stem.string() + ".npz")) {
        ++summary_.kept;
      } else {
        if (options_.from_database.empty()) {
          measure_kernel(space, kernel, stem);
        } else {
          write_known_kernel(kernel, stem);
        }
        report_sometimes(program + ": " + std::to_string(summary_.written - written) +
                         " new kernels so far");
      }
    }
    return std::to_string(summary_.written - written) + " new kernels of " +
           std::to_string(space.kernels().size());
  }

  void measure_kernel(const tune::SearchSpace& space, const tune::Kernel& kernel,
                      const fs::path& stem) {
    const hlo::Module& module = kernel.cut_out.module;
    const fs::path log_path = stem.string() + ".rows.jsonl";
    RowLog log(log_path);
    measure::BaselineRequest request;
    request.program.module = hlo::write_hlo_proto(module);
    request.inputs = tune::input_specs(module);
    request.seed = options_.seed;
    request.noise = {
        .min_pairs = 5, .target_width = 0.03, .budget_seconds = options_.seconds_per_row};
    request.check_health = false;
    const measure::BaselineResult baseline = worker_.load_baseline(request);
    if (baseline.failure == measure::FailureKind::kStopped) return;
    if (!baseline.ok()) {
      ++summary_.left_out;
      return;
    }
    for (const Configuration& configuration :
         kernel_configurations(space, kernel, options_.configurations, options_.seed)) {
      const std::string text = configuration.to_string();
      if (log.contains(text)) continue;
      const Row row = measure_row(module, configuration);
      if (row.failure == measure::FailureKind::kStopped) return;
      log.add(row);
      ++summary_.rows;
      summary_.failures += !row.ok();
    }
    finish(stem, module,
           {.programs = programs_of_kernel_.at(kernel.cut_out.signature),
            .signature = kernel.cut_out.signature,
            .device = device(),
            .strategy = "kernel",
            .default_seconds = baseline.seconds,
            .noise_floor = baseline.noise_floor,
            .load_average = baseline.load_average,
            .hlo = hlo::write_hlo_text(module)},
           log);
  }

  void read_database() {
    std::vector<tune::DeviceRecords> devices = tune::read_databases(options_.from_database);
    if (devices.size() != 1) {
      throw std::invalid_argument(options_.from_database.string() +
                                  ": expected measurements of one device, found " +
                                  std::to_string(devices.size()));
    }
    device_ = devices[0].device;
    for (tune::KernelRecord& record : devices[0].records) {
      std::string signature = record.signature;
      known_[signature][record.configuration] = std::move(record);
    }
  }

  /// A kernel that was tuned: as it is, and the forms that were tried.
  void write_known_kernel(const tune::Kernel& kernel, const fs::path& stem) {
    const auto records = known_.find(kernel.cut_out.signature);
    if (records == known_.end() || records->second.size() < 2 || !records->second.contains("")) {
      ++summary_.left_out;
      return;
    }
    RowLog log(stem.string() + ".rows.jsonl");
    for (const auto& [configuration, record] : records->second) {
      if (log.contains(configuration)) continue;
      log.add({.configuration = configuration,
               .seconds = record.seconds.value_or(0),
               .default_seconds = record.default_seconds,
               .ratio = record.ratio,
               .compile_seconds = record.compile_seconds,
               .failure = record.failure,
               .error = record.error});
      ++summary_.rows;
      summary_.failures += record.failure != measure::FailureKind::kNone;
    }
    const tune::KernelRecord& as_it_is = records->second.at("");
    const hlo::Module& module = kernel.cut_out.module;
    finish(stem, module,
           {.programs = programs_of_kernel_.at(kernel.cut_out.signature),
            .signature = kernel.cut_out.signature,
            .device = device(),
            .strategy = "tune",
            .default_seconds = as_it_is.default_seconds,
            .noise_floor = (as_it_is.ratio.high - as_it_is.ratio.low) / 2,
            .load_average = 0,
            .hlo = hlo::write_hlo_text(module)},
           log);
  }

  Row measure_row(const hlo::Module& module, const Configuration& configuration) {
    Row row{.configuration = configuration.to_string()};
    measure::MeasureRequest request;
    try {
      request.program = {.module = hlo::write_hlo_proto(rewrite::apply(module, configuration)),
                         .flags = configuration.flags};
    } catch (const std::invalid_argument& e) {
      row.failure = measure::FailureKind::kCompile;
      row.error = e.what();
      return row;
    }
    // No early end for slow ones: they are what a model has to tell from the fast.
    request.timing = {.min_pairs = 5,
                      .target_width = 0.03,
                      .budget_seconds = options_.seconds_per_row,
                      .stop_ratio = 20};
    request.limit_seconds = 30;
    const measure::MeasureResult result = worker_.measure(request);
    row.failure = result.failure;
    row.error = result.error;
    row.ratio = result.ratio;
    row.seconds = result.seconds.value_or(0);
    row.default_seconds = result.default_seconds;
    row.compile_seconds = result.figures.compile_seconds;
    return row;
  }

  void finish(const fs::path& stem, const hlo::Module& module, const MeasuredProgram& program,
              const RowLog& log) {
    const auto measured = std::count_if(log.rows().begin(), log.rows().end(),
                                        [](const Row& row) { return row.ok(); });
    if (measured == 0) {
      ++summary_.left_out;
      return;
    }
    write_measured(stem, module, program, log.rows());
    std::error_code ec;
    fs::remove(stem.string() + ".rows.jsonl", ec);
    ++summary_.written;
  }

  // ---- Whole programs

  std::string collect_graph(const std::string& program, const hlo::Module& module) {
    const fs::path stem = stem_of(program, std::span(&program, 1));
    if (fs::exists(stem.string() + ".npz")) {
      ++summary_.kept;
      return "kept";
    }
    RowLog log(stem.string() + ".rows.jsonl");
    tune::TuneOptions tuning;
    tuning.budget_seconds = 0;
    tuning.max_trials = options_.configurations - static_cast<int>(log.rows().size());
    tuning.strategy = options_.strategy;
    tuning.seed = options_.seed + log.rows().size();
    tuning.worker = options_.worker;
    tuning.max_compile_ratio = 0;
    tuning.stop_ratio = 20;
    for (const Row& row : log.rows()) tuning.known.insert(row.configuration);
    bool is_too_slow = false;
    tuning.should_stop = [&] { return stopped() || is_too_slow; };
    tuning.on_baseline = [&](const measure::BaselineResult& baseline) {
      is_too_slow = (options_.max_compile_seconds > 0 &&
                     baseline.figures.compile_seconds > options_.max_compile_seconds) ||
                    (options_.max_run_seconds > 0 && baseline.seconds > options_.max_run_seconds);
      if (is_too_slow || log.contains("")) return;
      log.add({.configuration = "",
               .seconds = baseline.seconds,
               .default_seconds = baseline.seconds,
               .ratio = baseline.self_ratio,
               .compile_seconds = baseline.figures.compile_seconds});
    };
    tuning.on_trial = [&](const tune::Trial& trial) {
      if (trial.failure == measure::FailureKind::kStopped) return;
      log.add({.configuration = trial.configuration.to_string(),
               .seconds = trial.seconds,
               .default_seconds = trial.default_seconds,
               .ratio = trial.ratio,
               .compile_seconds = trial.compile_seconds,
               .failure = trial.failure,
               .error = trial.error});
      ++summary_.rows;
      summary_.failures += trial.failure != measure::FailureKind::kNone;
      report_sometimes(program + ": " + std::to_string(log.rows().size()) + " rows so far");
    };
    const tune::SearchSpace space(module, {});
    const tune::TuneResult result = tune::tune(module, space, tuning);
    if (is_too_slow) {
      ++summary_.left_out;
      return "left out: compiles or runs too long";
    }
    if (stopped()) return "stopped";
    finish(stem, module,
           {.programs = {program},
            .signature = hex64(hash64(hlo::write_hlo_text(module))),
            .device = device(),
            .strategy = std::string(tune::strategy_name(options_.strategy)),
            .default_seconds = result.default_seconds,
            .noise_floor = result.baseline.noise_floor,
            .load_average = result.baseline.load_average},
           log);
    return std::to_string(log.rows().size()) + " rows, best " + tune::factor_text(result.speedup());
  }

  using Clock = std::chrono::steady_clock;
  const std::vector<fs::path>& programs_;
  const CollectOptions& options_;
  measure::Worker worker_;
  std::optional<ProgramSplits> splits_;
  std::map<std::string, std::vector<std::string>> programs_of_kernel_;
  /// By signature and configuration: what `from_database` holds.
  std::map<std::string, std::map<std::string, tune::KernelRecord>> known_;
  std::string device_;
  std::unordered_set<std::string> seen_;
  CollectSummary summary_;
  size_t num_done_ = 0;  // programs
  Clock::time_point begin_ = Clock::now(), last_report_ = begin_;
};

}  // namespace

std::vector<Configuration> kernel_configurations(const tune::SearchSpace& space,
                                                 const tune::Kernel& kernel, int count,
                                                 uint64_t seed) {
  const std::string& node = kernel.cut_out.node;
  std::vector<Configuration> all;
  std::set<std::string> texts;
  const auto add = [&](Configuration configuration) {
    if (static_cast<int>(all.size()) < count && texts.insert(configuration.to_string()).second) {
      all.push_back(std::move(configuration));
    }
  };
  add({});
  for (const rewrite::Rule* rule : kernel.rules) add(with_form(node, rule));
  std::mt19937_64 random(seed_of(kernel.cut_out.signature, seed));
  // Of 3,925 rows with a flag alone 0.5 % differed from the default: one is enough.
  if (!space.flag_choices().empty()) {
    Configuration configuration;
    const auto& [name, value] = space.flag_choices()[random() % space.flag_choices().size()];
    configuration.flags[name] = value;
    add(std::move(configuration));
  }
  // The rest at random: forms, layouts and now and then a flag together.
  const hlo::Instruction* instruction = kernel.cut_out.module.entry()->find(node);
  for (int draw = 0; draw < 20 * count && static_cast<int>(all.size()) < count; ++draw) {
    const size_t form = random() % (kernel.rules.size() + 1);
    Configuration configuration =
        with_form(node, form < kernel.rules.size() ? kernel.rules[form] : nullptr);
    if (instruction != nullptr && random() % 3 != 0)
      add_layout(configuration, *instruction, random);
    if (!space.flag_choices().empty() && random() % 6 == 0) {
      const auto& [name, value] = space.flag_choices()[random() % space.flag_choices().size()];
      configuration.flags[name] = value;
    }
    add(std::move(configuration));
  }
  return all;
}

CollectSummary collect(const std::vector<fs::path>& programs, const CollectOptions& options) {
  return Collector(programs, options).run();
}

}  // namespace lagom::collect

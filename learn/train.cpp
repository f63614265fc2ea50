#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cli/interrupt.h"
#include "lagom/collect/measured_file.h"
#include "lagom/cost_model/class_trainer.h"
#include "lagom/cost_model/trainer.h"
#include "lagom/tensor/threads.h"
#include "lagom/util/options.h"
#include "learn/commands.h"

namespace lagom::learn {
namespace {

namespace fs = std::filesystem;

struct TrainArguments {
  std::string config, out;
  std::vector<std::string> set;
  bool resume = false;
  int threads = 0;
};

/// Each seed's run, one after the other, until one is stopped. run: of a seed and its folder.
template <typename Run>
int run_seeds(const TrainArguments& args, const std::vector<int64_t>& seeds,
              std::string_view metric, Run&& run) {
  cli::catch_interrupts();
  for (const int64_t seed : seeds) {
    const fs::path folder = seeds.size() == 1
                                ? fs::path(args.out)
                                : fs::path(args.out) / ("seed-" + std::to_string(seed));
    const cost_model::RunResult result = run(seed, folder);
    if (result.was_stopped) {
      std::fprintf(stderr, "stopped after %ld steps; --resume goes on\n",
                   static_cast<long>(result.steps));
      return 1;
    }
    std::printf("%s: %ld steps, last loss %.6g", folder.c_str(), static_cast<long>(result.steps),
                result.last_loss);
    if (result.best_step > 0) {
      std::printf(", best %s %.4f at step %ld", std::string(metric).c_str(), result.best_metric,
                  static_cast<long>(result.best_step));
    }
    std::printf("\n");
  }
  return 0;
}

int train_classifier(const TrainArguments& args) {
  cost_model::ClassTrainOptions options;
  read_options(args.config, args.set, options);
  options.validate();
  const std::vector<std::string> classes =
      cost_model::classes_below(options.train, options.label_depth);
  const auto open = [&](const std::vector<std::string>& folders) {
    return cost_model::open_class_graphs(folders, options.label_depth, classes, options.segments);
  };
  const auto train = open(options.train), valid = open(options.valid);
  if (train.empty()) throw std::invalid_argument("train: there are no folders to read");
  std::fprintf(stderr, "%zu training graphs, %zu validation graphs, %zu classes\n", train.size(),
               valid.size(), classes.size());
  return run_seeds(args, options.seeds, "accuracy", [&](int64_t seed, const fs::path& folder) {
    return cost_model::train_classifier(options, train, valid, classes, seed, folder, args.resume,
                                        cli::interrupted);
  });
}

int train(const TrainArguments& args) {
  tensor::set_num_threads(args.threads);
  if (peek_option(args.config, args.set, "task") == "classification") return train_classifier(args);
  cost_model::TrainOptions options;
  read_options(args.config, args.set, options);
  options.validate();
  auto train = cost_model::open_graphs(options.train);
  for (auto& graph : train) graph.device = collect::measured_device(graph.data->path);
  std::vector<cost_model::LabeledGraph> valid;
  if (!options.valid.empty()) valid = cost_model::open_graphs(options.valid);
  std::fprintf(stderr, "%zu training graphs, %zu validation graphs, %s\n", train.size(),
               valid.size(), train.front().data->format.to_string().c_str());
  const std::string_view metric = option_names(options.metric)[static_cast<size_t>(options.metric)];
  return run_seeds(args, options.seeds, metric, [&](int64_t seed, const fs::path& folder) {
    return cost_model::train_model(options, train, valid, seed, folder, args.resume,
                                   cli::interrupted);
  });
}

}  // namespace

void add_train(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("train", "Train a cost model on a data set");
  auto args = std::make_shared<TrainArguments>();
  command->add_option("config", args->config, "Options as TOML; configs/cost_model has examples")
      ->required();
  command->add_option("--out", args->out, "Folder for models and logs, one per seed below it")
      ->required();
  command->add_option("--set", args->set, "An option that wins over the file's: KEY=VALUE");
  command->add_flag("--resume", args->resume, "Go on where a run in that folder stopped");
  command->add_option("--threads", args->threads, "0: one per CPU");
  command->footer(
      "Example: lagom train configs/cost_model/ours.toml --out runs/ours "
      "--set train=[\"data/train\"] --set steps=2000");
  command->callback([args, &chosen] { chosen = [args] { return train(*args); }; });
}

}  // namespace lagom::learn

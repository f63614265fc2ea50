#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/interrupt.h"
#include "lagom/lm/trainer.h"
#include "lagom/tensor/threads.h"
#include "lagom/util/options.h"
#include "learn/lm_commands.h"

namespace lagom::learn {
namespace {

struct TrainArguments {
  std::string config, out;
  std::vector<std::string> overrides;
  bool resume = false, demo = false;
  int threads = 0;
};

int train(TrainArguments args) {
  lm::LmTrainOptions options;
  if (args.demo) {
    args.config = project_file("configs/lm/demo.toml").string();
    if (args.out.empty()) args.out = "out/lm-demo";
  }
  if (args.config.empty() || args.out.empty()) {
    throw std::invalid_argument("lm train: name a config and --out, or --demo");
  }
  read_options(args.config, args.overrides, options);
  if (args.demo) options.data.train = project_file(options.data.train).string();
  tensor::set_num_threads(args.threads);
  cli::catch_interrupts();
  lm::LmTrainer trainer(options, args.out, args.resume);
  std::fprintf(stderr, "%lld parameters, into %s\n",
               static_cast<long long>(trainer.model().num_parameters()), args.out.c_str());
  trainer.run(cli::interrupted);
  if (trainer.step() < options.steps) {
    std::fprintf(stderr, "stopped at step %lld; --resume goes on\n",
                 static_cast<long long>(trainer.step()));
  }
  return 0;
}

}  // namespace

void add_lm_train(CLI::App& lm, Action& chosen) {
  auto* command = lm.add_subcommand("train", "Train a language model");
  auto args = std::make_shared<TrainArguments>();
  command->add_option("config", args->config, "TOML; configs/lm/ has examples");
  command->add_option("--out", args->out, "Folder of the run");
  command->add_option("--set", args->overrides, "KEY=VALUE over the config, as model.d_model=128");
  command->add_flag("--resume", args->resume, "Go on from the folder's checkpoint");
  command->add_flag("--demo", args->demo,
                    "A small model on the plays of Shakespeare, some minutes");
  command->add_option("--threads", args->threads, "0: one per CPU");
  command->footer("Example: lagom lm train configs/lm/demo.toml --out out/run --set steps=200");
  command->callback([args, &chosen] { chosen = [args] { return train(*args); }; });
}

}  // namespace lagom::learn

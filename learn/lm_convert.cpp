#include <CLI/CLI.hpp>
#include <cstdio>

#include "lagom/lm/import.h"
#include "lagom/util/error.h"
#include "lagom/util/options.h"
#include "learn/lm_commands.h"

namespace lagom::learn {
namespace {

struct ConvertArguments {
  std::string in, out, to = "lagom";
  std::vector<std::string> overrides;
  int64_t seed = 0;
};

int convert(const ConvertArguments& args) {
  const lm::LoadedModel loaded = lm::load_model(args.in);
  const std::filesystem::path out(args.out);
  const auto from = lm::checkpoint_path(args.in).parent_path() / loaded.tokenizer;
  std::filesystem::create_directories(out);
  if (loaded.tokenizer != "bytes") {
    std::filesystem::copy_file(from, out / from.filename(),
                               std::filesystem::copy_options::overwrite_existing);
  }
  if (args.to == "llama") {
    lm::export_llama(*loaded.model, out);
    return 0;
  }
  lm::RoutingOptions routing;
  read_options("", args.overrides, routing);
  if (args.to == "mod") {
    const auto model =
        lm::convert_to_routed(*loaded.model, routing, static_cast<uint64_t>(args.seed));
    lm::save_model(out / "model.safetensors", *model, loaded.tokenizer);
  } else {
    lm::save_model(out / "model.safetensors", *loaded.model, loaded.tokenizer);
  }
  return 0;
}

}  // namespace

void add_lm_convert(CLI::App& lm, Action& chosen) {
  auto* command = lm.add_subcommand("convert", "Models from and to other tools; dense to routed");
  auto args = std::make_shared<ConvertArguments>();
  command->add_option("in", args->in, "A run, a checkpoint, or GPT-2 or Llama weights")->required();
  command->add_option("out", args->out, "Folder to write")->required();
  command
      ->add_option("--to", args->to,
                   "lagom; mod: with new routers, to be trained on; llama: dense models only")
      ->check(CLI::IsMember({"lagom", "mod", "llama"}));
  command->add_option("--set", args->overrides, "Routing of --to mod: capacity=, every=, gate=...");
  command->add_option("--seed", args->seed, "Of new routers");
  command->footer("Example: lagom lm convert gpt2/ out/gpt2 --to lagom");
  command->callback([args, &chosen] { chosen = [args] { return convert(*args); }; });
}

}  // namespace lagom::learn

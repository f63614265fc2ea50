#include <CLI/CLI.hpp>

#include "cli/common.h"
#include "lagom/tensor/threads.h"
#include "lagom/util/error.h"
#include "learn/lm_commands.h"

namespace lagom::learn {

void add_lm(CLI::App& app, Action& chosen) {
  auto* lm = app.add_subcommand("lm", "Mixture-of-Depths language models");
  lm->require_subcommand(1);
  add_lm_train(*lm, chosen);
  add_lm_eval(*lm, chosen);
  add_lm_sample(*lm, chosen);
  add_lm_serve(*lm, chosen);
  add_lm_routes(*lm, chosen);
  add_lm_flops(*lm, chosen);
  add_lm_isoflop(*lm, chosen);
  add_lm_convert(*lm, chosen);
  add_lm_tokenize(*lm, chosen);
}

namespace {

lm::LmData open_text(const lm::LoadedModel& model, const std::string& model_path,
                     const std::string& text_path) {
  lm::DataOptions options;
  options.train = text_path;
  options.validation = text_path;
  options.tokenizer = model.tokenizer;
  if (model.tokenizer != "bytes") {
    options.tokenizer = (lm::checkpoint_path(model_path).parent_path() / model.tokenizer).string();
  }
  return lm::open_data(options, std::filesystem::temp_directory_path());
}

}  // namespace

ModelAndText::ModelAndText(const std::string& model_path, const std::string& text_path)
    : model(lm::load_model(model_path)), data(open_text(model, model_path, text_path)) {}

void DecodeArguments::add_to(CLI::App& command) {
  command.add_option("model", model, "A run's folder or a checkpoint")->required();
  command.add_option("--routing", routing,
                     "How tokens are let into routed blocks: predictor, router, threshold or ema; "
                     "auto takes the predictor where there is one");
  command.add_flag("--hard-cap", hard_cap, "Never let in more than the model's capacity");
  command.add_option("--weights", weights, "float32, bfloat16 or int8");
  command.add_option("--threads", threads, "0: one per CPU");
}

lm::DecoderOptions DecodeArguments::decoder_options(const lm::Model& loaded) const {
  tensor::set_num_threads(threads);
  lm::DecoderOptions options;
  options.hard_cap = hard_cap;
  options.weights = choice_of<lm::WeightFormat>("--weights", weights);
  if (routing == "auto") {
    const bool random = loaded.options().routing.selection != lm::Selection::kLearned &&
                        loaded.options().num_routed() > 0;
    options.routing = loaded.options().routing.predictor ? lm::Routing::kPredictor
                      : random                           ? lm::Routing::kRouter
                                                         : lm::Routing::kThreshold;
  } else {
    options.routing = choice_of<lm::Routing>("--routing", routing);
  }
  return options;
}

std::filesystem::path project_file(const std::string& name) {
  if (std::filesystem::exists(name)) return name;
  const auto path = cli::program_folder().parent_path().parent_path() / name;  // build/bin/..
  if (std::filesystem::exists(path)) return path;
  throw SystemError(name + ": not found here nor beside the build folder");
}

}  // namespace lagom::learn

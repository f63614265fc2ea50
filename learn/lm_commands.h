#pragma once

// `lagom lm ...`: one function per subcommand, as in cli/commands.h.

#include <filesystem>
#include <memory>
#include <string>

#include "lagom/lm/checkpoint.h"
#include "lagom/lm/data.h"
#include "lagom/lm/decoder.h"
#include "learn/commands.h"

namespace lagom::learn {

void add_lm(CLI::App& app, Action& chosen);

void add_lm_train(CLI::App& lm, Action& chosen);
void add_lm_eval(CLI::App& lm, Action& chosen);
void add_lm_sample(CLI::App& lm, Action& chosen);
void add_lm_routes(CLI::App& lm, Action& chosen);
void add_lm_isoflop(CLI::App& lm, Action& chosen);
void add_lm_flops(CLI::App& lm, Action& chosen);
void add_lm_convert(CLI::App& lm, Action& chosen);
void add_lm_serve(CLI::App& lm, Action& chosen);
void add_lm_tokenize(CLI::App& lm, Action& chosen);

/// A model and the text that it is asked about: all of it is `data.validation`.
struct ModelAndText {
  ModelAndText(const std::string& model_path, const std::string& text_path);

  lm::LoadedModel model;
  lm::LmData data;
};

/// Options of the commands that write text with a model.
struct DecodeArguments {
  std::string model, routing = "auto", weights = "float32";
  bool hard_cap = false;
  int threads = 0;

  void add_to(CLI::App& command);
  /// Also sets the number of threads. "auto" routes by the predictor where the model has one, by
  /// calibrated thresholds otherwise.
  lm::DecoderOptions decoder_options(const lm::Model& model) const;
};

/// The option by one of its names. Throws std::invalid_argument listing them.
template <typename Enum>
Enum choice_of(const std::string& option, const std::string& name) {
  const auto names = option_names(Enum{});
  std::string all;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
    all += (i > 0 ? ", " : "") + std::string(names[i]);
  }
  throw std::invalid_argument(option + ": expected one of " + all + ", got '" + name + "'");
}

/// A file or folder of the project: below the working folder, or below the one that holds build/.
std::filesystem::path project_file(const std::string& name);

}  // namespace lagom::learn

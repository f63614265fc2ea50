#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/common.h"
#include "cli/interrupt.h"
#include "lagom/lm/generator.h"
#include "lagom/util/options.h"
#include "learn/lm_commands.h"

namespace lagom::learn {
namespace {

using nlohmann::ordered_json;

struct SampleArguments {
  DecodeArguments decode;
  std::vector<std::string> prompts, overrides;
  int64_t count = 1, num_probable = 0;
  bool json = false, statistics = false;
};

/// A text that is being written.
struct Sample {
  std::string prompt, text, finish_reason;
  ordered_json tokens = ordered_json::array();
};

int sample(const SampleArguments& args) {
  const lm::LoadedModel loaded = lm::load_model(args.decode.model);
  const auto tokenizer =
      lm::open_tokenizer(loaded.tokenizer, lm::checkpoint_path(args.decode.model));
  lm::SampleOptions options;
  read_options("", args.overrides, options);
  lm::Decoder decoder(*loaded.model, args.decode.decoder_options(*loaded.model));
  lm::Generator generator(decoder, *tokenizer);
  const std::vector<std::string> prompts =
      args.prompts.empty() ? std::vector<std::string>{"\n"} : args.prompts;
  std::vector<Sample> samples;
  samples.reserve(prompts.size() * static_cast<size_t>(args.count));
  const bool stream = prompts.size() * static_cast<size_t>(args.count) == 1 && !args.json;
  int64_t written = 0;
  for (const std::string& prompt : prompts) {
    for (int64_t i = 0; i < args.count; ++i) {
      Sample& text = samples.emplace_back(Sample{.prompt = prompt});
      lm::GenerationRequest request;
      request.prompt = tokenizer->encode(prompt);
      request.options = options;
      request.options.seed += std::ssize(samples) - 1;
      request.num_probable = args.num_probable;
      request.on_event = [&](const lm::GenerationEvent& event) {
        text.text += event.text;
        text.finish_reason = event.finish_reason;
        ++written;
        if (stream) {
          std::fputs(event.text.c_str(), stdout);
          std::fflush(stdout);
        }
        if (args.json) {
          ordered_json token = {{"id", event.token},
                                {"text", std::string(tokenizer->token_bytes(event.token))},
                                {"log_probability", event.log_probability},
                                {"route", event.route}};
          for (const auto& other : event.probable) {
            token["probable"].push_back(
                {{"id", other.token}, {"log_probability", other.log_probability}});
          }
          text.tokens.push_back(std::move(token));
        }
        return !cli::interrupted();
      };
      generator.add(std::move(request));
    }
  }
  cli::catch_interrupts();
  if (stream) std::fputs(prompts[0].c_str(), stdout);
  const auto start = std::chrono::steady_clock::now();
  while (generator.step()) {
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (args.json) {
    ordered_json result = ordered_json::array();
    for (Sample& text : samples) {
      result.push_back({{"prompt", text.prompt},
                        {"text", text.text},
                        {"finish_reason", text.finish_reason},
                        {"tokens", std::move(text.tokens)}});
    }
    cli::print_json(result);
  } else if (stream) {
    std::puts("");
  } else {
    for (const Sample& text : samples) {
      std::printf("----\n%s%s\n", text.prompt.c_str(), text.text.c_str());
    }
  }
  if (args.statistics) {
    std::fprintf(stderr, "%lld tokens in %.2f s: %.1f tokens/s\n", static_cast<long long>(written),
                 seconds.count(), static_cast<double>(written) / seconds.count());
  }
  return 0;
}

}  // namespace

void add_lm_sample(CLI::App& lm, Action& chosen) {
  auto* command = lm.add_subcommand("sample", "Write text with a model");
  auto args = std::make_shared<SampleArguments>();
  args->decode.add_to(*command);
  command->add_option("--prompt", args->prompts, "What the text begins with; several make several");
  command->add_option("--count", args->count, "Texts per prompt")->check(CLI::PositiveNumber);
  command->add_option("--set", args->overrides,
                      "temperature=, top_k=, top_p=, min_p=, repetition_penalty=, max_tokens=, "
                      "seed=, stop=[\"...\"], stop_at_end_of_text=");
  command->add_option("--probable", args->num_probable, "List so many most probable tokens (JSON)");
  command->add_flag("--json", args->json, "Tokens, log-probabilities and routes");
  command->add_flag("--statistics", args->statistics, "Tokens per second, on stderr");
  command->footer("Example: lagom lm sample out/lm-demo --prompt 'ROMEO:' --set temperature=0.8");
  command->callback([args, &chosen] { chosen = [args] { return sample(*args); }; });
}

}  // namespace lagom::learn

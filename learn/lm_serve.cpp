#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <thread>

#include "cli/interrupt.h"
#include "lagom/lm/server.h"
#include "learn/lm_commands.h"

namespace lagom::learn {
namespace {

struct ServeArguments {
  DecodeArguments decode;
  lm::ServerOptions server;
};

int serve(const ServeArguments& args) {
  const lm::LoadedModel loaded = lm::load_model(args.decode.model);
  const auto tokenizer =
      lm::open_tokenizer(loaded.tokenizer, lm::checkpoint_path(args.decode.model));
  lm::Decoder decoder(*loaded.model, args.decode.decoder_options(*loaded.model));
  const std::string name = std::filesystem::path(args.decode.model).filename().string();
  lm::Server server(decoder, *tokenizer, name, args.server);
  const int port = server.bind();
  std::fprintf(stderr, "http://%s:%d/\n", args.server.host.c_str(), port);
  cli::catch_interrupts();
  std::jthread watch([&](const std::stop_token& done) {
    while (!done.stop_requested() && !cli::interrupted()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    server.stop();
  });
  server.run();
  return 0;
}

}  // namespace

void add_lm_serve(CLI::App& lm, Action& chosen) {
  auto* command = lm.add_subcommand("serve", "Completions over HTTP, and a page to try them");
  auto args = std::make_shared<ServeArguments>();
  args->decode.add_to(*command);
  command->add_option("--host", args->server.host, "Address to listen on");
  command->add_option("--port", args->server.port, "0: any that is free")
      ->check(CLI::Range(0, 65535));
  command->add_option("--rows", args->server.max_rows, "Texts at the same time")
      ->check(CLI::PositiveNumber);
  command->add_option("--queue", args->server.max_queue, "Requests that may wait")
      ->check(CLI::PositiveNumber);
  command->footer("Example: lagom lm serve out/lm-demo --port 8080");
  command->callback([args, &chosen] { chosen = [args] { return serve(*args); }; });
}

}  // namespace lagom::learn

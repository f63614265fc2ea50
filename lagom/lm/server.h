#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lagom/lm/generator.h"

namespace lagom::lm {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                   ///< 0: any that is free.
  int64_t max_rows = 8;              ///< Texts that are written at the same time.
  int64_t max_queue = 32;            ///< Requests that wait; more are answered 429.
  int64_t max_body_bytes = 1 << 20;  ///< Larger requests are answered 413.
  int timeout_seconds = 20;  ///< For a client to send its request, or to take what it asked for.
};

/// Completions over HTTP: POST /v1/completions as OpenAI's (prompt, max_tokens, temperature, top_p,
/// n, stream, logprobs, stop, seed; also top_k, min_p, repetition_penalty), streamed as server-sent
/// events on request, GET /v1/models, GET /health, and at / a page that shows a text as it streams
/// with the blocks that each token entered. Texts of all requests are decoded together.
class Server {
 public:
  /// All must outlive the server. `name` is the model's in answers.
  Server(Decoder& decoder, const text::Tokenizer& tokenizer, std::string name,
         const ServerOptions& options);
  ~Server();

  /// Takes the port and returns it. Throws SystemError when it cannot be had.
  int bind();
  /// Answers until `stop`, which any thread may call.
  void run();
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The page at /.
extern const char* const kServerPage;

}  // namespace lagom::lm

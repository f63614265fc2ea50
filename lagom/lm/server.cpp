#include "lagom/lm/server.h"

#include <httplib.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "lagom/util/error.h"

namespace lagom::lm {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// An answer other than 200.
struct HttpError : std::runtime_error {
  HttpError(int s, const std::string& what) : std::runtime_error(what), status(s) {}
  int status;
};

std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// What the decoding thread tells the thread that answers a request.
struct Message {
  int64_t index = 0;
  GenerationEvent event;
};

/// A request on its way: messages from the decoding thread, and whether anybody still reads them.
class Channel {
 public:
  void push(Message message) {
    const std::lock_guard lock(mutex_);
    messages_.push_back(std::move(message));
    changed_.notify_one();
  }
  /// Ends the request with an error.
  void fail(const std::string& what) {
    const std::lock_guard lock(mutex_);
    error_ = what;
    changed_.notify_one();
  }
  Message pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !messages_.empty() || !error_.empty(); });
    if (messages_.empty()) throw HttpError(503, error_);
    Message message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }

  std::atomic<bool> abandoned{false};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> messages_;
  std::string error_;
};

/// A request's fields, checked.
struct Completion {
  std::vector<std::vector<int32_t>> prompts;
  SampleOptions options;
  int64_t count = 1;  ///< Texts per prompt.
  int64_t num_probable = 0;
  bool logprobs = false, stream = false;
};

template <typename T>
void take(const json& body, const char* name, T& into) {
  if (!body.contains(name) || body[name].is_null()) return;
  try {
    into = body[name].get<T>();
  } catch (const json::exception&) {
    throw HttpError(400, std::string(name) + ": has the wrong type");
  }
}

Completion parse_completion(const std::string& text, const text::Tokenizer& tokenizer) {
  const json body = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) throw HttpError(400, "the body is no JSON object");
  Completion c;
  const json prompt = body.value("prompt", json(""));
  const auto add = [&](const json& one) {
    if (one.is_string()) {
      c.prompts.push_back(tokenizer.encode(one.get_ref<const std::string&>()));
    } else {
      try {
        c.prompts.push_back(one.get<std::vector<int32_t>>());
      } catch (const json::exception&) {
        throw HttpError(400, "prompt: expected text, token ids, or a list of either");
      }
    }
  };
  const bool is_list = prompt.is_array() && !prompt.empty() && !prompt[0].is_number();
  if (is_list) {
    for (const json& one : prompt) add(one);
  } else {
    add(prompt);
  }
  c.options.max_tokens = 16;
  take(body, "max_tokens", c.options.max_tokens);
  take(body, "temperature", c.options.temperature);
  take(body, "top_p", c.options.top_p);
  take(body, "top_k", c.options.top_k);
  take(body, "min_p", c.options.min_p);
  take(body, "repetition_penalty", c.options.repetition_penalty);
  take(body, "seed", c.options.seed);
  take(body, "stream", c.stream);
  take(body, "n", c.count);
  if (body.contains("stop") && body["stop"].is_string()) {
    c.options.stop = {body["stop"].get<std::string>()};
  } else {
    take(body, "stop", c.options.stop);
  }
  if (body.contains("logprobs") && !body["logprobs"].is_null()) {
    c.logprobs = true;
    take(body, "logprobs", c.num_probable);
  }
  if (c.count < 1 || c.num_probable < 0 || c.num_probable > 20) {
    throw HttpError(400, "n must be above 0, logprobs in [0, 20]");
  }
  try {
    c.options.validate();
  } catch (const std::invalid_argument& error) {
    throw HttpError(400, error.what());
  }
  return c;
}

}  // namespace

class Server::Impl {
 public:
  Impl(Decoder& decoder, const text::Tokenizer& tokenizer, std::string name,
       const ServerOptions& options)
      : decoder_(decoder), tokenizer_(tokenizer), name_(std::move(name)), options_(options) {
    // A thread waits for each request; what goes beyond the queue must still be answered 429.
    const auto threads = static_cast<size_t>(options.max_queue + options.max_rows + 8);
    http_.new_task_queue = [threads] { return new httplib::ThreadPool(threads); };
    http_.set_payload_max_length(static_cast<size_t>(options.max_body_bytes));
    http_.set_read_timeout(options.timeout_seconds);
    http_.set_write_timeout(options.timeout_seconds);
    http_.Get("/", [](const httplib::Request&, httplib::Response& response) {
      response.set_content(kServerPage, "text/html; charset=utf-8");
    });
    http_.Get("/health", [this](const httplib::Request&, httplib::Response& response) {
      const std::lock_guard lock(mutex_);
      respond(response, {{"status", "ok"}, {"waiting", waiting_.size()}, {"active", active_}});
    });
    http_.Get("/v1/models", [this](const httplib::Request&, httplib::Response& response) {
      respond(response, {{"object", "list"}, {"data", {{{"id", name_}, {"object", "model"}}}}});
    });
    http_.Post("/v1/completions",
               [this](const httplib::Request& request, httplib::Response& response) {
                 try {
                   complete(request, response);
                 } catch (const HttpError& error) {
                   respond_error(response, error.status, error.what());
                 }
               });
    http_.set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (response.body.empty()) {
        respond_error(response, response.status, "the request was refused");
      }
    });
  }

  ~Impl() { stop(); }

  int bind() {
    const bool any = options_.port == 0;
    const int port = any ? http_.bind_to_any_port(options_.host)
                     : http_.bind_to_port(options_.host, options_.port) ? options_.port
                                                                        : -1;
    if (port < 0) {
      throw SystemError("cannot listen on " + options_.host + ":" + std::to_string(options_.port));
    }
    return port;
  }

  void run() {
    std::thread decoding([this] { decode(); });
    http_.listen_after_bind();
    stop();
    decoding.join();
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    http_.stop();
  }

 private:
  struct Waiting {
    std::vector<GenerationRequest> texts;
    std::shared_ptr<Channel> channel;
  };

  static void respond(httplib::Response& response, const ordered_json& value) {
    response.set_content(dump(value), "application/json");
  }
  static void respond_error(httplib::Response& response, int status, const std::string& what) {
    response.status = status;
    respond(response, {{"error", {{"message", what}, {"code", status}}}});
  }

  /// Decodes until the server stops: takes what waits as rows come free.
  void decode() {
    Generator generator(decoder_, tokenizer_);
    while (true) {
      {
        std::unique_lock lock(mutex_);
        active_ = generator.num_active();
        changed_.wait(lock, [&] { return stopping_ || !waiting_.empty() || active_ > 0; });
        if (stopping_) break;
        while (!waiting_.empty() && (active_ == 0 || active_ + std::ssize(waiting_.front().texts) <=
                                                         options_.max_rows)) {
          for (GenerationRequest& text : waiting_.front().texts) generator.add(std::move(text));
          waiting_.pop_front();
          active_ = generator.num_active();
        }
      }
      generator.step();
    }
    const std::lock_guard lock(mutex_);
    for (const Waiting& waiting : waiting_) waiting.channel->fail("the server stops");
    for (const auto& channel : channels_) {
      if (const auto open = channel.lock()) open->fail("the server stops");
    }
  }

  void check_prompt(const std::vector<int32_t>& prompt) const {
    const LmOptions& model = decoder_.model_options();
    if (std::ssize(prompt) > model.seq_len) {
      throw HttpError(400, "the prompt has " + std::to_string(prompt.size()) +
                               " tokens, the context " + std::to_string(model.seq_len));
    }
    for (const int32_t token : prompt) {
      if (token < 0 || token >= model.vocab_size) {
        throw HttpError(400, "token " + std::to_string(token) + " is not in the vocabulary");
      }
    }
  }

  void complete(const httplib::Request& request, httplib::Response& response) {
    const auto completion =
        std::make_shared<Completion>(parse_completion(request.body, tokenizer_));
    const int64_t total = std::ssize(completion->prompts) * completion->count;
    if (total > options_.max_rows) {
      throw HttpError(400, std::to_string(total) + " texts in one request, at most " +
                               std::to_string(options_.max_rows));
    }
    Waiting waiting{.channel = std::make_shared<Channel>()};
    int64_t prompt_tokens = 0;
    for (const auto& prompt : completion->prompts) {
      check_prompt(prompt);
      prompt_tokens += std::ssize(prompt);
      for (int64_t i = 0; i < completion->count; ++i) {
        GenerationRequest& text = waiting.texts.emplace_back();
        const auto index = std::ssize(waiting.texts) - 1;
        text.prompt = prompt;
        text.options = completion->options;
        text.options.seed += index;
        text.num_probable = completion->num_probable;
        text.on_event = [channel = waiting.channel, index](const GenerationEvent& event) {
          channel->push({index, event});
          return !channel->abandoned;
        };
      }
    }
    const std::shared_ptr<Channel> channel = waiting.channel;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) throw HttpError(503, "the server stops");
      if (std::ssize(waiting_) >= options_.max_queue) {
        throw HttpError(429, "too many requests are waiting");
      }
      std::erase_if(channels_, [](const auto& other) { return other.expired(); });
      channels_.push_back(channel);
      waiting_.push_back(std::move(waiting));
      changed_.notify_all();
    }
    const std::string id = "cmpl-" + std::to_string(++last_id_);
    if (completion->stream) {
      stream(response, completion, channel, id, total);
    } else {
      collect(response, *completion, *channel, id, total, prompt_tokens);
    }
  }

  ordered_json frame(const std::string& id) const {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return {{"id", id},
            {"object", "text_completion"},
            {"created", std::chrono::duration_cast<std::chrono::seconds>(now).count()},
            {"model", name_}};
  }

  std::string token_text(int32_t token) const { return std::string(tokenizer_.token_bytes(token)); }

  void add_logprobs(const GenerationEvent& event, ordered_json& into) const {
    into["tokens"].push_back(token_text(event.token));
    into["token_logprobs"].push_back(event.log_probability);
    ordered_json top = ordered_json::object();
    for (const auto& other : event.probable) {
      top[dump(token_text(other.token))] = other.log_probability;
    }
    into["top_logprobs"].push_back(std::move(top));
  }

  void collect(httplib::Response& response, const Completion& completion, Channel& channel,
               const std::string& id, int64_t total, int64_t prompt_tokens) const {
    std::vector<ordered_json> choices(static_cast<size_t>(total));
    std::vector<std::string> texts(static_cast<size_t>(total));
    int64_t written = 0;
    for (int64_t open = total; open > 0;) {
      const Message message = channel.pop();
      const auto index = static_cast<size_t>(message.index);
      texts[index] += message.event.text;
      ++written;
      if (completion.logprobs) add_logprobs(message.event, choices[index]["logprobs"]);
      if (message.event.finish_reason.empty()) continue;
      choices[index]["finish_reason"] = message.event.finish_reason;
      --open;
    }
    for (size_t i = 0; i < choices.size(); ++i) {
      choices[i]["index"] = i;
      choices[i]["text"] = texts[i];
    }
    ordered_json answer = frame(id);
    answer["choices"] = choices;
    answer["usage"] = {{"prompt_tokens", prompt_tokens},
                       {"completion_tokens", written},
                       {"total_tokens", prompt_tokens + written}};
    respond(response, answer);
  }

  void stream(httplib::Response& response, const std::shared_ptr<Completion>& completion,
              const std::shared_ptr<Channel>& channel, const std::string& id, int64_t total) const {
    const auto open = std::make_shared<int64_t>(total);
    response.set_chunked_content_provider(
        "text/event-stream",
        [this, completion, channel, id, open](size_t, httplib::DataSink& sink) {
          Message message;
          try {
            message = channel->pop();
          } catch (const HttpError&) {
            return false;
          }
          ordered_json choice = {{"index", message.index},
                                 {"text", message.event.text},
                                 {"token", message.event.token},
                                 {"route", message.event.route},
                                 {"finish_reason", nullptr}};
          if (completion->logprobs) add_logprobs(message.event, choice["logprobs"]);
          if (!message.event.finish_reason.empty()) {
            choice["finish_reason"] = message.event.finish_reason;
            --*open;
          }
          ordered_json answer = frame(id);
          answer["choices"] = ordered_json::array({choice});
          std::string text = "data: " + dump(answer) + "\n\n";
          if (*open == 0) text += "data: [DONE]\n\n";
          if (!sink.write(text.data(), text.size())) return false;
          if (*open == 0) sink.done();
          return true;
        },
        [channel](bool) { channel->abandoned = true; });
  }

  Decoder& decoder_;
  const text::Tokenizer& tokenizer_;
  std::string name_;
  ServerOptions options_;
  httplib::Server http_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  std::vector<std::weak_ptr<Channel>> channels_;
  int64_t active_ = 0;
  bool stopping_ = false;
  std::atomic<int64_t> last_id_{0};
};

Server::Server(Decoder& decoder, const text::Tokenizer& tokenizer, std::string name,
               const ServerOptions& options)
    : impl_(std::make_unique<Impl>(decoder, tokenizer, std::move(name), options)) {}
Server::~Server() = default;

int Server::bind() {
  return impl_->bind();
}
void Server::run() {
  impl_->run();
}
void Server::stop() {
  impl_->stop();
}

}  // namespace lagom::lm

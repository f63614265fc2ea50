#include "lagom/lm/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/lm/reference.h"

namespace lagom::lm {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// A small model behind a port of its own.
class ServerTest : public ::testing::Test {
 protected:
  explicit ServerTest(const ServerOptions& options = {.port = 0})
      : model_(model_options(), 1),
        decoder_((enlarge_weights(model_, 2), model_), DecoderOptions{}),
        server_(decoder_, *tokenizer_, "small", options),
        port_(server_.bind()),
        thread_([this] { server_.run(); }) {}
  ~ServerTest() override {
    server_.stop();
    thread_.join();
  }

  static LmOptions model_options() {
    LmOptions options = small_options();
    options.vocab_size = 256;
    options.seq_len = 400;
    return options;
  }

  httplib::Client client() const {
    httplib::Client client("127.0.0.1", port_);
    client.set_read_timeout(30);
    return client;
  }
  httplib::Result post(const std::string& body) const {
    return client().Post("/v1/completions", body, "application/json");
  }

  std::unique_ptr<text::Tokenizer> tokenizer_ = text::make_byte_tokenizer();
  Model model_;
  Decoder decoder_;
  Server server_;
  int port_;
  std::thread thread_;
};

TEST_F(ServerTest, CompletesAPrompt) {
  const auto answer =
      post(R"({"prompt": "hello", "max_tokens": 5, "seed": 3, "n": 2, "logprobs": 2})");
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->status, 200) << answer->body;
  const json body = json::parse(answer->body);
  ASSERT_EQ(body["choices"].size(), 2U);
  EXPECT_EQ(body["model"], "small");
  EXPECT_EQ(body["usage"]["prompt_tokens"], 5);
  EXPECT_EQ(body["choices"][0]["logprobs"]["top_logprobs"][0].size(), 2U);
  // The second text has the next seed.
  const json again = json::parse(post(R"({"prompt": "hello", "max_tokens": 5, "seed": 4})")->body);
  EXPECT_EQ(again["choices"][0]["text"], body["choices"][1]["text"]);
}

TEST_F(ServerTest, StreamsTheSameText) {
  const std::string request = R"({"prompt": "abc", "max_tokens": 8, "seed": 1)";
  const json whole = json::parse(post(request + "}")->body);
  const auto streamed = post(request + R"(, "stream": true})");
  ASSERT_EQ(streamed->status, 200);
  std::string text, rest = streamed->body;
  int events = 0;
  bool done = false;
  for (size_t at = 0; (at = rest.find("\n\n")) != std::string::npos; rest.erase(0, at + 2)) {
    const std::string data = rest.substr(6, at - 6);
    if (data == "[DONE]") {
      done = true;
      continue;
    }
    const json choice = json::parse(data)["choices"][0];
    text += choice["text"].get<std::string>();
    EXPECT_EQ(choice["route"].size(), 2U);
    ++events;
  }
  EXPECT_TRUE(done);
  EXPECT_EQ(events, whole["usage"]["completion_tokens"]);
  EXPECT_EQ(text, whole["choices"][0]["text"]);
}

TEST_F(ServerTest, BadRequestsAreNamed) {
  const auto expect_refused = [&](const std::string& body, const char* what) {
    const auto answer = post(body);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 400);
    EXPECT_THAT(answer->body, HasSubstr(what));
  };
  expect_refused("{", "no JSON object");
  expect_refused("[1]", "no JSON object");
  expect_refused(R"({"prompt": 3})", "prompt");
  expect_refused(R"({"prompt": "a", "max_tokens": "x"})", "max_tokens");
  expect_refused(R"({"prompt": "a", "temperature": -1})", "temperature");
  expect_refused(R"({"prompt": [300]})", "vocabulary");
  expect_refused(R"({"prompt": "a", "n": 1000})", "at most 8");
  expect_refused(R"({"prompt": ")" + std::string(401, 'x') + "\"}", "the context 400");
  const auto huge = post(R"({"prompt": ")" + std::string(2 << 20, 'x') + "\"}");
  EXPECT_TRUE(!huge || huge->status == 413);
  EXPECT_EQ(client().Get("/nothing")->status, 404);
  EXPECT_EQ(post(R"({"prompt": "a", "max_tokens": 1})")->status, 200);  // still there
}

TEST_F(ServerTest, ServesThePageAndItsState) {
  EXPECT_THAT(client().Get("/")->body, HasSubstr("/v1/completions"));
  EXPECT_EQ(json::parse(client().Get("/health")->body)["status"], "ok");
  EXPECT_EQ(json::parse(client().Get("/v1/models")->body)["data"][0]["id"], "small");
}

class CrowdedServerTest : public ServerTest {
 protected:
  CrowdedServerTest() : ServerTest({.port = 0, .max_rows = 1, .max_queue = 1}) {}
};

TEST_F(CrowdedServerTest, TooManyRequestsAreTurnedAway) {
  // One text is written, one waits; of the others some are refused, and all that are taken end.
  std::vector<std::future<int>> answers;
  for (int i = 0; i < 8; ++i) {
    answers.push_back(std::async(std::launch::async, [this] {
      return post(R"({"prompt": "a", "max_tokens": 300})")->status;
    }));
  }
  int taken = 0, refused = 0;
  for (auto& answer : answers) {
    const int status = answer.get();
    taken += status == 200;
    refused += status == 429;
  }
  EXPECT_EQ(taken + refused, 8);
  EXPECT_GE(taken, 1);
  EXPECT_GE(refused, 1);
}

TEST_F(CrowdedServerTest, AClosedConnectionFreesItsPlace) {
  httplib::Request request;
  request.method = "POST";
  request.path = "/v1/completions";
  request.body = R"({"prompt": "a", "max_tokens": 390, "stream": true})";
  request.set_header("Content-Type", "application/json");
  size_t received = 0;
  request.content_receiver = [&](const char*, size_t size, uint64_t, uint64_t) {
    received += size;
    return false;  // hangs up
  };
  EXPECT_FALSE(client().send(request));
  EXPECT_GT(received, 0U);

  EXPECT_EQ(post(R"({"prompt": "a", "max_tokens": 2})")->status, 200);
}

}  // namespace
}  // namespace lagom::lm

#include "lagom/lm/generator.h"

#include <algorithm>
#include <stdexcept>

namespace lagom::lm {

struct Generator::Text {
  Text(GenerationRequest r, int64_t decoder_row)
      : request(std::move(r)), picker(request.options), row(decoder_row), tokens(request.prompt) {
    next = tokens;
  }

  GenerationRequest request;
  TokenPicker picker;
  int64_t row;
  std::vector<int32_t> tokens;  ///< Prompt and what was written.
  std::vector<int32_t> next;    ///< To be read in the next step.
  std::string held;             ///< Text not shown yet: a part of a character or of a stop string.
  int64_t written = 0;
  bool done = false;
};

namespace {

/// How much of `text` may be shown: not the start of a stop string that may go on, nor a part of a
/// character. With a whole stop string in it, `stopped` is set and what stands before it counts.
size_t showable(const std::string& text, const std::vector<std::string>& stops, bool& stopped) {
  size_t end = text.size();
  for (const std::string& stop : stops) {
    if (const size_t at = text.find(stop); at != std::string::npos) {
      end = stopped ? std::min(end, at) : at;
      stopped = true;
    }
  }
  if (stopped) return end;
  end = text::complete_utf8(text).size();
  for (const std::string& stop : stops) {
    for (size_t length = std::min(stop.size() - 1, text.size()); length > 0; --length) {
      if (text.ends_with(std::string_view(stop).substr(0, length))) {
        end = std::min(end, text.size() - length);
        break;
      }
    }
  }
  return end;
}

}  // namespace

Generator::Generator(Decoder& decoder, const text::Tokenizer& tokenizer)
    : decoder_(decoder), tokenizer_(tokenizer) {}

Generator::~Generator() {
  for (const auto& text : texts_) decoder_.remove_row(text->row);
}

int64_t Generator::num_active() const {
  return std::ssize(texts_);
}

void Generator::add(GenerationRequest request) {
  request.options.validate();
  const LmOptions& model = decoder_.model_options();
  if (request.prompt.empty()) request.prompt = {tokenizer_.end_of_text().value_or(0)};
  if (std::ssize(request.prompt) > model.seq_len) {
    throw std::invalid_argument("the prompt has " + std::to_string(request.prompt.size()) +
                                " tokens, the context " + std::to_string(model.seq_len));
  }
  for (const int32_t token : request.prompt) {
    if (token < 0 || token >= model.vocab_size) {
      throw std::invalid_argument("token " + std::to_string(token) +
                                  " of the prompt is not in the vocabulary of " +
                                  std::to_string(model.vocab_size));
    }
  }
  texts_.push_back(std::make_unique<Text>(std::move(request), decoder_.add_row()));
}

bool Generator::step() {
  if (texts_.empty()) return false;
  std::vector<DecodeInput> inputs;
  for (const auto& text : texts_) inputs.push_back({text->row, text->next});
  const std::span<const float> logits = decoder_.step(inputs);
  const auto vocab = static_cast<size_t>(decoder_.model_options().vocab_size);
  const auto routed = static_cast<size_t>(decoder_.model_options().num_routed());
  size_t read = 0;
  for (size_t i = 0; i < texts_.size(); ++i) {
    read += inputs[i].tokens.size();
    deliver(*texts_[i], logits.subspan(i * vocab, vocab),
            decoder_.routes().subspan((read - 1) * routed, routed));
  }
  std::erase_if(texts_, [&](const std::unique_ptr<Text>& text) {
    if (text->done) decoder_.remove_row(text->row);
    return text->done;
  });
  return !texts_.empty();
}

void Generator::deliver(Text& text, std::span<const float> logits, std::span<const uint8_t> route) {
  const SampleOptions& options = text.request.options;
  GenerationEvent event;
  if (text.written >= options.max_tokens) {  // none was asked for
    event.finish_reason = "length";
    text.done = true;
    text.request.on_event(event);
    return;
  }
  const TokenPicker::Pick pick = text.picker.pick(logits, text.tokens);
  event.token = pick.token;
  event.log_probability = pick.log_probability;
  event.route.assign(route.begin(), route.end());
  if (text.request.num_probable > 0) {
    event.probable = most_probable(logits, text.request.num_probable);
  }
  text.tokens.push_back(pick.token);
  text.next = {pick.token};
  ++text.written;

  bool stopped = false;
  if (options.stop_at_end_of_text && tokenizer_.end_of_text() == pick.token) {
    event.text = std::move(text.held);
    event.finish_reason = "stop";
  } else {
    text.held += tokenizer_.token_bytes(pick.token);
    const bool full = text.written >= options.max_tokens ||
                      std::ssize(text.tokens) > decoder_.model_options().seq_len;
    size_t end = showable(text.held, options.stop, stopped);
    if (full && !stopped) end = text.held.size();
    event.text = text.held.substr(0, end);
    text.held.erase(0, end);
    if (stopped || full) event.finish_reason = stopped ? "stop" : "length";
  }
  const bool goes_on = text.request.on_event(event);
  text.done = !event.finish_reason.empty() || !goes_on;
}

}  // namespace lagom::lm

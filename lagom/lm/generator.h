#pragma once

// Continues texts with a decoder: many at once, each with options of its own, joining and leaving
// between steps.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lagom/lm/decoder.h"
#include "lagom/lm/token_picker.h"
#include "lagom/text/tokenizer.h"

namespace lagom::lm {

/// What happened to a text in one step.
struct GenerationEvent {
  int32_t token = 0;
  double log_probability = 0;
  std::string text;                         ///< What can be shown now: whole characters.
  std::vector<TokenPicker::Pick> probable;  ///< The most probable tokens, if they were asked for.
  std::vector<uint8_t> route;  ///< Which routed blocks the token before this one entered.
  /// "stop" (a stop string or the end of the text), "length" (max_tokens or the context is full);
  /// empty while the text goes on.
  std::string finish_reason;
};

struct GenerationRequest {
  std::vector<int32_t> prompt;  ///< Empty: the end-of-text token.
  SampleOptions options;
  int64_t num_probable = 0;  ///< How many most probable tokens each event lists.
  /// Called for each token; false ends the text (nobody reads on).
  std::function<bool(const GenerationEvent&)> on_event;
};

class Generator {
 public:
  /// Both must outlive it; the decoder is the generator's alone.
  Generator(Decoder& decoder, const text::Tokenizer& tokenizer);
  ~Generator();

  /// Starts a text. Throws std::invalid_argument for options out of range, and for a prompt that
  /// leaves no room in the context or has tokens beyond the model's vocabulary.
  void add(GenerationRequest request);

  int64_t num_active() const;

  /// One step: prompts that were added are read, the others go on by one token, all together.
  /// Returns whether a text is still going on.
  bool step();

 private:
  struct Text;
  Decoder& decoder_;
  const text::Tokenizer& tokenizer_;
  std::vector<std::unique_ptr<Text>> texts_;

  void deliver(Text& text, std::span<const float> logits, std::span<const uint8_t> route);
};

}  // namespace lagom::lm

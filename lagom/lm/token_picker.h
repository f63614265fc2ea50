#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace lagom::lm {

/// How the next token is drawn from the model's distribution; applied in this order.
struct SampleOptions {
  double repetition_penalty = 1;  ///< Logits of tokens seen so far: l / p above 0, l p below.
  double temperature = 1;         ///< 0 takes the most probable token.
  int64_t top_k = 0;              ///< Only the k most probable; 0: all.
  double top_p = 1;               ///< The most probable that together reach p (the nucleus).
  double min_p = 0;               ///< Those of at least min_p times the largest probability.
  int64_t max_tokens = 200;
  std::vector<std::string> stop;  ///< The text ends before the first of these.
  int64_t seed = 0;
  bool stop_at_end_of_text = true;

  /// Throws std::invalid_argument naming the first field that is out of range.
  void validate() const;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("repetition_penalty", self.repetition_penalty);
    visit("temperature", self.temperature);
    visit("top_k", self.top_k);
    visit("top_p", self.top_p);
    visit("min_p", self.min_p);
    visit("max_tokens", self.max_tokens);
    visit("stop", self.stop);
    visit("seed", self.seed);
    visit("stop_at_end_of_text", self.stop_at_end_of_text);
  }
};

/// Draws tokens of one sequence; the same seed and logits give the same tokens.
class TokenPicker {
 public:
  explicit TokenPicker(const SampleOptions& options);

  struct Pick {
    int32_t token = 0;
    double log_probability = 0;  ///< Of the model itself: before penalty, temperature and cuts.
  };
  /// `seen`: tokens of the sequence so far, for the repetition penalty. Ties go to the lower id.
  Pick pick(std::span<const float> logits, std::span<const int32_t> seen);

 private:
  SampleOptions options_;
  std::mt19937_64 random_;
};

/// log softmax(logits)[token]
double log_probability(std::span<const float> logits, int32_t token);

/// The `count` most probable tokens and their log-probabilities, best first.
std::vector<TokenPicker::Pick> most_probable(std::span<const float> logits, int64_t count);

}  // namespace lagom::lm

#pragma once

// Speed against quality without training anew: thresholds that let in more or fewer tokens.

#include <span>
#include <vector>

#include "lagom/lm/evaluation.h"

namespace lagom::lm {

/// What one setting of the thresholds costs and gives.
struct DialPoint {
  double share = 0;              ///< Of tokens that the thresholds were calibrated to let in.
  Evaluation evaluation;         ///< Under these thresholds: causal.
  double tokens_per_second = 0;  ///< Decoding one text token by token.
  int64_t kv_bytes = 0;          ///< Of that text's cache at its end.
  int64_t decoded_tokens = 0;
};

/// For each rate, thresholds calibrated on the first half of the windows to let in `rate` times the
/// capacity (at most every token), judged on the second half. Decoding reads the last window, three
/// times for each rate in turn, float32, and takes the median time. The model's own thresholds are
/// as before afterwards. Throws std::invalid_argument for rates not above 0, models without routed
/// blocks and fewer than two windows.
std::vector<DialPoint> turn_dial(Model& model, const TokenRange& range,
                                 const text::Tokenizer& tokenizer, const EvaluationOptions& options,
                                 std::span<const double> rates);

}  // namespace lagom::lm

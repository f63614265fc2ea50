#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lagom/lm/data.h"
#include "lagom/lm/model.h"

namespace lagom::lm {

/// Decisions of a causal rule against what top-k would choose, summed over tokens.
struct RoutingCounts {
  int64_t true_positive = 0, false_positive = 0, false_negative = 0, true_negative = 0;

  int64_t total() const { return true_positive + false_positive + false_negative + true_negative; }
  double accuracy() const;
  double precision() const;  ///< 0 where nothing was predicted.
  double recall() const;
  double f1() const;
  double realised_rate() const;  ///< Share of tokens that the rule lets in.
  /// Accuracy of always giving the more frequent answer.
  double majority_accuracy() const;

  RoutingCounts& operator+=(const RoutingCounts& other);
};

/// The predictor's answers (logit above 0) against the tokens that were chosen in this pass.
RoutingCounts count_predictions(const RoutedLayer& layer);
/// Likewise of all of a block's experts together.
RoutingCounts count_predictions(const ExpertLayer& layer);

struct Evaluation {
  int64_t tokens = 0;
  double loss = 0;            ///< Mean cross-entropy in nats per token.
  double bits_per_byte = 0;   ///< Of the text that the tokens stand for.
  std::vector<double> rates;  ///< Share of tokens that entered each routed block.
  /// Per routed block, under top-k routing with a predictor; empty otherwise.
  std::vector<RoutingCounts> predictions;
  std::vector<ExpertLoad> experts;                ///< Of each block with experts.
  std::vector<RoutingCounts> expert_predictions;  ///< Likewise, as `predictions`.
};

struct EvaluationOptions {
  Routing routing = Routing::kTopK;
  double capacity = 0;
  bool hard_cap = false;
  int64_t batch = 8;
  int64_t max_windows = 0;  ///< Windows side by side from the start; 0: all.
  bool documents = true;
};

/// Calls `visit` with windows of seq_len tokens side by side, `batch` of them at a time. Throws as
/// evaluate.
void for_each_window_batch(const Model& model, const TokenRange& range,
                           const text::Tokenizer& tokenizer, const EvaluationOptions& options,
                           const std::function<void(const LmBatch&)>& visit);

/// The model on windows of seq_len tokens side by side. Causal rules give the loss of the text as
/// it would be sampled; top-k looks ahead. Throws std::invalid_argument when the range has no whole
/// window.
Evaluation evaluate(const Model& model, const TokenRange& range, const text::Tokenizer& tokenizer,
                    const EvaluationOptions& options);

/// Sets the model's calibrated thresholds on such windows, to route its capacity (or `capacity`) in
/// every block when all of them follow their thresholds, and those of experts that choose to let in
/// the experts' own. One pass per routed block and per block with such experts.
void calibrate_thresholds(Model& model, const TokenRange& range, const text::Tokenizer& tokenizer,
                          const EvaluationOptions& options);

}  // namespace lagom::lm

#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "lagom/lm/block.h"
#include "lagom/lm/experts.h"
#include "lagom/lm/options.h"

namespace lagom::lm {

/// How a parameter is trained.
enum class ParameterGroup {
  kDecay,     ///< Matrices: weight decay.
  kNoDecay,   ///< Norms, biases: none.
  kRouter,    ///< Routers: none, and a learning rate of their own.
  kPredictor  ///< Predictors: as routers, and apart from the clipping of the other gradients.
};

/// Names are a file format: docs/formats.md lists them.
struct NamedTensor {
  std::string name;
  at::Tensor value;
  ParameterGroup group = ParameterGroup::kDecay;
};

/// What one forward pass does beside the model's options.
struct PassOptions {
  Routing routing = Routing::kTopK;
  double capacity = 0;    ///< Share of tokens that enter routed blocks; 0: the model's capacity.
  bool hard_cap = false;  ///< Causal routing only: never more than the capacity (HardCap).
  uint64_t draw = 0;      ///< Seed of random selection; another in each training step.
  /// What tokens are chosen by in place of the routers' weights, which still scale: [B, T] for each
  /// routed block, larger is sooner. Top-k routing only; empty: none.
  std::vector<at::Tensor> selection_scores;
  at::Tensor segments;    ///< int64 [B, T]: document of each token; undefined: one document.
  bool bfloat16 = false;  ///< Linear layers of the blocks round their operands.
  /// Keep only each block's input for the gradient; blocks with experts keep everything.
  bool checkpoint = false;
};

/// What a routed block decided.
struct RoutedLayer {
  int64_t layer = 0;
  at::Tensor scores;            ///< [B, T] router weights, with gradient.
  at::Tensor chosen;            ///< [B, T] bool
  at::Tensor predictor_logits;  ///< [B, T]; undefined without a predictor.
};

struct ForwardResult {
  at::Tensor hidden;  ///< [B, T, D] after the last norm.
  std::vector<RoutedLayer> routed;
  std::vector<ExpertLayer> experts;
};

/// A language model: embedding, dense and routed blocks, norm, head. float32 on the CPU.
class Model {
 public:
  /// Weights are normal(0, 0.02), those that write to the stream divided by sqrt(2 num_layers).
  /// Each tensor is drawn from a generator of its own, seeded by its name: a dense and a routed
  /// model of one seed begin with the same blocks. A predictor begins with the logit of the
  /// capacity. Without a seed the weights are whatever memory holds, for a reader to set.
  /// Throws std::invalid_argument for impossible options.
  Model(const LmOptions& options, std::optional<uint64_t> seed);

  Model(const Model&) = delete;  // checkpointed blocks hold their addresses
  Model& operator=(const Model&) = delete;

  const LmOptions& options() const { return options_; }

  /// tokens: int64 [B, T] in [0, vocab_size), T in [1, seq_len].
  /// Throws c10::ValueError on other shapes, and for thresholds that are not there.
  ForwardResult forward(const at::Tensor& tokens, const PassOptions& pass = {}) const;

  /// [.., D] -> [.., vocab_size]
  at::Tensor logits(const at::Tensor& hidden) const;

  /// In an order that does not change.
  std::vector<NamedTensor> parameters() const;
  int64_t num_parameters() const;

  /// Thresholds of router weights, one per routed block in order; NaN where there is none yet.
  at::Tensor calibrated_thresholds;  ///< [num_routed], set by `calibrate`.
  at::Tensor ema_thresholds;         ///< [num_routed], followed in training.
  /// The same of experts that choose, on their probabilities: [blocks with experts, E]. Undefined
  /// in other models.
  at::Tensor calibrated_expert_thresholds, ema_expert_thresholds;

  /// Moves the running thresholds towards this batch's k-th largest weights (mean over sequences).
  void update_ema_thresholds(const ForwardResult& result, double capacity);

  /// The largest weight with `share` of all tokens' weights at or above it, per routed block:
  /// thresholds that route this share of such text. Experts' let in the experts' own capacity.
  void calibrate(const std::vector<ForwardResult>& results, double share);

  /// What a token's score must exceed to enter under causal routing; for the predictor, its logit.
  /// `index` counts routed blocks. Throws c10::ValueError where the model lacks what is asked for.
  float causal_threshold(Routing routing, int64_t index, double share) const;
  /// The same for each expert of a block that has them, `index` counting such blocks: of
  /// predictors' logits under Routing::kPredictor, of probabilities otherwise. Empty where tokens
  /// choose. Router weights' sign says nothing about experts: Routing::kRouter is refused.
  std::vector<float> expert_thresholds(Routing routing, int64_t index) const;

  const at::Tensor& embedding() const { return embedding_; }
  const at::Tensor& head() const { return options_.tied_head ? embedding_ : head_; }
  const at::Tensor& position_embedding() const { return position_embedding_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  const NormWeights& norm() const { return norm_; }

 private:
  at::Tensor routed_block(const Block& block, int64_t layer, const at::Tensor& x,
                          const PassOptions& pass, ForwardResult& result) const;
  /// The update of a block's tokens x [B, n, D]; flat and present [B * n] are as an ExpertLayer's.
  at::Tensor update(int64_t layer, const at::Tensor& x, const TokenPlaces& places,
                    const at::Tensor& flat, const at::Tensor& present, const PassOptions& pass,
                    ForwardResult& result) const;
  void calibrate_experts(const std::vector<ForwardResult>& results);
  std::vector<std::vector<int64_t>> choose(const RoutedLayer& routed, const at::Tensor& selection,
                                           int64_t index, const PassOptions& pass) const;

  LmOptions options_;
  at::Tensor embedding_;           ///< [V, D]
  at::Tensor position_embedding_;  ///< [seq_len, D]; undefined with rotary positions.
  at::Tensor head_;                ///< [V, D]; undefined when tied.
  std::vector<Block> blocks_;
  NormWeights norm_;
  RotaryTables rotary_;
};

/// What a router weight multiplies the update with. Undefined for Gate::kNone.
at::Tensor apply_gate(Gate gate, const at::Tensor& scores);
float apply_gate(Gate gate, float score);

/// Losses beside the language model's, means over layers and tokens; undefined where the model has
/// no such part. The first two are binary cross-entropies against "top-k chose this token".
struct RoutingLosses {
  at::Tensor predictor;  ///< Of routers' predictors plus that of experts'.
  at::Tensor auxiliary;
  at::Tensor balance;  ///< balance_loss of experts that tokens choose.
};
RoutingLosses routing_losses(const ForwardResult& result, const LmOptions& options);

}  // namespace lagom::lm

#pragma once

// Mixture of experts inside a block: who takes which token, and the experts' products, which are
// grouped by expert so that each expert's matrices meet all of its tokens at once.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "lagom/lm/block.h"
#include "lagom/lm/options.h"
#include "lagom/lm/routing.h"

namespace lagom::lm {

/// What the experts of a block decided about its tokens: M = B n, padding included.
struct ExpertLayer {
  int64_t layer = 0;
  int64_t batch = 0;            ///< B sequences.
  at::Tensor tokens;            ///< int64 [M]: row * T + position in the batch.
  at::Tensor present;           ///< bool [M]: not padding.
  at::Tensor probabilities;     ///< [M, E + E0] the router's softmax, with gradient.
  at::Tensor chosen;            ///< bool [M, E + E0]; no-ops are chosen only by tokens.
  at::Tensor predictor_logits;  ///< [M, E]; undefined without predictors.
};

/// How a pass decides, for experts that choose: exactly the best tokens of a sequence, or those
/// above a threshold each.
struct ExpertRule {
  bool exact = true;
  /// Not exact: what predictors' logits (or with `by_probability` the router's softmax) must
  /// exceed, one for each expert.
  std::span<const float> thresholds;
  bool by_probability = false;
  /// Not exact: at most this share of the tokens so far; 1 never refuses.
  double cap = 1;
};

/// What an expert's output is multiplied with: the softmax, times E + E0 if `scaled`.
inline double expert_scale(const LmOptions& options) {
  return options.experts.scaled ? static_cast<double>(options.expert_choices()) : 1.0;
}

/// The experts that one token takes, from its softmax [E + E0] (token choice): the per_token most
/// probable, the lower of equal ones; ascending. No-ops are those from E on.
std::vector<int64_t> experts_of_token(std::span<const float> probabilities,
                                      const ExpertOptions& options);

/// Limits of a sequence's tokens per expert that hold at every position, E of them.
std::vector<HardCap> expert_caps(const LmOptions& options, const ExpertRule& rule);

/// attended + the experts' update of the tokens. normed: norm(x + a) [B, n, D], float32 or
/// bfloat16; attended: [B, n, D] float32. `decided` comes with layer, tokens and present set, and
/// gets the rest.
at::Tensor add_experts(const at::Tensor& attended, const at::Tensor& normed,
                       const ExpertWeights& weights, const LmOptions& options,
                       const ExpertRule& rule, ExpertLayer& decided);

/// The balance loss of Switch (Fedus et al. 2021, arXiv 2101.03961, Eq. 4) over real experts and
/// no-ops: (E + E0) sum_j f_j P_j, f_j the share of choices, P_j the mean probability; 1 when even.
at::Tensor balance_loss(const ExpertLayer& layer);

/// Tokens that each expert took, and how many tokens there were.
struct ExpertLoad {
  int64_t layer = 0;
  int64_t tokens = 0;
  std::vector<int64_t> taken;  ///< [E + E0]; of no-ops only where tokens choose.
  int64_t untouched = 0;       ///< Tokens that no real expert took.

  ExpertLoad& operator+=(const ExpertLoad& other);
  /// The busiest real expert's tokens over the mean; 1 is even, 0 when none took any.
  double imbalance(int64_t num_experts) const;
};
ExpertLoad count_load(const ExpertLayer& layer, int64_t num_experts);

}  // namespace lagom::lm

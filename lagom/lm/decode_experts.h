#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lagom/lm/decode_matrix.h"
#include "lagom/lm/decoder.h"
#include "lagom/lm/experts.h"
#include "lagom/lm/model.h"

namespace lagom::lm {

/// A token that reached a block's experts.
struct ExpertToken {
  int64_t rank = 0;                      ///< Among its row's tokens in this block.
  std::vector<HardCap>* caps = nullptr;  ///< The row's for this block, one per expert.
  bool of_prompt = false;                ///< As TokenRun.
};

/// What experts compute in, kept from step to step.
struct ExpertScratch {
  std::vector<float> probabilities, logits, inputs, hidden, activated, outputs;
  std::vector<std::vector<int64_t>> taken;  ///< By expert: places of the tokens that it takes.
  std::vector<TokenRun> runs;
};

/// Appends a token to runs that cover the tokens before it.
void append_run(std::vector<TokenRun>& runs, bool of_prompt);

/// The experts of a block in a decoder's format. Routers and predictors stay exact.
class DecodeExperts {
 public:
  DecodeExperts() = default;
  /// index: of the block among those with experts.
  DecodeExperts(const Model& model, const ExpertWeights& weights, int64_t index,
                const DecoderOptions& options);

  /// x [tokens, d] -> y [tokens, d], each token's sum over the experts that take it. No weight of
  /// an expert is read that takes none.
  void operator()(const std::vector<float>& x, std::span<const ExpertToken> tokens,
                  ExpertScratch& scratch, std::vector<float>& y) const;

  /// Of the experts' weights.
  int64_t bytes() const;

 private:
  void find_probabilities(const std::vector<float>& x, int64_t count, ExpertScratch& s) const;
  void predict(const std::vector<float>& x, int64_t count, ExpertScratch& s) const;
  void choose(std::span<const ExpertToken> tokens, ExpertScratch& s) const;

  const LmOptions* options_ = nullptr;
  std::vector<DecodeMatrix> in_, out_;  ///< One per expert.
  DecodeMatrix router_, predictor_in_;
  Linear predictor_out_;           ///< Undefined where nothing is predicted.
  std::vector<float> thresholds_;  ///< One per expert; empty where tokens choose.
};

}  // namespace lagom::lm

#pragma once

#include "lagom/lm/model.h"

namespace lagom::lm {

/// The model once more, slowly: plain ATen operations, every block computed for all tokens, what a
/// routed block does not see masked out of its attention and its update. `chosen` holds for each
/// routed block which tokens enter, bool [B, T], `experts` which experts they meet; every expert is
/// computed for every token. Returns the hidden states [B, T, D].
at::Tensor masked_reference(const Model& model, const at::Tensor& tokens,
                            const std::vector<at::Tensor>& chosen, const at::Tensor& segments = {},
                            const std::vector<ExpertLayer>& experts = {});

/// The same small model with three experts and one no-op in its last three blocks: without depth
/// routing (MoE, or integrated MoDE with the no-op), or staged with it.
LmOptions small_expert_options(ExpertChoice choice, bool staged);

/// A model small enough for exhaustive checks: 4 layers, of which 1 and 3 are routed.
LmOptions small_options();

/// Random tokens, int64 [batch, length].
at::Tensor random_tokens(int64_t batch, int64_t length, int64_t vocab_size, uint64_t seed);

/// Weights larger than at initialisation, so that every part of the model moves the result.
void enlarge_weights(Model& model, uint64_t seed);

/// The largest absolute difference.
double max_difference(const at::Tensor& a, const at::Tensor& b);

}  // namespace lagom::lm

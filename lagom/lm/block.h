#pragma once

#include <ATen/core/Tensor.h>

#include "lagom/lm/options.h"

namespace lagom::lm {

/// A linear layer: x weight^T + bias. weight: [out, in]; bias: [out], undefined without.
struct Linear {
  at::Tensor weight, bias;
  /// In x's dtype: of bfloat16, products round their operands and their result.
  at::Tensor operator()(const at::Tensor& x) const;
};

/// A norm's scale, and for layer norm its shift (undefined for RMS). Both [D].
struct NormWeights {
  at::Tensor weight, bias;
};

/// What a block must know of the tokens that enter it. Both int64 [B, n].
struct TokenPlaces {
  at::Tensor positions;   ///< What rotary embedding turns by.
  at::Tensor segments;    ///< Number of the document; undefined: one document.
  bool bfloat16 = false;  ///< Activations between the norms and the stream are bfloat16.
};

/// Tables of rotary embedding. [positions, head_dim / 2], float32.
struct RotaryTables {
  at::Tensor cosines, sines;
};
RotaryTables make_rotary_tables(int64_t positions, int64_t head_dim, double theta);

/// E experts, each an MLP without biases, and what chooses between them.
struct ExpertWeights {
  at::Tensor router;                   ///< [E + E0, D]: no-ops last.
  at::Tensor in;                       ///< [E, hidden, D]; SwiGLU: [E, 2 hidden, D], gate first.
  at::Tensor out;                      ///< [E, D, hidden]
  Linear predictor_in, predictor_out;  ///< d -> hidden -> E with SiLU between; may be undefined.

  bool defined() const { return router.defined(); }
  /// Logits of each token of x [N, D] for each expert: [N, E]. No gradient reaches x.
  at::Tensor predict(const at::Tensor& x) const;
};

/// A transformer block and, where it is routed, its router and predictor.
struct Block {
  NormWeights attention_norm, mlp_norm;
  Linear qkv;             ///< [(H + 2 K) head_dim, D]: queries, keys, values.
  Linear attention_out;   ///< [D, H head_dim]
  Linear mlp_in;          ///< [hidden, D]; SwiGLU: [2 hidden, D], gate first.
  Linear mlp_out;         ///< [D, hidden]
  ExpertWeights experts;  ///< In the MLP's place, which then is undefined.

  at::Tensor router;                   ///< [D]; undefined: the block is dense.
  Linear predictor_in, predictor_out;  ///< d -> hidden -> 1 with SiLU between; may be undefined.

  /// The block's update a + m of a stream x: a = attention(norm(x)), m = mlp(norm(x + a)); the
  /// block's output is x + update. x: [B, n, D].
  at::Tensor update(const at::Tensor& x, const TokenPlaces& places, const LmOptions& options,
                    const RotaryTables& rotary) const;
  /// Its part a. [B, n, D]
  at::Tensor attend(const at::Tensor& x, const TokenPlaces& places, const LmOptions& options,
                    const RotaryTables& rotary) const;
  /// The same, keeping only x for the gradient, which computes the update once more. The tokens are
  /// chosen before: nothing is selected anew.
  at::Tensor checkpointed_update(const at::Tensor& x, const TokenPlaces& places,
                                 const LmOptions& options, const RotaryTables& rotary) const;

  /// The predictor's logit for each token of x [N, D]: [N]. No gradient reaches x.
  at::Tensor predict(const at::Tensor& x) const;
};

at::Tensor apply_norm(const at::Tensor& x, const NormWeights& norm, const LmOptions& options,
                      bool bfloat16 = false);

}  // namespace lagom::lm

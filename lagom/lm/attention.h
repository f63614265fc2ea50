#pragma once

// What the forms of causal attention share. Private to their sources; ops.h has the operation.

#include "lagom/lm/ops.h"

namespace lagom::lm {

/// c = a b + beta c, row-major; a is [m, k] or, transposed, [k, m], and so on. On this thread
/// inside a parallel region.
void matrix_product(bool a_transposed, bool b_transposed, int64_t m, int64_t n, int64_t k,
                    const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
                    int64_t ldc);

/// First key of each query's document, int64 [B, T]; undefined without documents.
at::Tensor first_keys(const at::Tensor& segments);

/// Rotary embedding of queries and keys in place. x: [B, T, (H + 2 K) head_dim] float32 or
/// bfloat16, contiguous. `inverse` turns back.
void rotate_rows(const at::Tensor& x, const AttentionPlaces& places, bool inverse);

/// causal_attention of bfloat16 with probabilities kept. Operands and results of all products are
/// bfloat16, scores included (their sums are float32); softmax and its gradient run in float32.
at::Tensor bfloat16_attention(const at::Tensor& qkv, const AttentionPlaces& places);

}  // namespace lagom::lm

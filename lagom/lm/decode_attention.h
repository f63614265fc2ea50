#pragma once

#include <cstdint>

namespace lagom::lm {

/// Neighbouring tokens of one sequence and the cache they are already in.
struct CachedQueries {
  const float* queries = nullptr;  ///< [count, heads * head_dim], rows `query_stride` apart.
  int64_t query_stride = 0;
  int64_t count = 0;
  const float *keys = nullptr,
              *values = nullptr;  ///< [first_seen + count - 1, kv_heads * head_dim]
  int64_t first_seen = 0;  ///< Cached tokens that the first query sees; every other sees one more.
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  bool rounded = false;  ///< Factors of products may be rounded to bfloat16.
  float* out = nullptr;  ///< [count, heads * head_dim]
};

/// softmax(q . keys / sqrt(head_dim)) values for every query and head, by matrix products over
/// blocks of queries: for prompts, where each key is seen by many.
void attend_in_blocks(const CachedQueries& q);

}  // namespace lagom::lm

#include "lagom/lm/decode_attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lagom/lm/attention.h"
#include "lagom/lm/decode_kernels.h"
#include "lagom/lm/kernels.h"

namespace lagom::lm {
namespace {

constexpr int64_t kQueryBlock = 64;

/// Queries [first, first + rows), of which the last sees `columns` keys.
struct QueryBlock {
  int64_t first, rows, columns;
};

QueryBlock query_block(const CachedQueries& q, int64_t index) {
  const int64_t first = index * kQueryBlock, rows = std::min(kQueryBlock, q.count - first);
  return {first, rows, q.first_seen + first + rows - 1};
}

/// Scores [rows, columns] to probabilities.
void normalize(const CachedQueries& q, const QueryBlock& block, float* scores) {
  kernels::causal_softmax(scores, block.rows, block.columns, q.first_seen + block.first - 1,
                          nullptr, 1 / std::sqrt(static_cast<float>(q.head_dim)));
}

void attend_exactly(const CachedQueries& q, int64_t head, int64_t index, float* scores) {
  const QueryBlock block = query_block(q, index);
  const int64_t width = q.heads * q.head_dim, kv_width = q.kv_heads * q.head_dim;
  const int64_t kv_column = head / (q.heads / q.kv_heads) * q.head_dim;
  matrix_product(false, true, block.rows, block.columns, q.head_dim,
                 q.queries + block.first * q.query_stride + head * q.head_dim, q.query_stride,
                 q.keys + kv_column, kv_width, 0, scores, block.columns);
  normalize(q, block, scores);
  matrix_product(false, false, block.rows, q.head_dim, block.columns, scores, block.columns,
                 q.values + kv_column, kv_width, 0, q.out + block.first * width + head * q.head_dim,
                 width);
}

/// A key head in bfloat16, and the query heads that it serves.
class RoundedHead {
 public:
  RoundedHead(const CachedQueries& q, int64_t kv_head) : q_(q) {
    const int64_t length = q.first_seen + q.count - 1, d = q.head_dim;
    const int64_t kv_width = q.kv_heads * d, column = kv_head * d;
    rounded_.resize(static_cast<size_t>(length * kernels::rounded_stride(d)));
    kernels::round_tokens(q.keys + column, kv_width, length, d, rounded_.data());
    key_words_ = kernels::words_per_group(WeightFormat::kBfloat16, d);
    keys_.resize(static_cast<size_t>(kernels::num_groups(length) * key_words_));
    kernels::pack_rounded(rounded_.data(), length, d, keys_.data());
    value_words_ = kernels::words_per_group(WeightFormat::kBfloat16, length);
    values_.resize(static_cast<size_t>(kernels::num_groups(d) * value_words_));
    kernels::pack_columns(q.values + column, kv_width, length, d, values_.data());
    scores_.resize(static_cast<size_t>(kQueryBlock * length));
    rounded_.resize(static_cast<size_t>(
        kQueryBlock * std::max(kernels::rounded_stride(length), kernels::rounded_stride(d))));
  }

  void attend(int64_t head, int64_t index) {
    const QueryBlock block = query_block(q_, index);
    const int64_t width = q_.heads * q_.head_dim;
    kernels::round_tokens(q_.queries + block.first * q_.query_stride + head * q_.head_dim,
                          q_.query_stride, block.rows, q_.head_dim, rounded_.data());
    kernels::multiply_rounded({.words = keys_.data(),
                               .group_words = key_words_,
                               .x = rounded_.data(),
                               .x_stride = kernels::rounded_stride(q_.head_dim),
                               .count = block.rows,
                               .in = q_.head_dim,
                               .out = block.columns,
                               .y = scores_.data(),
                               .y_stride = block.columns},
                              0, kernels::num_groups(block.columns));
    normalize(q_, block, scores_.data());
    kernels::round_tokens(scores_.data(), block.columns, block.rows, block.columns,
                          rounded_.data());
    kernels::multiply_rounded({.words = values_.data(),
                               .group_words = value_words_,
                               .x = rounded_.data(),
                               .x_stride = kernels::rounded_stride(block.columns),
                               .count = block.rows,
                               .in = block.columns,
                               .out = q_.head_dim,
                               .y = q_.out + block.first * width + head * q_.head_dim,
                               .y_stride = width},
                              0, kernels::num_groups(q_.head_dim));
  }

 private:
  const CachedQueries& q_;
  int64_t key_words_ = 0, value_words_ = 0;
  std::vector<uint32_t> keys_, values_, rounded_;
  std::vector<float> scores_;
};

}  // namespace

void attend_in_blocks(const CachedQueries& q) {
  const int64_t blocks = (q.count + kQueryBlock - 1) / kQueryBlock, group = q.heads / q.kv_heads;
  if (q.rounded && kernels::has_rounded_products()) {
    at::parallel_for(0, q.kv_heads, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
      for (int64_t kv_head = begin; kv_head < end; ++kv_head) {
        RoundedHead keys(q, kv_head);
        for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
          for (int64_t index = 0; index < blocks; ++index) keys.attend(head, index);
        }
      }
    });
    return;
  }
  const int64_t longest = q.first_seen + q.count - 1;
  at::parallel_for(0, q.heads * blocks, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
    std::vector<float> scores(static_cast<size_t>(std::min(kQueryBlock, q.count) * longest));
    for (int64_t task = begin; task < end; ++task) {
      attend_exactly(q, task / blocks, task % blocks, scores.data());
    }
  });
}

}  // namespace lagom::lm

#pragma once

// What a model costs, exactly: a multiply-add counts 2. Products count; embedding lookups, norms,
// softmax, rotary embedding, top-k, gathers and scatters do not.

#include <cstdint>
#include <string>
#include <vector>

#include "lagom/lm/options.h"

namespace lagom::lm {

/// How attention is counted.
enum class AttentionCount {
  kSquare,  ///< 4 n^2 d: every query with every key, as the paper counts and as it is computed.
  kCausal   ///< 2 n (n + 1) d: the pairs that a causal mask leaves.
};

/// One kind of product of one block, or of the head (layer -1).
struct FlopRow {
  int64_t layer = 0;
  std::string name;      ///< qkv, attention, attention_out, mlp, router, predictor, head;
                         ///< experts, expert_router, expert_predictor
  int64_t forward = 0;   ///< Per sequence.
  int64_t training = 0;  ///< Forward and backward.
};

struct FlopTable {
  int64_t length = 0;  ///< Tokens of the sequence.
  std::vector<FlopRow> rows;
  int64_t forward = 0, training = 0;  ///< Sums, per sequence.
  double forward_per_token() const {
    return static_cast<double>(forward) / static_cast<double>(length);
  }
  double training_per_token() const {
    return static_cast<double>(training) / static_cast<double>(length);
  }
};

/// The products of one sequence. Training is three times the forward pass; the predictor's first
/// layer, whose input gets no gradient, two times. Where tokens choose experts, no-ops take their
/// even share of the choices.
/// Throws std::invalid_argument for a length outside [1, seq_len].
FlopTable count_flops(const LmOptions& options, int64_t length,
                      AttentionCount attention = AttentionCount::kSquare);

/// FLOPs of decoding the token at position `position` with a KV cache when a share `rate` of the
/// tokens so far and of this one entered each routed block: an expectation, hence no whole number.
double decode_flops(const LmOptions& options, int64_t position, double rate);

/// Numbers in a model's parameters: what Model::num_parameters counts, without making it.
int64_t count_parameters(const LmOptions& options);

/// Bytes of keys and values after `length` tokens of which `routed` entered each routed block.
int64_t kv_bytes(const LmOptions& options, int64_t length, int64_t routed,
                 int64_t bytes_per_value = 4);

}  // namespace lagom::lm

#pragma once

// A model that reads and writes text token by token: keys and values are kept, routed blocks keep
// and see only the tokens that entered them, and no autograd or dispatcher stands in the way.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lagom/lm/decode_kernels.h"
#include "lagom/lm/model.h"

namespace lagom::lm {

struct DecoderOptions {
  /// The causal rule by which tokens enter routed blocks, while reading a prompt as while writing.
  Routing routing = Routing::kPredictor;
  double capacity = 0;    ///< Share for the hard cap and random controls; 0: the model's.
  bool hard_cap = false;  ///< Never more than that share.
  WeightFormat weights = WeightFormat::kFloat32;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("routing", self.routing);
    visit("capacity", self.capacity);
    visit("hard_cap", self.hard_cap);
    visit("weights", self.weights);
  }
};

/// Tokens that one sequence reads in a step.
struct DecodeInput {
  int64_t row = 0;
  std::span<const int32_t> tokens;  ///< At least one.
};

/// Sequences, called rows, each with a KV cache of its own: a step may advance any of them by any
/// number of tokens, and what a row gives does not depend on the others. float32 arithmetic, but
/// for inputs of 16 tokens or more with bfloat16 weights: where the machine has AVX512_BF16,
/// factors of their products are rounded to bfloat16 as in training.
class Decoder {
 public:
  /// Shares float32 weights with the model, which must not change meanwhile; copies others.
  /// Throws std::invalid_argument for top-k routing, which is not causal, and c10::ValueError for a
  /// rule that the model cannot follow.
  Decoder(const Model& model, const DecoderOptions& options);
  ~Decoder();

  const LmOptions& model_options() const;

  int64_t add_row();                  ///< An empty sequence; rows that were removed are used again.
  void remove_row(int64_t row);       ///< Gives its cache back.
  int64_t length(int64_t row) const;  ///< Tokens read.

  /// Reads tokens and gives the logits after the last one of each input, [inputs, V] row-major,
  /// valid until the next step. With `all_logits` those after every token, in the inputs' order.
  /// Each row at most once. Throws c10::ValueError for a token beyond the vocabulary and a sequence
  /// that would grow past seq_len; nothing has been read then.
  std::span<const float> step(std::span<const DecodeInput> inputs, bool all_logits = false);

  /// Which routed blocks the tokens of the last step entered: [tokens, num_routed], 0 or 1.
  std::span<const uint8_t> routes() const;

  /// Bytes of keys and values that a row holds: 2 d_kv 4 per token and block it entered.
  int64_t kv_bytes(int64_t row) const;
  /// Tokens in the cache of each block.
  std::vector<int64_t> cached_tokens(int64_t row) const;
  /// Bytes of the matrices that are read for a token that enters every block.
  int64_t weight_bytes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lagom::lm

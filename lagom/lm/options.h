#pragma once

// What a language model is made of. One set of options drives the model, the FLOP counter, the
// sampler and the checkpoint.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace lagom::lm {

/// What a routed token's update is multiplied with, from its router weight r.
enum class Gate {
  kRaw,            ///< r, as the paper's Eq. 1 writes it.
  kSigmoid,        ///< sigmoid(r)
  kDoubleSigmoid,  ///< 2 sigmoid(r): 1 at r = 0, bounded.
  kTanh,           ///< tanh(r)
  kNone            ///< 1: the router gets no gradient from the language model's loss.
};
std::span<const std::string_view> option_names(Gate);

/// Which positions rotary embedding sees inside a routed block.
enum class RoutedPositions {
  kOriginal,  ///< The tokens' positions in the sequence.
  kRank       ///< 0 .. k-1 among the routed tokens: a token's place in the layer's KV cache.
};
std::span<const std::string_view> option_names(RoutedPositions);

/// Which tokens a routed block takes; the last two are controls.
enum class Selection {
  kLearned,  ///< Those of the largest router weights.
  kRandom,   ///< Random ones, whose updates the learned gate scales.
  kGaussian  ///< Selection and gate both from weights drawn from a normal distribution.
};
std::span<const std::string_view> option_names(Selection);

/// How a forward pass decides which tokens a routed block takes.
enum class Routing {
  kTopK,       ///< Exactly k per sequence, by expert choice: looks at the whole sequence.
  kPredictor,  ///< Causal: the predictor's logit is above 0.
  kRouter,     ///< Causal: the router weight is above 0 (needs the auxiliary loss).
  kThreshold,  ///< Causal: the router weight is above the layer's calibrated threshold.
  kEma         ///< Causal: ... above the running mean of the k-th largest weights in training.
};
std::span<const std::string_view> option_names(Routing);

enum class Norm { kRms, kLayer };
std::span<const std::string_view> option_names(Norm);
enum class Activation { kGelu, kSwiglu };
std::span<const std::string_view> option_names(Activation);
enum class Positions { kRotary, kLearned };
std::span<const std::string_view> option_names(Positions);

/// Mixture-of-Depths (Raposo et al. 2024, arXiv 2404.02258). What the paper leaves open is an
/// option here; its literal form is gate = "raw".
struct RoutingOptions {
  int64_t every = 2;   ///< Each `every`-th block is routed; 0: none, a dense model.
  int64_t offset = 1;  ///< The first routed block, counted from 0.
  /// The last block takes all tokens, whatever `every` and `offset` say.
  bool keep_last_dense = false;
  double capacity = 0.125;      ///< Share of the sequence that enters a routed block, in (0, 1].
  int64_t capacity_tokens = 0;  ///< The same as a count; above 0 it takes the share's place.
  Gate gate = Gate::kDoubleSigmoid;
  RoutedPositions positions = RoutedPositions::kOriginal;
  Selection selection = Selection::kLearned;
  /// Weight of the binary cross-entropy that pulls router weights of chosen tokens above 0 and the
  /// others' below (causal sampling by the router's sign); 0: none. It changes the trunk.
  double aux_weight = 0;
  /// A small network d -> hidden -> 1 beside each router that learns which tokens top-k will take.
  /// No gradient of it reaches the trunk.
  bool predictor = true;
  int64_t predictor_hidden = 0;  ///< 0: half of d_model.
  double ema_decay = 0.99;       ///< Of the running threshold, per training step.

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("every", self.every);
    visit("offset", self.offset);
    visit("keep_last_dense", self.keep_last_dense);
    visit("capacity", self.capacity);
    visit("capacity_tokens", self.capacity_tokens);
    visit("gate", self.gate);
    visit("positions", self.positions);
    visit("selection", self.selection);
    visit("aux_weight", self.aux_weight);
    visit("predictor", self.predictor);
    visit("predictor_hidden", self.predictor_hidden);
    visit("ema_decay", self.ema_decay);
  }
};

/// Who chooses between tokens and experts.
enum class ExpertChoice {
  kExpert,  ///< Each expert takes its best tokens of a sequence (Zhou et al. 2022, arXiv
            ///< 2202.09368): the load is even, but the choice looks ahead.
  kToken    ///< Each token takes its best experts: causal; a loss keeps the load even.
};
std::span<const std::string_view> option_names(ExpertChoice);

/// Experts in the place of some blocks' MLP. What Raposo et al. call
///   MoE              experts in blocks that take all tokens, no_ops = 0
///   staged MoDE      experts in routed blocks: tokens go around the block or meet its experts
///   integrated MoDE  no_ops > 0 in blocks that take all tokens
/// A token's update is the sum of its experts' outputs, each scaled by the router's softmax.
struct ExpertOptions {
  int64_t count = 0;   ///< Experts E of a block; 0: MLPs everywhere.
  int64_t no_ops = 0;  ///< Further choices E0 that cost nothing and change nothing.
  int64_t every = 1;   ///< Each `every`-th block has experts ...
  int64_t offset = 0;  ///< ... from this one on, counted from 0.
  ExpertChoice choice = ExpertChoice::kExpert;
  /// Expert choice: of n tokens an expert takes ceil(capacity * n / (E + E0)).
  double capacity = 1;
  int64_t per_token = 1;  ///< Token choice: how many of the E + E0 a token takes.
  /// Token choice: of the first t tokens an expert takes at most ceil(token_cap * per_token * t /
  /// (E + E0)), in training as in decoding; 0: all that choose it.
  double token_cap = 0;
  /// Token choice: weight of the balance loss, (E + E0) sum_j share_j * mean probability_j.
  double balance_weight = 0.01;
  /// The softmax is multiplied by E + E0: an expert's scale is 1 where the router does not care.
  bool scaled = true;
  int64_t d_expert = 0;  ///< Hidden width of an expert; 0: the MLP's.

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("count", self.count);
    visit("no_ops", self.no_ops);
    visit("every", self.every);
    visit("offset", self.offset);
    visit("choice", self.choice);
    visit("capacity", self.capacity);
    visit("per_token", self.per_token);
    visit("token_cap", self.token_cap);
    visit("balance_weight", self.balance_weight);
    visit("scaled", self.scaled);
    visit("d_expert", self.d_expert);
  }
};

/// A decoder-only transformer: pre-norm blocks of attention and MLP on a residual stream.
struct LmOptions {
  int64_t vocab_size = 256;
  int64_t seq_len = 256;  ///< Longest sequence: positions 0 .. seq_len - 1.
  int64_t d_model = 256;  ///< Width D of the residual stream.
  int64_t num_layers = 6;
  int64_t num_heads = 4;     ///< Heads H of queries; head_dim = d_model / num_heads, even.
  int64_t num_kv_heads = 0;  ///< Heads of keys and values, a divisor of num_heads; 0: num_heads.
  int64_t d_mlp = 0;         ///< Hidden width; 0: 4 d_model (GELU), 8/3 d_model up to 32 (SwiGLU).
  Activation activation = Activation::kGelu;  ///< GELU is its tanh form.
  Norm norm = Norm::kRms;
  double norm_epsilon = 1e-5;
  Positions positions = Positions::kRotary;
  double rope_theta = 10000;
  bool bias = false;  ///< Linear layers of the blocks have biases.
  bool tied_head = true;
  RoutingOptions routing;
  ExpertOptions experts;

  int64_t head_dim() const { return d_model / num_heads; }
  int64_t kv_heads() const { return num_kv_heads > 0 ? num_kv_heads : num_heads; }
  int64_t d_kv() const { return kv_heads() * head_dim(); }  ///< Width of keys and of values.
  int64_t mlp_hidden() const;
  int64_t predictor_hidden() const;
  bool is_routed(int64_t layer) const;
  int64_t num_routed() const;
  /// Tokens k of a sequence of `length` that a routed block takes: ceil(capacity * length), or the
  /// count, within [1, length]. A `share` above 0 takes the capacity's place.
  int64_t routed_tokens(int64_t length, double share = 0) const;
  /// The share that enters, of sequences of seq_len.
  double routed_share() const;

  bool has_experts(int64_t layer) const;
  int64_t num_expert_blocks() const;
  /// Of a block that has experts, among those that have.
  int64_t expert_block_index(int64_t layer) const;
  int64_t expert_choices() const { return experts.count + experts.no_ops; }  ///< E + E0
  int64_t expert_hidden() const;
  /// Experts have predictors: they choose, and routing.predictor is set.
  bool has_expert_predictor() const;
  /// Expert choice: tokens that an expert takes of n in its block, within [1, n].
  int64_t expert_tokens(int64_t n) const;
  /// What an expert takes of the tokens in its block, of sequences of seq_len: at most 1.
  double expert_share(int64_t layer) const;
  /// Tokens of a sequence of `length` that are in a block.
  int64_t block_tokens(int64_t layer, int64_t length) const;

  /// Throws std::invalid_argument naming the first field that is out of range.
  void validate() const;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("vocab_size", self.vocab_size);
    visit("seq_len", self.seq_len);
    visit("d_model", self.d_model);
    visit("num_layers", self.num_layers);
    visit("num_heads", self.num_heads);
    visit("num_kv_heads", self.num_kv_heads);
    visit("d_mlp", self.d_mlp);
    visit("activation", self.activation);
    visit("norm", self.norm);
    visit("norm_epsilon", self.norm_epsilon);
    visit("positions", self.positions);
    visit("rope_theta", self.rope_theta);
    visit("bias", self.bias);
    visit("tied_head", self.tied_head);
    visit("routing", self.routing);
    visit("experts", self.experts);
  }

 private:
  void validate_experts() const;
};

}  // namespace lagom::lm

#pragma once

// What the routers of a model learned: which tokens enter which blocks, and whether that is more
// than their position or their identity.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/lm/evaluation.h"
#include "lagom/util/statistics.h"

namespace lagom::lm {

/// What routers decided on a text, token by token, window after window.
struct RouteTable {
  /// One routed block.
  struct Layer {
    int64_t layer = 0;  ///< Of all blocks, counted from 0.
    /// The experts of a block that takes all tokens: a token entered if one of them took it, and
    /// its weight is what the softmax gives all real experts.
    bool experts = false;
    std::vector<float> scores;       ///< [N] router weights.
    std::vector<uint8_t> chosen;     ///< [N] whether the token entered.
    std::vector<uint8_t> predicted;  ///< [N] the predictor's answer; empty without one.
  };

  /// What the experts of one block took, inside a routed block too.
  struct Experts {
    int64_t layer = 0, count = 0;  ///< The block and its experts E, no-ops not among them.
    std::vector<int64_t> places;   ///< [M] in the table: tokens that reached the experts.
    std::vector<uint8_t> taken;    ///< [M, E]
  };

  int64_t length = 0;  ///< Tokens T of a window; N is a multiple.
  std::vector<int32_t> tokens;
  std::vector<double> entropy;   ///< [N] nats: of the distribution of the next token.
  std::vector<double> loss;      ///< [N] nats: of the next token.
  std::vector<Layer> layers;     ///< Routed blocks in order, then experts.
  std::vector<Experts> experts;  ///< Of all blocks that have them, in order.

  int64_t size() const { return std::ssize(tokens); }
  int64_t num_windows() const { return length > 0 ? size() / length : 0; }
};

/// Runs the model over windows of the text: its routed blocks, then its experts that may pass
/// tokens by. Throws std::invalid_argument for a model with neither, and as evaluate.
RouteTable record_routes(const Model& model, const TokenRange& range,
                         const text::Tokenizer& tokenizer, const EvaluationOptions& options);

/// What a token is, by its bytes and the byte before it.
enum class TokenClass { kNewline, kSpace, kWordStart, kInWord, kDigit, kPunctuation, kOther };
inline constexpr size_t kNumTokenClasses = 7;
std::string_view token_class_name(TokenClass token_class);
/// The first byte that is no space decides ("Ġthe" of a tokenizer starts a word); of nothing but
/// spaces, a newline among them does. Letters are ASCII's; other bytes above 127 are `kOther`.
TokenClass token_class(std::string_view bytes, char previous);

/// Router weights of one block in equal bins from `low` to `high`.
struct WeightHistogram {
  double low = 0, high = 0;
  std::vector<int64_t> chosen, others;
};

struct LayerRoutes {
  int64_t layer = 0;
  bool experts = false;  ///< As RouteTable::Layer's.
  double rate = 0;       ///< Share of all tokens that entered.
  WeightHistogram weights;
  /// The smallest weight that entered, window by window: how well a fixed threshold would do.
  double threshold_mean = 0, threshold_deviation = 0, threshold_low = 0, threshold_high = 0;
  std::vector<double> rate_by_position;  ///< In tenths of the window.
  std::vector<double> rate_by_class;     ///< By TokenClass; NaN where there is no such token.
  RoutingCounts predictor;     ///< Against what entered; of no tokens without a predictor.
  Correlation weight_entropy;  ///< Router weight with predictive entropy.
};

/// One expert's share of the tokens that reached its block.
struct ExpertRoutes {
  int64_t layer = 0, expert = 0;
  double rate = 0;
  std::vector<double> rate_by_class;  ///< By TokenClass; NaN where no such token reached the block.
};

/// Tokens that share something, and how many routed blocks they entered.
struct TokenGroup {
  std::string name;
  int64_t count = 0;
  double blocks = 0, entropy = 0, loss = 0;  ///< Means.
};

struct RouteAnalysis {
  int64_t tokens = 0, windows = 0;
  std::vector<LayerRoutes> layers;
  std::vector<ExpertRoutes> experts;         ///< Block by block.
  std::vector<int64_t> blocks_per_token;     ///< [R + 1] tokens that entered 0 .. R routed blocks.
  std::vector<double> independent_blocks;    ///< [R + 1] their share, were the blocks independent.
  std::vector<std::vector<double>> overlap;  ///< [i][j]: share of i's tokens that entered j too.
  Correlation blocks_entropy, blocks_loss;   ///< Routed blocks entered with entropy and loss.
  std::vector<TokenGroup> classes;           ///< By TokenClass.
  std::vector<TokenGroup> most, least;       ///< Token ids by mean blocks, of those seen often.
};

/// Intervals are bootstraps over windows. Throws std::invalid_argument for an empty table.
RouteAnalysis analyze_routes(const RouteTable& table, const text::Tokenizer& tokenizer);

/// How a router that knows little does in place of the learned one.
struct RouteControl {
  std::string name;
  double loss = 0;     ///< Nats per token when blocks take what the control chooses.
  double overlap = 0;  ///< Share of its choices that the learned router makes too.
};

/// Routers that choose the tokens which the learned ones took most often by position, by token, by
/// both (their log-odds added), and at random, next to the learned ones. Each takes the same number
/// of tokens of each window and leaves the update's scale to the router. Shares are learned on the
/// first half of the windows and everything is judged on the second. `table` must come from top-k
/// routing of the same text with the same options; throws std::invalid_argument for fewer than two
/// windows, for another rule and for a model without routed blocks.
std::vector<RouteControl> route_controls(const Model& model, const TokenRange& range,
                                         const text::Tokenizer& tokenizer,
                                         const EvaluationOptions& options, const RouteTable& table);

}  // namespace lagom::lm

#pragma once

// Which tokens of a sequence enter a routed block: decisions on plain arrays of scores, one
// sequence at a time.

#include <cstdint>
#include <span>
#include <vector>

namespace lagom::lm {

/// The k largest scores' positions, ascending. Of equal scores the lower position enters; NaN is
/// below everything. k within [0, scores.size()].
std::vector<int64_t> top_k_positions(std::span<const float> scores, int64_t k);

/// The k-th largest score: what a token of top_k_positions reaches. k within [1, scores.size()].
float top_k_threshold(std::span<const float> scores, int64_t k);

/// A token bucket for causal decisions: after token t at most ceil(share * (t + 1)) have entered,
/// so that the worst case of compute and memory is the capacity's.
class HardCap {
 public:
  /// A share of 1 or more never refuses.
  explicit HardCap(double share, int64_t entered = 0) : share_(share), entered_(entered) {}
  /// Whether the token at this position may enter, when it wants to; counts those that do.
  bool admit(bool wants, int64_t position);
  int64_t entered() const { return entered_; }

 private:
  double share_;
  int64_t entered_;
};

/// Scores that depend on nothing but these numbers, for the controls of random routing: the same
/// token at the same place gets the same draw while decoding as in one forward pass.
/// Standard normal.
float random_score(uint64_t draw, int64_t layer, int64_t row, int64_t position);

}  // namespace lagom::lm

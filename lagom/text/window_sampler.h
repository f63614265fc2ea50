#pragma once

#include <cstdint>

namespace lagom::text {

/// The order in which windows of a corpus are trained on: each epoch cuts the corpus into windows
/// at another phase and visits every one of them once, in an order that depends on the seed alone.
/// The whole state is the cursor: nothing is stored per window.
class WindowSampler {
 public:
  /// Windows of `length` inputs, which need `length` + 1 tokens.
  /// Throws std::invalid_argument when the corpus is shorter than that.
  WindowSampler(int64_t num_tokens, int64_t length, uint64_t seed);

  /// Windows in an epoch.
  int64_t windows_per_epoch() const { return count_; }
  /// First token of window number `cursor` = 0, 1, 2, ...
  int64_t begin_of(int64_t cursor) const;
  /// The next window's; moves the cursor on.
  int64_t next() { return begin_of(cursor_++); }

  int64_t cursor() const { return cursor_; }
  void set_cursor(int64_t cursor) { cursor_ = cursor; }

 private:
  int64_t num_tokens_, length_, count_;
  uint64_t seed_;
  int64_t cursor_ = 0;
};

/// A permutation of 0 .. count-1 without a table: a Feistel network over the next power of four,
/// walked until it lands below `count`.
int64_t permuted(int64_t index, int64_t count, uint64_t seed);

}  // namespace lagom::text

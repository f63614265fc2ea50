#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lagom/lm/block.h"

/// What a decoder does to each token by itself, on all threads where there are many.
namespace lagom::lm {

/// body(begin, end) for parts of `count` rows of `width` values that are worth a thread.
template <typename Body>
void for_rows(int64_t count, int64_t width, Body&& body) {
  at::parallel_for(0, count, std::max<int64_t>(1, 16384 / width), body);
}

/// x [rows, d] -> y [rows, d], the options' norm.
void normalize(const LmOptions& options, const std::vector<float>& x, const NormWeights& norm,
               std::vector<float>& y);

/// The options' activation: hidden [count, width], or [count, 2 width] for SwiGLU -> y
/// [count, width].
void activate(const LmOptions& options, const std::vector<float>& hidden, int64_t count,
              int64_t width, std::vector<float>& y);

}  // namespace lagom::lm

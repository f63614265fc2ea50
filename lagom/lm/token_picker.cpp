#include "lagom/lm/token_picker.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace lagom::lm {
namespace {

void require(bool ok, const char* what) {
  if (!ok) throw std::invalid_argument(std::string("sampling: ") + what);
}

double log_of_sum(std::span<const float> logits) {
  const float peak = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - peak);
  return std::log(sum) + peak;
}

}  // namespace

void SampleOptions::validate() const {
  require(repetition_penalty > 0, "repetition_penalty must be above 0");
  require(temperature >= 0, "temperature must not be negative");
  require(top_k >= 0, "top_k must not be negative");
  require(top_p > 0 && top_p <= 1, "top_p must be in (0, 1]");
  require(min_p >= 0 && min_p <= 1, "min_p must be in [0, 1]");
  require(max_tokens >= 0, "max_tokens must not be negative");
  for (const std::string& text : stop) require(!text.empty(), "a stop string must not be empty");
}

TokenPicker::TokenPicker(const SampleOptions& options)
    : options_(options), random_(static_cast<uint64_t>(options.seed)) {
  options_.validate();
}

TokenPicker::Pick TokenPicker::pick(std::span<const float> logits, std::span<const int32_t> seen) {
  std::vector<double> scores(logits.begin(), logits.end());
  if (options_.repetition_penalty != 1) {
    std::vector<int32_t> once(seen.begin(), seen.end());
    std::sort(once.begin(), once.end());
    once.erase(std::unique(once.begin(), once.end()), once.end());
    for (const int32_t token : once) {
      double& score = scores.at(static_cast<size_t>(token));
      score = score > 0 ? score / options_.repetition_penalty : score * options_.repetition_penalty;
    }
  }
  if (options_.temperature == 0) {
    const auto best = std::max_element(scores.begin(), scores.end());
    const auto token = static_cast<int32_t>(best - scores.begin());
    return {token, log_probability(logits, token)};
  }
  std::vector<int32_t> tokens(scores.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const bool cuts = options_.top_k > 0 || options_.top_p < 1;
  if (cuts) {
    const auto before = [&](int32_t a, int32_t b) {
      const double x = scores[static_cast<size_t>(a)], y = scores[static_cast<size_t>(b)];
      return x != y ? x > y : a < b;
    };
    if (options_.top_k > 0 && options_.top_k < std::ssize(tokens)) {
      std::nth_element(tokens.begin(), tokens.begin() + options_.top_k, tokens.end(), before);
      tokens.resize(static_cast<size_t>(options_.top_k));
    }
    std::sort(tokens.begin(), tokens.end(), before);
  }
  double peak = -INFINITY;
  for (const int32_t token : tokens) peak = std::max(peak, scores[static_cast<size_t>(token)]);
  std::vector<double> weights;
  double total = 0;
  for (const int32_t token : tokens) {
    const double score = scores[static_cast<size_t>(token)];
    total += weights.emplace_back(std::exp((score - peak) / options_.temperature));
  }
  if (options_.top_p < 1) {
    double reached = 0;
    size_t kept = 0;
    while (kept < weights.size() && reached < options_.top_p * total) reached += weights[kept++];
    weights.resize(kept);
    total = reached;
  }
  if (options_.min_p > 0) {  // the largest weight is 1
    for (double& weight : weights) {
      if (weight < options_.min_p) {
        total -= weight;
        weight = 0;
      }
    }
  }
  constexpr double kUnit = 1.0 / 9007199254740992.0;  // 2^-53
  double left = static_cast<double>(random_() >> 11) * kUnit * total;
  size_t index = 0, last = 0;
  for (; index < weights.size(); ++index) {
    if (weights[index] == 0) continue;
    last = index;
    left -= weights[index];
    if (left < 0) break;
  }
  const int32_t token = tokens[last];
  return {token, log_probability(logits, token)};
}

double log_probability(std::span<const float> logits, int32_t token) {
  return logits[static_cast<size_t>(token)] - log_of_sum(logits);
}

std::vector<TokenPicker::Pick> most_probable(std::span<const float> logits, int64_t count) {
  std::vector<int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto kept = std::min<int64_t>(count, std::ssize(tokens));
  std::partial_sort(tokens.begin(), tokens.begin() + kept, tokens.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  const double log_sum = log_of_sum(logits);
  std::vector<TokenPicker::Pick> best;
  for (int64_t i = 0; i < kept; ++i) {
    const int32_t token = tokens[static_cast<size_t>(i)];
    best.push_back({token, logits[static_cast<size_t>(token)] - log_sum});
  }
  return best;
}

}  // namespace lagom::lm

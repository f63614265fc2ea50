#include "lagom/lm/dial.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <stdexcept>

#include "lagom/lm/decoder.h"

namespace lagom::lm {
namespace {

/// Small models decode a window in milliseconds, which says little: rounds go on for this long.
constexpr int kLeastRounds = 3, kMostRounds = 30;
constexpr double kSeconds = 1;

/// Seconds that a new row takes to read the tokens one by one; its cache's size goes to `point`.
double decode(Decoder& decoder, std::span<const int32_t> tokens, DialPoint& point) {
  const int64_t row = decoder.add_row();
  const auto start = std::chrono::steady_clock::now();
  for (const int32_t& token : tokens) {
    const DecodeInput input = {row, {&token, 1}};
    decoder.step({&input, 1});
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  point.kv_bytes = decoder.kv_bytes(row);
  decoder.remove_row(row);
  return seconds.count();
}

}  // namespace

std::vector<DialPoint> turn_dial(Model& model, const TokenRange& range,
                                 const text::Tokenizer& tokenizer, const EvaluationOptions& given,
                                 std::span<const double> rates) {
  const LmOptions& o = model.options();
  if (o.num_routed() == 0) {
    throw std::invalid_argument("the model has no routed blocks: there are no rates to set");
  }
  for (const double rate : rates) {
    if (!(rate > 0)) {
      throw std::invalid_argument("rates must be above 0, one is " + std::to_string(rate));
    }
  }
  int64_t windows = (range.size() - 1) / o.seq_len;
  if (given.max_windows > 0) windows = std::min(windows, given.max_windows);
  if (windows < 2) {
    throw std::invalid_argument("the text has fewer than two windows of " +
                                std::to_string(o.seq_len) +
                                " tokens: one part sets the thresholds, another judges them");
  }
  const int64_t first = windows / 2;
  const TokenRange calibration = range.part(0, first * o.seq_len + 1);
  const TokenRange judged = range.part(first * o.seq_len, windows * o.seq_len + 1);
  EvaluationOptions options = given;
  options.max_windows = 0;
  options.routing = Routing::kThreshold;

  const int64_t last = (windows - 1) * o.seq_len;
  const at::Tensor window =
      range.batch({&last, 1}, o.seq_len, o.vocab_size, std::nullopt).tokens;  // [1, T]
  const auto* ids = window.const_data_ptr<int64_t>();
  const std::vector<int32_t> tokens(ids, ids + window.numel());

  const at::Tensor own = model.calibrated_thresholds.clone();
  std::vector<DialPoint> points;
  std::vector<std::unique_ptr<Decoder>> decoders;
  for (const double rate : rates) {
    DialPoint& point = points.emplace_back();
    point.share = std::min(1.0, rate * o.routed_share());
    options.capacity = point.share;
    calibrate_thresholds(model, calibration, tokenizer, options);
    point.evaluation = evaluate(model, judged, tokenizer, options);
    decoders.push_back(
        std::make_unique<Decoder>(model, DecoderOptions{.routing = Routing::kThreshold}));
  }
  model.calibrated_thresholds.copy_(own);

  std::vector<std::vector<double>> seconds(points.size());
  double total = 0;
  for (int round = 0; round < kLeastRounds || (round < kMostRounds && total < kSeconds); ++round) {
    for (size_t i = 0; i < points.size(); ++i) {
      seconds[i].push_back(decode(*decoders[i], tokens, points[i]));
      total += seconds[i].back();
    }
  }
  for (size_t i = 0; i < points.size(); ++i) {
    std::sort(seconds[i].begin(), seconds[i].end());
    points[i].decoded_tokens = std::ssize(tokens);
    points[i].tokens_per_second =
        static_cast<double>(tokens.size()) / seconds[i][seconds[i].size() / 2];
  }
  return points;
}

}  // namespace lagom::lm

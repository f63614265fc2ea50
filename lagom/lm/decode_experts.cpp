#include "lagom/lm/decode_experts.h"

#include <algorithm>
#include <cmath>

#include "lagom/lm/decode_rows.h"
#include "lagom/lm/kernels.h"

namespace lagom::lm {
namespace {

void softmax(float* row, int64_t count) {
  const float peak = *std::max_element(row, row + count);
  float sum = 0;
  for (int64_t j = 0; j < count; ++j) sum += row[j] = std::exp(row[j] - peak);
  for (int64_t j = 0; j < count; ++j) row[j] /= sum;
}

}  // namespace

void append_run(std::vector<TokenRun>& runs, bool of_prompt) {
  const int64_t end = runs.empty() ? 0 : runs.back().end;
  if (runs.empty() || runs.back().of_prompt != of_prompt) runs.push_back({end, end, of_prompt});
  ++runs.back().end;
}

DecodeExperts::DecodeExperts(const Model& model, const ExpertWeights& weights, int64_t index,
                             const DecoderOptions& options)
    : options_(&model.options()),
      router_({weights.router, {}}, WeightFormat::kFloat32),
      thresholds_(model.expert_thresholds(options.routing, index)) {
  if (options.routing == Routing::kPredictor && !thresholds_.empty()) {
    predictor_in_ = DecodeMatrix(weights.predictor_in, WeightFormat::kFloat32);
    predictor_out_ = weights.predictor_out;
  }
  for (int64_t e = 0; e < options_->experts.count; ++e) {
    in_.emplace_back(Linear{weights.in[e], {}}, options.weights);
    out_.emplace_back(Linear{weights.out[e], {}}, options.weights);
  }
}

void DecodeExperts::operator()(const std::vector<float>& x, std::span<const ExpertToken> tokens,
                               ExpertScratch& s, std::vector<float>& y) const {
  const int64_t d = options_->d_model, choices = options_->expert_choices();
  const int64_t count = std::ssize(tokens);
  find_probabilities(x, count, s);
  choose(tokens, s);
  y.assign(static_cast<size_t>(count * d), 0.0F);
  for (size_t e = 0; e < s.taken.size(); ++e) {
    const std::vector<int64_t>& taken = s.taken[e];
    if (taken.empty()) continue;
    s.inputs.resize(taken.size() * static_cast<size_t>(d));
    s.runs.clear();
    for (size_t i = 0; i < taken.size(); ++i) {
      std::copy_n(&x[static_cast<size_t>(taken[i] * d)], d, &s.inputs[i * static_cast<size_t>(d)]);
      append_run(s.runs, tokens[static_cast<size_t>(taken[i])].of_prompt);
    }
    in_[e](s.inputs.data(), std::ssize(taken), s.hidden, s.runs);
    activate(*options_, s.hidden, std::ssize(taken), options_->expert_hidden(), s.activated);
    out_[e](s.activated.data(), std::ssize(taken), s.outputs, s.runs);
    for (size_t i = 0; i < taken.size(); ++i) {
      const float scale = s.probabilities[static_cast<size_t>(taken[i] * choices) + e] *
                          static_cast<float>(expert_scale(*options_));
      float* update = &y[static_cast<size_t>(taken[i] * d)];
      const float* output = &s.outputs[i * static_cast<size_t>(d)];
      for (int64_t j = 0; j < d; ++j) update[j] += scale * output[j];
    }
  }
}

int64_t DecodeExperts::bytes() const {
  int64_t sum = 0;
  for (const auto* matrices : {&in_, &out_}) {
    for (const DecodeMatrix& matrix : *matrices) sum += matrix.bytes();
  }
  return sum;
}

void DecodeExperts::find_probabilities(const std::vector<float>& x, int64_t count,
                                       ExpertScratch& s) const {
  const int64_t choices = options_->expert_choices();
  router_(x.data(), count, s.probabilities);
  for (int64_t i = 0; i < count; ++i) {
    softmax(&s.probabilities[static_cast<size_t>(i * choices)], choices);
  }
  if (predictor_out_.weight.defined()) predict(x, count, s);
}

/// Logits of each expert, [count, E].
void DecodeExperts::predict(const std::vector<float>& x, int64_t count, ExpertScratch& s) const {
  const int64_t width = predictor_in_.out(), experts = options_->experts.count;
  predictor_in_(x.data(), count, s.hidden);
  s.logits.resize(static_cast<size_t>(count * experts));
  for (int64_t i = 0; i < count; ++i) {
    float* hidden = &s.hidden[static_cast<size_t>(i * width)];
    for (int64_t j = 0; j < width; ++j) hidden[j] /= 1 + std::exp(-hidden[j]);
    for (int64_t e = 0; e < experts; ++e) {
      s.logits[static_cast<size_t>(i * experts + e)] =
          kernels::dot(predictor_out_.weight.const_data_ptr<float>() + e * width, hidden, width) +
          predictor_out_.bias.const_data_ptr<float>()[e];
    }
  }
}

void DecodeExperts::choose(std::span<const ExpertToken> tokens, ExpertScratch& s) const {
  const auto choices = static_cast<size_t>(options_->expert_choices());
  const auto experts = static_cast<size_t>(options_->experts.count);
  s.taken.assign(experts, {});
  for (size_t i = 0; i < tokens.size(); ++i) {
    const ExpertToken& token = tokens[i];
    const auto offer = [&](size_t e, bool wanted) {
      if ((*token.caps)[e].admit(wanted, token.rank)) {
        s.taken[e].push_back(static_cast<int64_t>(i));
      }
    };
    const float* row = &s.probabilities[i * choices];
    if (thresholds_.empty()) {
      for (const int64_t choice : experts_of_token({row, choices}, options_->experts)) {
        if (static_cast<size_t>(choice) < experts) offer(static_cast<size_t>(choice), true);
      }
      continue;
    }
    const float* scores = predictor_out_.weight.defined() ? &s.logits[i * experts] : row;
    for (size_t e = 0; e < experts; ++e) offer(e, scores[e] > thresholds_[e]);
  }
}

}  // namespace lagom::lm

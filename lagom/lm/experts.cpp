#include "lagom/lm/experts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "lagom/lm/ops.h"

namespace lagom::lm {
namespace {

using at::Tensor;

/// Tokens by the expert that takes them.
using TokenLists = std::vector<std::vector<int64_t>>;

/// Each expert's best tokens of every sequence. scores: [M, E + E0].
TokenLists best_tokens(const Tensor& scores, int64_t batch, const LmOptions& options) {
  const int64_t experts = options.experts.count, n = scores.size(0) / batch;
  const int64_t k = options.expert_tokens(n);
  const Tensor columns =
      scores.narrow(1, 0, experts).view({batch, n, experts}).permute({0, 2, 1}).contiguous();
  const auto* data = columns.const_data_ptr<float>();  // [B, E, n]
  TokenLists lists(static_cast<size_t>(experts));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t e = 0; e < experts; ++e) {
      const auto positions =
          top_k_positions({data + (b * experts + e) * n, static_cast<size_t>(n)}, k);
      for (const int64_t t : positions) lists[static_cast<size_t>(e)].push_back(b * n + t);
    }
  }
  return lists;
}

/// Calls body(token, rank, caps) for the tokens that are present, sequence by sequence.
template <typename Body>
void for_present(const ExpertLayer& layer, const LmOptions& options, const ExpertRule& rule,
                 Body&& body) {
  const int64_t n = layer.present.numel() / layer.batch;
  const bool* present = layer.present.const_data_ptr<bool>();
  for (int64_t b = 0; b < layer.batch; ++b) {
    std::vector<HardCap> caps = expert_caps(options, rule);
    int64_t rank = 0;
    for (int64_t i = b * n; i < (b + 1) * n; ++i) {
      if (present[i]) body(i, rank++, caps);
    }
  }
}

/// Each expert's tokens whose scores [M, >= E] are above its threshold.
TokenLists tokens_above(const Tensor& scores, const ExpertLayer& layer, const LmOptions& options,
                        const ExpertRule& rule) {
  const auto experts = static_cast<size_t>(options.experts.count);
  const int64_t stride = scores.size(1);
  const auto* data = scores.const_data_ptr<float>();
  TokenLists lists(experts);
  for_present(layer, options, rule, [&](int64_t i, int64_t rank, std::vector<HardCap>& caps) {
    for (size_t e = 0; e < experts; ++e) {
      const bool wants = data[i * stride + static_cast<int64_t>(e)] > rule.thresholds[e];
      if (caps[e].admit(wants, rank)) lists[e].push_back(i);
    }
  });
  return lists;
}

/// The tokens' own choices; `chosen` [M, E + E0] gets the no-ops.
TokenLists tokens_choice(const Tensor& probabilities, const ExpertLayer& layer,
                         const LmOptions& options, const ExpertRule& rule) {
  const auto experts = static_cast<size_t>(options.experts.count);
  const int64_t choices = options.expert_choices();
  const auto* data = probabilities.const_data_ptr<float>();
  bool* chosen = layer.chosen.mutable_data_ptr<bool>();
  TokenLists lists(experts);
  for_present(layer, options, rule, [&](int64_t i, int64_t rank, std::vector<HardCap>& caps) {
    const float* row = data + i * choices;
    for (const int64_t choice :
         experts_of_token({row, static_cast<size_t>(choices)}, options.experts)) {
      const auto e = static_cast<size_t>(choice);
      if (e >= experts) {
        chosen[i * choices + choice] = true;
      } else if (caps[e].admit(true, rank)) {
        lists[e].push_back(i);
      }
    }
  });
  return lists;
}

}  // namespace

std::vector<int64_t> experts_of_token(std::span<const float> probabilities,
                                      const ExpertOptions& options) {
  return top_k_positions(probabilities, options.per_token);
}

std::vector<HardCap> expert_caps(const LmOptions& options, const ExpertRule& rule) {
  const ExpertOptions& e = options.experts;
  double share = rule.exact ? 1 : rule.cap;
  if (e.choice == ExpertChoice::kToken) {
    share = e.token_cap > 0 ? e.token_cap * static_cast<double>(e.per_token) /
                                  static_cast<double>(options.expert_choices())
                            : 1;
  }
  return std::vector<HardCap>(static_cast<size_t>(e.count), HardCap(share));
}

Tensor add_experts(const Tensor& attended, const Tensor& normed, const ExpertWeights& weights,
                   const LmOptions& options, const ExpertRule& rule, ExpertLayer& decided) {
  const int64_t width = normed.size(-1), choices = options.expert_choices();
  const Tensor tokens = normed.reshape({-1, width});  // [M, D]
  const Tensor exact = tokens.to(at::kFloat);         // routers decide in float32
  decided.batch = normed.size(0);
  decided.probabilities = at::softmax(at::linear(exact, weights.router), -1);  // [M, E + E0]
  if (weights.predictor_in.weight.defined()) decided.predictor_logits = weights.predict(exact);
  decided.chosen = at::zeros({tokens.size(0), choices}, at::kBool);

  const Tensor scores = decided.probabilities.detach().contiguous();
  TokenLists lists;
  if (options.experts.choice == ExpertChoice::kToken) {
    lists = tokens_choice(scores, decided, options, rule);
  } else if (rule.exact) {
    lists = best_tokens(scores, decided.batch, options);
  } else {
    lists =
        tokens_above(rule.by_probability ? scores : decided.predictor_logits.detach().contiguous(),
                     decided, options, rule);
  }

  std::vector<int64_t> offsets = {0};
  for (const auto& list : lists) offsets.push_back(offsets.back() + std::ssize(list));
  if (offsets.back() == 0) return attended;
  const Tensor index = at::empty({offsets.back()}, at::kLong);  // [P] token of each product
  const Tensor places = at::empty_like(index);                  // [P] of its probability
  auto* to = index.mutable_data_ptr<int64_t>();
  auto* place = places.mutable_data_ptr<int64_t>();
  bool* chosen = decided.chosen.mutable_data_ptr<bool>();
  for (size_t e = 0; e < lists.size(); ++e) {
    for (const int64_t token : lists[e]) {
      *to++ = token;
      *place = token * choices + static_cast<int64_t>(e);
      chosen[*place++] = true;
    }
  }

  const auto type = tokens.scalar_type();
  const Tensor expanded =
      grouped_linear(tokens.index_select(0, index), weights.in.to(type), offsets);  // [P, hidden]
  const Tensor hidden =
      options.activation == Activation::kGelu ? gelu_tanh(expanded) : swiglu(expanded);
  const Tensor updates =
      grouped_linear(hidden, weights.out.to(type), offsets).to(at::kFloat);  // [P, D]
  const Tensor scale =
      decided.probabilities.view(-1).index_select(0, places) * expert_scale(options);  // [P]
  return add_rows(attended.reshape({-1, width}), updates, index, scale).view_as(attended);
}

Tensor balance_loss(const ExpertLayer& layer) {
  const auto choices = static_cast<double>(layer.probabilities.size(1));
  const Tensor counts = layer.chosen.to(at::kFloat).sum(0);  // [E + E0]
  const Tensor shares = counts / counts.sum().clamp_min(1);
  return choices * (shares * layer.probabilities.mean(0)).sum();
}

ExpertLoad& ExpertLoad::operator+=(const ExpertLoad& other) {
  layer = other.layer;
  tokens += other.tokens;
  untouched += other.untouched;
  taken.resize(std::max(taken.size(), other.taken.size()), 0);
  for (size_t i = 0; i < other.taken.size(); ++i) taken[i] += other.taken[i];
  return *this;
}

double ExpertLoad::imbalance(int64_t num_experts) const {
  const auto end = taken.begin() + std::min<int64_t>(num_experts, std::ssize(taken));
  const int64_t total = std::accumulate(taken.begin(), end, int64_t{0});
  if (total == 0) return 0;
  const int64_t most = *std::max_element(taken.begin(), end);
  return static_cast<double>(most * num_experts) / static_cast<double>(total);
}

ExpertLoad count_load(const ExpertLayer& layer, int64_t num_experts) {
  ExpertLoad load{.layer = layer.layer};
  load.tokens = layer.present.sum().item<int64_t>();
  const Tensor counts = layer.chosen.sum(0).contiguous();  // [E + E0]
  const auto* data = counts.const_data_ptr<int64_t>();
  load.taken.assign(data, data + counts.numel());
  const Tensor touched = layer.chosen.narrow(1, 0, num_experts).any(1);
  load.untouched = load.tokens - touched.sum().item<int64_t>();
  return load;
}

}  // namespace lagom::lm

#include "lagom/lm/options.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace lagom::lm {
namespace {

void require(bool ok, const std::string& what) {
  if (!ok) throw std::invalid_argument("model: " + what);
}

void require_positive(int64_t value, const std::string& name) {
  require(value > 0, name + " must be above 0, is " + std::to_string(value));
}

/// ceil(share * n), where a share of 0.1 of 30 stays 3 although 0.1 * 30 is above it in double.
int64_t rounded_up(double share, int64_t n) {
  return static_cast<int64_t>(std::ceil(share * static_cast<double>(n) - 1e-9));
}

}  // namespace

std::span<const std::string_view> option_names(Gate) {
  static constexpr std::array<std::string_view, 5> kNames = {"raw", "sigmoid", "2sigmoid", "tanh",
                                                             "none"};
  return kNames;
}

std::span<const std::string_view> option_names(RoutedPositions) {
  static constexpr std::array<std::string_view, 2> kNames = {"original", "rank"};
  return kNames;
}

std::span<const std::string_view> option_names(Selection) {
  static constexpr std::array<std::string_view, 3> kNames = {"learned", "random", "gaussian"};
  return kNames;
}

std::span<const std::string_view> option_names(Routing) {
  static constexpr std::array<std::string_view, 5> kNames = {"topk", "predictor", "router",
                                                             "threshold", "ema"};
  return kNames;
}

std::span<const std::string_view> option_names(ExpertChoice) {
  static constexpr std::array<std::string_view, 2> kNames = {"expert", "token"};
  return kNames;
}

std::span<const std::string_view> option_names(Norm) {
  static constexpr std::array<std::string_view, 2> kNames = {"rms", "layer"};
  return kNames;
}

std::span<const std::string_view> option_names(Activation) {
  static constexpr std::array<std::string_view, 2> kNames = {"gelu", "swiglu"};
  return kNames;
}

std::span<const std::string_view> option_names(Positions) {
  static constexpr std::array<std::string_view, 2> kNames = {"rotary", "learned"};
  return kNames;
}

int64_t LmOptions::mlp_hidden() const {
  if (d_mlp > 0) return d_mlp;
  if (activation == Activation::kGelu) return 4 * d_model;
  constexpr int64_t kMultiple = 32;
  return (8 * d_model / 3 + kMultiple - 1) / kMultiple * kMultiple;
}

int64_t LmOptions::predictor_hidden() const {
  return routing.predictor_hidden > 0 ? routing.predictor_hidden
                                      : std::max<int64_t>(1, d_model / 2);
}

bool LmOptions::is_routed(int64_t layer) const {
  if (routing.every <= 0 || layer < routing.offset) return false;
  if (routing.keep_last_dense && layer == num_layers - 1) return false;
  return (layer - routing.offset) % routing.every == 0;
}

int64_t LmOptions::num_routed() const {
  int64_t count = 0;
  for (int64_t layer = 0; layer < num_layers; ++layer) count += is_routed(layer);
  return count;
}

int64_t LmOptions::routed_tokens(int64_t length, double share) const {
  if (share <= 0 && routing.capacity_tokens > 0) return std::min(routing.capacity_tokens, length);
  return std::clamp<int64_t>(rounded_up(share > 0 ? share : routing.capacity, length), 1, length);
}

double LmOptions::routed_share() const {
  return static_cast<double>(routed_tokens(seq_len)) / static_cast<double>(seq_len);
}

bool LmOptions::has_experts(int64_t layer) const {
  return experts.count > 0 && layer >= experts.offset &&
         (layer - experts.offset) % experts.every == 0;
}

int64_t LmOptions::num_expert_blocks() const {
  return expert_block_index(num_layers);
}

int64_t LmOptions::expert_block_index(int64_t layer) const {
  int64_t count = 0;
  for (int64_t before = 0; before < layer; ++before) count += has_experts(before);
  return count;
}

int64_t LmOptions::expert_hidden() const {
  return experts.d_expert > 0 ? experts.d_expert : mlp_hidden();
}

bool LmOptions::has_expert_predictor() const {
  return experts.count > 0 && experts.choice == ExpertChoice::kExpert && routing.predictor;
}

int64_t LmOptions::expert_tokens(int64_t n) const {
  const double share = experts.capacity / static_cast<double>(expert_choices());
  return std::clamp<int64_t>(rounded_up(share, n), 1, n);
}

double LmOptions::expert_share(int64_t layer) const {
  const int64_t n = block_tokens(layer, seq_len);
  return static_cast<double>(expert_tokens(n)) / static_cast<double>(n);
}

int64_t LmOptions::block_tokens(int64_t layer, int64_t length) const {
  return is_routed(layer) ? routed_tokens(length) : length;
}

void LmOptions::validate() const {
  require_positive(vocab_size, "vocab_size");
  require_positive(seq_len, "seq_len");
  require_positive(d_model, "d_model");
  require_positive(num_layers, "num_layers");
  require_positive(num_heads, "num_heads");
  require(d_model % num_heads == 0, "d_model must be a multiple of num_heads, is " +
                                        std::to_string(d_model) + " with " +
                                        std::to_string(num_heads) + " heads");
  require(
      positions != Positions::kRotary || head_dim() % 2 == 0,
      "d_model / num_heads must be even for rotary positions, is " + std::to_string(head_dim()));
  require(num_kv_heads >= 0 && num_heads % kv_heads() == 0,
          "num_kv_heads must divide num_heads, is " + std::to_string(num_kv_heads));
  require(d_mlp >= 0, "d_mlp must not be negative, is " + std::to_string(d_mlp));
  require(norm_epsilon > 0, "norm_epsilon must be above 0");
  require(rope_theta > 1, "rope_theta must be above 1");
  require(routing.every >= 0, "routing.every must not be negative");
  require(routing.offset >= 0, "routing.offset must not be negative");
  require(routing.capacity > 0 && routing.capacity <= 1,
          "routing.capacity must be in (0, 1], is " + std::to_string(routing.capacity));
  require(routing.capacity_tokens >= 0, "routing.capacity_tokens must not be negative");
  require(routing.aux_weight >= 0, "routing.aux_weight must not be negative");
  require(routing.predictor_hidden >= 0, "routing.predictor_hidden must not be negative");
  require(routing.ema_decay >= 0 && routing.ema_decay < 1, "routing.ema_decay must be in [0, 1)");
  validate_experts();
}

void LmOptions::validate_experts() const {
  require(experts.count >= 0, "experts.count must not be negative");
  require(experts.no_ops >= 0, "experts.no_ops must not be negative");
  if (experts.count == 0) {
    require(experts.no_ops == 0, "experts.no_ops needs experts: experts.count is 0");
    return;
  }
  require_positive(experts.every, "experts.every");
  require(experts.offset >= 0 && experts.offset < num_layers,
          "experts.offset must be one of the " + std::to_string(num_layers) + " blocks, is " +
              std::to_string(experts.offset));
  require(!bias, "experts have no biases: bias must be false");
  require(
      experts.capacity > 0 && experts.capacity <= static_cast<double>(expert_choices()),
      "experts.capacity must be in (0, count + no_ops], is " + std::to_string(experts.capacity));
  require(
      experts.per_token >= 1 && experts.per_token <= expert_choices(),
      "experts.per_token must be in [1, count + no_ops], is " + std::to_string(experts.per_token));
  require(experts.token_cap >= 0, "experts.token_cap must not be negative");
  require(experts.balance_weight >= 0, "experts.balance_weight must not be negative");
  require(experts.d_expert >= 0, "experts.d_expert must not be negative");
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    if (!has_experts(layer)) continue;
    const int64_t n = block_tokens(layer, seq_len);
    require(expert_choices() <= n, "more experts than tokens: experts.count + experts.no_ops is " +
                                       std::to_string(expert_choices()) + ", block " +
                                       std::to_string(layer) + " takes " + std::to_string(n) +
                                       " tokens of a sequence");
  }
}

}  // namespace lagom::lm

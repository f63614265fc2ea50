#include "lagom/lm/flops.h"

#include <stdexcept>

namespace lagom::lm {
namespace {

int64_t mlp_matrices(const LmOptions& o) {
  return o.activation == Activation::kSwiglu ? 3 : 2;
}

/// Pairs of a token and a real expert, of n tokens in a block.
int64_t expert_products(const LmOptions& o, int64_t n) {
  if (o.experts.choice == ExpertChoice::kExpert) return o.experts.count * o.expert_tokens(n);
  return n * o.experts.per_token * o.experts.count / o.expert_choices();
}

void add_block(FlopTable& table, const LmOptions& o, int64_t layer, AttentionCount attention) {
  const int64_t d = o.d_model, length = table.length;
  const bool routed = o.is_routed(layer);
  const int64_t n = routed ? o.routed_tokens(length) : length;
  const auto add = [&](const char* name, int64_t forward, int64_t training) {
    table.rows.push_back({layer, name, forward, training});
  };
  const auto product = [&](const char* name, int64_t forward) { add(name, forward, 3 * forward); };
  product("qkv", 2 * n * d * (d + 2 * o.d_kv()));
  product("attention", attention == AttentionCount::kSquare ? 4 * n * n * d : 2 * n * (n + 1) * d);
  product("attention_out", 2 * n * d * d);
  const int64_t hidden = o.predictor_hidden();
  const auto predictor = [&](const char* name, int64_t tokens, int64_t outputs) {
    add(name, 2 * tokens * (d * hidden + hidden * outputs),
        2 * tokens * (2 * d * hidden + 3 * hidden * outputs));
  };
  if (o.has_experts(layer)) {
    product("experts", 2 * mlp_matrices(o) * expert_products(o, n) * d * o.expert_hidden());
    product("expert_router", 2 * n * d * o.expert_choices());
    if (o.has_expert_predictor()) predictor("expert_predictor", n, o.experts.count);
  } else {
    product("mlp", 2 * mlp_matrices(o) * n * d * o.mlp_hidden());
  }
  if (!routed) return;
  product("router", 2 * length * d);
  if (o.routing.predictor) predictor("predictor", length, 1);
}

}  // namespace

FlopTable count_flops(const LmOptions& options, int64_t length, AttentionCount attention) {
  options.validate();
  if (length < 1 || length > options.seq_len) {
    throw std::invalid_argument("a length of " + std::to_string(length) + " is not in [1, " +
                                std::to_string(options.seq_len) + "]");
  }
  FlopTable table{.length = length};
  for (int64_t layer = 0; layer < options.num_layers; ++layer) {
    add_block(table, options, layer, attention);
  }
  const int64_t head = 2 * length * options.d_model * options.vocab_size;
  table.rows.push_back({-1, "head", head, 3 * head});
  for (const FlopRow& row : table.rows) {
    table.forward += row.forward;
    table.training += row.training;
  }
  return table;
}

double decode_flops(const LmOptions& o, int64_t position, double rate) {
  const auto d = static_cast<double>(o.d_model);
  const auto kv = static_cast<double>(o.d_kv()), hidden = static_cast<double>(o.mlp_hidden());
  const auto seen = static_cast<double>(position + 1);
  const double matrices = 2 * static_cast<double>(mlp_matrices(o));
  const auto p = static_cast<double>(o.predictor_hidden());
  const auto experts = static_cast<double>(o.experts.count);
  const auto linear = [&](int64_t layer) {
    const double attention = 4 * d * d + 4 * d * kv;
    if (!o.has_experts(layer)) return attention + matrices * d * hidden;
    const int64_t n = o.block_tokens(layer, o.seq_len);
    const double taken = static_cast<double>(expert_products(o, n)) / static_cast<double>(n);
    return attention + matrices * taken * d * static_cast<double>(o.expert_hidden()) +
           2 * d * static_cast<double>(o.expert_choices()) +
           (o.has_expert_predictor() ? 2 * (d * p + p * experts) : 0);
  };
  double total = 2 * d * static_cast<double>(o.vocab_size);
  for (int64_t layer = 0; layer < o.num_layers; ++layer) {
    if (!o.is_routed(layer)) {
      total += linear(layer) + 4 * seen * d;
    } else {
      total += rate * (linear(layer) + 4 * rate * seen * d) + 2 * d;
      if (o.routing.predictor) total += 2 * (d * p + p);
    }
  }
  return total;
}

int64_t count_parameters(const LmOptions& o) {
  const int64_t d = o.d_model, p = o.predictor_hidden();
  const int64_t norm = o.norm == Norm::kLayer ? 2 * d : d;
  const auto linear = [&](int64_t out, int64_t in) { return out * in + (o.bias ? out : 0); };
  const auto predictor = [&](int64_t outputs) { return p * d + p + outputs * p + outputs; };
  const int64_t gates = o.activation == Activation::kSwiglu ? 2 : 1;
  int64_t total = norm + o.vocab_size * d * (o.tied_head ? 1 : 2);
  if (o.positions == Positions::kLearned) total += o.seq_len * d;
  for (int64_t layer = 0; layer < o.num_layers; ++layer) {
    total += 2 * norm + linear(d + 2 * o.d_kv(), d) + linear(d, d);
    if (o.has_experts(layer)) {
      total += o.expert_choices() * d + o.experts.count * (gates + 1) * d * o.expert_hidden();
      if (o.has_expert_predictor()) total += predictor(o.experts.count);
    } else {
      total += linear(gates * o.mlp_hidden(), d) + linear(d, o.mlp_hidden());
    }
    if (!o.is_routed(layer)) continue;
    total += d;
    if (o.routing.predictor) total += predictor(1);
  }
  return total;
}

int64_t kv_bytes(const LmOptions& o, int64_t length, int64_t routed, int64_t bytes_per_value) {
  const int64_t tokens = (o.num_layers - o.num_routed()) * length + o.num_routed() * routed;
  return 2 * tokens * o.d_kv() * bytes_per_value;
}

}  // namespace lagom::lm

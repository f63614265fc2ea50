// The tensors of a model: how they begin, and their names.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "lagom/lm/model.h"
#include "lagom/util/hash.h"

namespace lagom::lm {
namespace {

using at::Tensor;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Tensor normal_weights(at::IntArrayRef sizes, double deviation, std::optional<uint64_t> seed,
                      const std::string& name) {
  if (!seed) return at::empty(sizes, at::kFloat);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(*seed ^ hash64(name));
  return at::empty(sizes, at::kFloat).normal_(0, deviation, generator);
}

/// Makes a model's tensors under their names.
struct Initializer {
  const LmOptions& options;
  std::optional<uint64_t> seed;
  static constexpr double kDeviation = 0.02;

  Linear linear(const std::string& name, int64_t out, int64_t in, bool writes_to_stream) const {
    const double depth = std::sqrt(2.0 * static_cast<double>(options.num_layers));
    Linear layer;
    layer.weight =
        normal_weights({out, in}, writes_to_stream ? kDeviation / depth : kDeviation, seed, name);
    if (options.bias) layer.bias = at::zeros({out});
    return layer;
  }

  NormWeights norm() const {
    NormWeights norm{at::ones({options.d_model}), {}};
    if (options.norm == Norm::kLayer) norm.bias = at::zeros({options.d_model});
    return norm;
  }

  Block block(int64_t layer) const {
    const std::string prefix = "blocks." + std::to_string(layer) + ".";
    const int64_t d = options.d_model, hidden = options.mlp_hidden();
    const int64_t expanded = options.activation == Activation::kSwiglu ? 2 * hidden : hidden;
    Block block;
    block.attention_norm = norm();
    block.qkv = linear(prefix + "qkv", d + 2 * options.d_kv(), d, false);
    block.attention_out = linear(prefix + "attention_out", d, d, true);
    block.mlp_norm = norm();
    if (options.has_experts(layer)) {
      block.experts = experts(prefix + "experts.");
    } else {
      block.mlp_in = linear(prefix + "mlp_in", expanded, d, false);
      block.mlp_out = linear(prefix + "mlp_out", d, hidden, true);
    }
    if (options.is_routed(layer)) add_router(block, prefix);
    return block;
  }

  ExpertWeights experts(const std::string& prefix) const {
    const int64_t d = options.d_model, hidden = options.expert_hidden();
    const int64_t count = options.experts.count;
    const int64_t expanded = options.activation == Activation::kSwiglu ? 2 * hidden : hidden;
    const double depth = std::sqrt(2.0 * static_cast<double>(options.num_layers));
    ExpertWeights e;
    e.router = normal_weights({options.expert_choices(), d}, kDeviation, seed, prefix + "router");
    e.in = normal_weights({count, expanded, d}, kDeviation, seed, prefix + "in");
    e.out = normal_weights({count, d, hidden}, kDeviation / depth, seed, prefix + "out");
    if (options.has_expert_predictor()) {
      const double share = options.experts.capacity / static_cast<double>(options.expert_choices());
      add_predictor(e.predictor_in, e.predictor_out, count, share, prefix);
    }
    return e;
  }

  void add_router(Block& block, const std::string& prefix) const {
    block.router = normal_weights({options.d_model}, kDeviation, seed, prefix + "router");
    if (!options.routing.predictor) return;
    add_predictor(block.predictor_in, block.predictor_out, 1, options.routed_share(), prefix);
  }

  void add_predictor(Linear& in, Linear& out, int64_t outputs, double share,
                     const std::string& prefix) const {
    const int64_t d = options.d_model, hidden = options.predictor_hidden();
    // The stream has about unit scale after some training: fan-in scaling keeps logits moderate.
    in = {normal_weights({hidden, d}, 1 / std::sqrt(static_cast<double>(d)), seed,
                         prefix + "predictor_in"),
          at::zeros({hidden})};
    const double odds = std::clamp(share, 1e-3, 1 - 1e-3);
    out = {normal_weights({outputs, hidden}, kDeviation, seed, prefix + "predictor_out"),
           at::full({outputs}, std::log(odds / (1 - odds)), at::kFloat)};
  }
};

void add_linear(std::vector<NamedTensor>& all, const std::string& name, const Linear& linear,
                ParameterGroup weights, ParameterGroup biases) {
  all.push_back({name + ".weight", linear.weight, weights});
  if (linear.bias.defined()) all.push_back({name + ".bias", linear.bias, biases});
}

void add_predictor(std::vector<NamedTensor>& all, const std::string& prefix, const Linear& in,
                   const Linear& out) {
  if (!in.weight.defined()) return;
  add_linear(all, prefix + "predictor_in", in, ParameterGroup::kPredictor,
             ParameterGroup::kPredictor);
  add_linear(all, prefix + "predictor_out", out, ParameterGroup::kPredictor,
             ParameterGroup::kPredictor);
}

void add_norm(std::vector<NamedTensor>& all, const std::string& name, const NormWeights& norm) {
  all.push_back({name + ".weight", norm.weight, ParameterGroup::kNoDecay});
  if (norm.bias.defined()) all.push_back({name + ".bias", norm.bias, ParameterGroup::kNoDecay});
}

}  // namespace

Model::Model(const LmOptions& options, std::optional<uint64_t> seed) : options_(options) {
  options_.validate();
  const Initializer init{options_, seed};
  embedding_ = normal_weights({options_.vocab_size, options_.d_model}, Initializer::kDeviation,
                              seed, "embedding");
  if (options_.positions == Positions::kLearned) {
    position_embedding_ = normal_weights({options_.seq_len, options_.d_model},
                                         Initializer::kDeviation, seed, "position_embedding");
  } else {
    rotary_ = make_rotary_tables(options_.seq_len, options_.head_dim(), options_.rope_theta);
  }
  if (!options_.tied_head) {
    head_ = normal_weights({options_.vocab_size, options_.d_model}, Initializer::kDeviation, seed,
                           "head");
  }
  for (int64_t layer = 0; layer < options_.num_layers; ++layer) {
    blocks_.push_back(init.block(layer));
  }
  norm_ = init.norm();
  calibrated_thresholds = at::full({options_.num_routed()}, kNaN, at::kFloat);
  ema_thresholds = at::full({options_.num_routed()}, kNaN, at::kFloat);
  if (options_.experts.count > 0 && options_.experts.choice == ExpertChoice::kExpert) {
    calibrated_expert_thresholds =
        at::full({options_.num_expert_blocks(), options_.experts.count}, kNaN, at::kFloat);
    ema_expert_thresholds = calibrated_expert_thresholds.clone();
  }
  for (NamedTensor& parameter : parameters()) parameter.value.set_requires_grad(true);
}

std::vector<NamedTensor> Model::parameters() const {
  using enum ParameterGroup;
  std::vector<NamedTensor> all;
  all.push_back({"embedding.weight", embedding_, kDecay});
  if (position_embedding_.defined()) {
    all.push_back({"position_embedding.weight", position_embedding_, kDecay});
  }
  for (size_t layer = 0; layer < blocks_.size(); ++layer) {
    const Block& block = blocks_[layer];
    const std::string prefix = "blocks." + std::to_string(layer) + ".";
    add_norm(all, prefix + "attention_norm", block.attention_norm);
    add_linear(all, prefix + "qkv", block.qkv, kDecay, kNoDecay);
    add_linear(all, prefix + "attention_out", block.attention_out, kDecay, kNoDecay);
    add_norm(all, prefix + "mlp_norm", block.mlp_norm);
    if (const ExpertWeights& experts = block.experts; experts.defined()) {
      all.push_back({prefix + "experts.router.weight", experts.router, kRouter});
      all.push_back({prefix + "experts.in.weight", experts.in, kDecay});
      all.push_back({prefix + "experts.out.weight", experts.out, kDecay});
      add_predictor(all, prefix + "experts.", experts.predictor_in, experts.predictor_out);
    } else {
      add_linear(all, prefix + "mlp_in", block.mlp_in, kDecay, kNoDecay);
      add_linear(all, prefix + "mlp_out", block.mlp_out, kDecay, kNoDecay);
    }
    if (!block.router.defined()) continue;
    all.push_back({prefix + "router.weight", block.router, kRouter});
    add_predictor(all, prefix, block.predictor_in, block.predictor_out);
  }
  add_norm(all, "norm", norm_);
  if (head_.defined()) all.push_back({"head.weight", head_, kDecay});
  return all;
}

int64_t Model::num_parameters() const {
  int64_t count = 0;
  for (const NamedTensor& parameter : parameters()) count += parameter.value.numel();
  return count;
}

}  // namespace lagom::lm

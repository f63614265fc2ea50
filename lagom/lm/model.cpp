#include "lagom/lm/model.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lagom/lm/ops.h"
#include "lagom/lm/routing.h"
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
    block.mlp_in = linear(prefix + "mlp_in", expanded, d, false);
    block.mlp_out = linear(prefix + "mlp_out", d, hidden, true);
    if (options.is_routed(layer)) add_router(block, prefix);
    return block;
  }

  void add_router(Block& block, const std::string& prefix) const {
    const int64_t d = options.d_model, hidden = options.predictor_hidden();
    block.router = normal_weights({d}, kDeviation, seed, prefix + "router");
    if (!options.routing.predictor) return;
    // The stream has about unit scale after some training: fan-in scaling keeps logits moderate.
    block.predictor_in = {normal_weights({hidden, d}, 1 / std::sqrt(static_cast<double>(d)), seed,
                                         prefix + "predictor_in"),
                          at::zeros({hidden})};
    const double share = std::clamp(options.routed_share(), 1e-3, 1 - 1e-3);
    block.predictor_out = {normal_weights({1, hidden}, kDeviation, seed, prefix + "predictor_out"),
                           at::full({1}, std::log(share / (1 - share)), at::kFloat)};
  }
};

void add_linear(std::vector<NamedTensor>& all, const std::string& name, const Linear& linear,
                ParameterGroup weights, ParameterGroup biases) {
  all.push_back({name + ".weight", linear.weight, weights});
  if (linear.bias.defined()) all.push_back({name + ".bias", linear.bias, biases});
}

void add_norm(std::vector<NamedTensor>& all, const std::string& name, const NormWeights& norm) {
  all.push_back({name + ".weight", norm.weight, ParameterGroup::kNoDecay});
  if (norm.bias.defined()) all.push_back({name + ".bias", norm.bias, ParameterGroup::kNoDecay});
}

/// Which tokens of a batch enter a block, rows padded at their end to the longest.
struct Choice {
  int64_t count = 0;  ///< Tokens n per row, padding included.
  bool padded = false;
  Tensor positions;  ///< int64 [B, n], ascending; padding repeats position 0.
  Tensor ranks;      ///< int64 [B, n]: 0 .. n-1
  Tensor flat;       ///< int64 [B * n]: row * T + position
  Tensor present;    ///< float [B * n]: 0 for padding.
  Tensor chosen;     ///< bool [B, T]
};

Choice make_choice(const std::vector<std::vector<int64_t>>& rows, int64_t length) {
  const auto batch = static_cast<int64_t>(rows.size());
  Choice choice;
  for (const auto& row : rows) choice.count = std::max<int64_t>(choice.count, std::ssize(row));
  choice.positions = at::zeros({batch, choice.count}, at::kLong);
  choice.ranks = at::arange(choice.count, at::kLong).repeat({batch, 1});
  choice.present = at::zeros({batch * choice.count}, at::kFloat);
  choice.chosen = at::zeros({batch, length}, at::kBool);
  auto* positions = choice.positions.mutable_data_ptr<int64_t>();
  auto* present = choice.present.mutable_data_ptr<float>();
  auto* chosen = choice.chosen.mutable_data_ptr<bool>();
  for (int64_t b = 0; b < batch; ++b) {
    const auto& row = rows[static_cast<size_t>(b)];
    choice.padded = choice.padded || std::ssize(row) < choice.count;
    for (size_t i = 0; i < row.size(); ++i) {
      positions[b * choice.count + static_cast<int64_t>(i)] = row[i];
      present[b * choice.count + static_cast<int64_t>(i)] = 1;
      chosen[b * length + row[i]] = true;
    }
  }
  const Tensor offsets = at::arange(batch, at::kLong).unsqueeze(1) * length;
  choice.flat = (choice.positions + offsets).view(-1);
  return choice;
}

/// The options with another capacity; 0 leaves theirs.
LmOptions with_capacity(LmOptions options, double capacity) {
  if (capacity > 0) {
    options.routing.capacity = capacity;
    options.routing.capacity_tokens = 0;
  }
  return options;
}

std::span<const float> row_of(const Tensor& scores, int64_t row) {
  const int64_t length = scores.size(1);
  return {scores.const_data_ptr<float>() + row * length, static_cast<size_t>(length)};
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
    add_linear(all, prefix + "mlp_in", block.mlp_in, kDecay, kNoDecay);
    add_linear(all, prefix + "mlp_out", block.mlp_out, kDecay, kNoDecay);
    if (!block.router.defined()) continue;
    all.push_back({prefix + "router.weight", block.router, kRouter});
    if (!block.predictor_in.weight.defined()) continue;
    add_linear(all, prefix + "predictor_in", block.predictor_in, kPredictor, kPredictor);
    add_linear(all, prefix + "predictor_out", block.predictor_out, kPredictor, kPredictor);
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

ForwardResult Model::forward(const Tensor& tokens, const PassOptions& pass) const {
  TORCH_CHECK_VALUE(tokens.dim() == 2 && tokens.scalar_type() == at::kLong && tokens.numel() > 0,
                    "Model: expected tokens int64 [B, T], got ", tokens.scalar_type(), " ",
                    tokens.sizes());
  const int64_t batch = tokens.size(0), length = tokens.size(1);
  TORCH_CHECK_VALUE(length <= options_.seq_len, "Model: ", length,
                    " tokens are longer than seq_len ", options_.seq_len);
  ForwardResult result;
  const Tensor positions = at::arange(length, at::kLong).repeat({batch, 1});  // [B, T]
  Tensor x = at::embedding(embedding_, tokens);                               // [B, T, D]
  if (position_embedding_.defined()) x = x + position_embedding_.narrow(0, 0, length);
  for (int64_t layer = 0; layer < options_.num_layers; ++layer) {
    const Block& block = blocks_[static_cast<size_t>(layer)];
    if (block.router.defined()) {
      x = routed_block(block, layer, x, pass, result);
    } else {
      x = x + update(block, x, {positions, pass.segments, pass.bfloat16}, pass);
    }
  }
  result.hidden = apply_norm(x, norm_, options_);
  return result;
}

Tensor Model::update(const Block& block, const Tensor& x, const TokenPlaces& places,
                     const PassOptions& pass) const {
  return pass.checkpoint && x.requires_grad()
             ? block.checkpointed_update(x, places, options_, rotary_)
             : block.update(x, places, options_, rotary_);
}

Tensor Model::routed_block(const Block& block, int64_t layer, const Tensor& x,
                           const PassOptions& pass, ForwardResult& result) const {
  const RoutingOptions& routing = options_.routing;
  const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
  const Tensor stream = x.view({batch * length, width});

  RoutedLayer routed{.layer = layer};
  routed.scores = at::mv(stream, block.router).view({batch, length});
  if (block.predictor_in.weight.defined()) {
    routed.predictor_logits = block.predict(stream).view({batch, length});
  }
  // Random controls draw what is selected by, and with it maybe the gate.
  Tensor selection = routed.scores.detach();
  const bool causal = pass.routing != Routing::kTopK;
  if (routing.selection != Selection::kLearned) {
    selection = at::empty({batch, length}, at::kFloat);
    auto* draws = selection.mutable_data_ptr<float>();
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t t = 0; t < length; ++t) {
        draws[b * length + t] = random_score(pass.draw, layer, causal ? 0 : b, t);
      }
    }
    if (routing.selection == Selection::kGaussian) routed.scores = selection;
  }

  const Choice choice = make_choice(
      choose(routed, selection, static_cast<int64_t>(result.routed.size()), pass), length);
  routed.chosen = choice.chosen;
  result.routed.push_back(routed);
  if (choice.count == 0) return x;

  const Tensor selected =
      stream.index_select(0, choice.flat).view({batch, choice.count, width});  // [B, n, D]
  TokenPlaces places{.bfloat16 = pass.bfloat16};
  places.positions =
      routing.positions == RoutedPositions::kOriginal ? choice.positions : choice.ranks;
  if (pass.segments.defined()) places.segments = pass.segments.gather(1, choice.positions);
  const Tensor delta = update(block, selected, places, pass);
  Tensor scale = apply_gate(routing.gate,
                            routed.scores.reshape({-1}).index_select(0, choice.flat));  // [B * n]
  if (choice.padded) scale = scale.defined() ? scale * choice.present : choice.present;
  return add_rows(stream, delta.view({-1, width}), choice.flat, scale).view_as(x);
}

std::vector<std::vector<int64_t>> Model::choose(const RoutedLayer& routed, const Tensor& selection,
                                                int64_t index, const PassOptions& pass) const {
  const int64_t batch = selection.size(0), length = selection.size(1);
  std::vector<std::vector<int64_t>> rows(static_cast<size_t>(batch));
  if (pass.routing == Routing::kTopK) {
    const int64_t k = with_capacity(options_, pass.capacity).routed_tokens(length);
    for (int64_t b = 0; b < batch; ++b) {
      rows[static_cast<size_t>(b)] = top_k_positions(row_of(selection, b), k);
    }
    return rows;
  }
  const double share = pass.capacity > 0 ? pass.capacity : options_.routed_share();
  const float threshold = causal_threshold(pass.routing, index, share);
  const bool predicted =
      pass.routing == Routing::kPredictor && options_.routing.selection == Selection::kLearned;
  const Tensor scores = predicted ? routed.predictor_logits.detach().contiguous() : selection;
  for (int64_t b = 0; b < batch; ++b) {
    const auto row = row_of(scores, b);
    HardCap cap(pass.hard_cap ? share : 1.0);
    for (int64_t t = 0; t < length; ++t) {
      if (cap.admit(row[static_cast<size_t>(t)] > threshold, t)) {
        rows[static_cast<size_t>(b)].push_back(t);
      }
    }
  }
  return rows;
}

float Model::causal_threshold(Routing routing, int64_t index, double share) const {
  if (options_.routing.selection != Selection::kLearned) {
    return static_cast<float>(std::sqrt(2.0)) *
           at::erfinv(at::scalar_tensor(1 - 2 * share, at::kDouble)).item<float>();
  }
  TORCH_CHECK_VALUE(routing != Routing::kPredictor || options_.routing.predictor,
                    "Model: routing by predictor, but the model has none");
  if (routing == Routing::kPredictor || routing == Routing::kRouter) return 0;
  const Tensor& all = routing == Routing::kEma ? ema_thresholds : calibrated_thresholds;
  const float threshold = all[index].item<float>();
  TORCH_CHECK_VALUE(!std::isnan(threshold), "Model: routing by ",
                    routing == Routing::kEma ? "running" : "calibrated",
                    " thresholds, but the model has none");
  return threshold;
}

Tensor Model::logits(const Tensor& hidden) const {
  return at::linear(hidden, head());
}

void Model::update_ema_thresholds(const ForwardResult& result, double capacity) {
  const LmOptions options = with_capacity(options_, capacity);
  auto* thresholds = ema_thresholds.mutable_data_ptr<float>();
  for (size_t i = 0; i < result.routed.size(); ++i) {
    const Tensor scores = result.routed[i].scores.detach().contiguous();
    const int64_t k = options.routed_tokens(scores.size(1));
    double sum = 0;
    for (int64_t b = 0; b < scores.size(0); ++b) sum += top_k_threshold(row_of(scores, b), k);
    const auto mean = static_cast<float>(sum / static_cast<double>(scores.size(0)));
    const auto decay = static_cast<float>(options_.routing.ema_decay);
    thresholds[i] = std::isnan(thresholds[i]) ? mean : decay * thresholds[i] + (1 - decay) * mean;
  }
}

void Model::calibrate(const std::vector<ForwardResult>& results, double share) {
  for (int64_t layer = 0; layer < options_.num_routed(); ++layer) {
    std::vector<float> scores;
    for (const ForwardResult& result : results) {
      const Tensor part = result.routed[static_cast<size_t>(layer)].scores.detach().contiguous();
      const auto* data = part.const_data_ptr<float>();
      scores.insert(scores.end(), data, data + part.numel());
    }
    TORCH_CHECK_VALUE(!scores.empty(), "Model: calibration needs text");
    const auto k = std::clamp<int64_t>(
        static_cast<int64_t>(std::llround(share * static_cast<double>(scores.size()))), 1,
        std::ssize(scores));
    // Tokens enter above the threshold: the next lower number lets the k-th in.
    calibrated_thresholds[layer].fill_(
        std::nextafter(top_k_threshold(scores, k), -std::numeric_limits<float>::infinity()));
  }
}

Tensor apply_gate(Gate gate, const Tensor& scores) {
  switch (gate) {
    case Gate::kRaw:
      return scores;
    case Gate::kSigmoid:
      return at::sigmoid(scores);
    case Gate::kDoubleSigmoid:
      return 2 * at::sigmoid(scores);
    case Gate::kTanh:
      return at::tanh(scores);
    case Gate::kNone:
      break;
  }
  return {};
}

float apply_gate(Gate gate, float score) {
  switch (gate) {
    case Gate::kRaw:
      return score;
    case Gate::kSigmoid:
      return 1 / (1 + std::exp(-score));
    case Gate::kDoubleSigmoid:
      return 2 / (1 + std::exp(-score));
    case Gate::kTanh:
      return std::tanh(score);
    case Gate::kNone:
      break;
  }
  return 1;
}

RoutingLosses routing_losses(const ForwardResult& result, const LmOptions& options) {
  RoutingLosses losses;
  const auto count = static_cast<double>(result.routed.size());
  const auto add = [count](Tensor& total, const Tensor& logits, const Tensor& target) {
    const Tensor loss = at::binary_cross_entropy_with_logits(logits, target) / count;
    total = total.defined() ? total + loss : loss;
  };
  for (const RoutedLayer& layer : result.routed) {
    const Tensor target = layer.chosen.to(at::kFloat);
    if (layer.predictor_logits.defined()) add(losses.predictor, layer.predictor_logits, target);
    if (options.routing.aux_weight > 0) add(losses.auxiliary, layer.scores, target);
  }
  return losses;
}

}  // namespace lagom::lm

#include "lagom/lm/block.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lagom/lm/ops.h"

namespace lagom::lm {
namespace {

using at::Tensor;

/// Runs a block without recording it, and once more with recording when its gradient is asked for.
class Checkpoint : public torch::autograd::Function<Checkpoint> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x, const Block* block,
                        const TokenPlaces* places, const LmOptions* options,
                        const RotaryTables* rotary) {
    ctx->save_for_backward(
        {x, places->positions, places->segments, rotary->cosines, rotary->sines});
    ctx->saved_data["block"] = reinterpret_cast<int64_t>(block);
    ctx->saved_data["bfloat16"] = places->bfloat16;
    ctx->saved_data["options"] = reinterpret_cast<int64_t>(options);
    const at::NoGradGuard no_grad;
    return block->update(x, *places, *options, *rotary);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto* block = reinterpret_cast<const Block*>(ctx->saved_data["block"].toInt());
    const auto* options = reinterpret_cast<const LmOptions*>(ctx->saved_data["options"].toInt());
    const at::AutoGradMode with_grad(true);
    Tensor x = saved[0].detach().requires_grad_(true);
    const Tensor y = block->update(x, {saved[1], saved[2], ctx->saved_data["bfloat16"].toBool()},
                                   *options, RotaryTables{saved[3], saved[4]});
    y.backward(grads[0]);
    return {x.grad(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor Linear::operator()(const Tensor& x) const {
  const auto type = x.scalar_type();
  return at::linear(x, weight.to(type),
                    bias.defined() ? std::optional<Tensor>(bias.to(type)) : std::nullopt);
}

RotaryTables make_rotary_tables(int64_t positions, int64_t head_dim, double theta) {
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const Tensor exponents = at::arange(0, head_dim, 2, options) / static_cast<double>(head_dim);
  const Tensor frequencies = at::pow(theta, -exponents);  // [head_dim / 2]
  const Tensor angles = at::outer(at::arange(positions, options), frequencies);
  return {at::cos(angles).to(at::kFloat), at::sin(angles).to(at::kFloat)};
}

Tensor apply_norm(const Tensor& x, const NormWeights& norm, const LmOptions& options,
                  bool bfloat16) {
  if (options.norm == Norm::kRms) return rms_norm(x, norm.weight, options.norm_epsilon, bfloat16);
  const Tensor y = at::layer_norm(x, {x.size(-1)}, norm.weight, norm.bias, options.norm_epsilon);
  return bfloat16 ? y.to(at::kBFloat16) : y;
}

Tensor Block::attend(const Tensor& x, const TokenPlaces& places, const LmOptions& options,
                     const RotaryTables& rotary) const {
  AttentionPlaces attention = {.segments = places.segments,
                               .cosines = rotary.cosines,
                               .sines = rotary.sines,
                               .num_heads = options.num_heads,
                               .num_kv_heads = options.kv_heads(),
                               .head_dim = options.head_dim()};
  if (options.positions == Positions::kRotary) attention.positions = places.positions;
  const Tensor projected =
      qkv(apply_norm(x, attention_norm, options, places.bfloat16));  // [B, n, (H + 2 K) head_dim]
  return attention_out(causal_attention(projected, attention)).to(at::kFloat);  // [B, n, D]
}

Tensor Block::update(const Tensor& x, const TokenPlaces& places, const LmOptions& options,
                     const RotaryTables& rotary) const {
  const Tensor attended = attend(x, places, options, rotary);
  const Tensor expanded = mlp_in(apply_norm(x + attended, mlp_norm, options, places.bfloat16));
  const Tensor hidden =
      options.activation == Activation::kGelu ? gelu_tanh(expanded) : swiglu(expanded);
  return attended + mlp_out(hidden).to(at::kFloat);
}

Tensor Block::checkpointed_update(const Tensor& x, const TokenPlaces& places,
                                  const LmOptions& options, const RotaryTables& rotary) const {
  return Checkpoint::apply(x, this, &places, &options, &rotary);
}

Tensor ExpertWeights::predict(const Tensor& x) const {
  return predictor_out(at::silu(predictor_in(x.detach())));
}

Tensor Block::predict(const Tensor& x) const {
  return predictor_out(at::silu(predictor_in(x.detach()))).squeeze(-1);
}

}  // namespace lagom::lm

#include "lagom/cost_model/block.h"

#include <ATen/ATen.h>

#include "lagom/cost_model/fused.h"

namespace lagom::cost_model {

BlockTail::BlockTail(ParameterStore& store, const std::string& name, int64_t width,
                     const Options& options)
    : options_(options), in_width_(options.has_cross ? width / 2 : width) {
  if (options.has_attention) attention_ = ChannelAttention(store, name + ".attention", in_width_);
  if (options.has_cross) cross_ = CrossConfig(store, name + ".cross");
}

at::Tensor BlockTail::operator()(const at::Tensor& x, const at::Tensor& residual,
                                 const ForwardContext& context) const {
  if (options_.is_fused && x.scalar_type() == at::kFloat) return run_fused(x, residual, context);
  at::Tensor y = options_.has_norm ? instance_norm(x) : x;
  if (options_.has_attention) y = attention_(y, context);
  if (options_.has_cross) y = cross_(y);
  if (residual.defined()) y = y + residual;
  return dropout(at::gelu(y), options_.dropout, options_.layer, context);
}

at::Tensor BlockTail::run_fused(const at::Tensor& x, const at::Tensor& residual,
                                const ForwardContext& context) const {
  FusedTailParameters parameters;
  if (options_.has_attention) {
    parameters.down = attention_.down.weight;
    parameters.down_bias = attention_.down.bias;
    parameters.up = attention_.up.weight;
    parameters.up_bias = attention_.up.bias;
  }
  if (options_.has_cross) parameters.temperature = cross_.temperature;
  return fused_block_tail(x, residual, parameters,
                          {.has_norm = options_.has_norm,
                           .dropout = context.is_training ? options_.dropout : 0,
                           .dropout_seed = dropout_seed(options_.layer, context),
                           .bf16_dots = context.bf16_dots});
}

}  // namespace lagom::cost_model

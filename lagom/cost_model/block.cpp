#include "lagom/cost_model/block.h"

#include <ATen/ATen.h>

namespace lagom::cost_model {

BlockTail::BlockTail(ParameterStore& store, const std::string& name, int64_t width,
                     const Options& options)
    : options_(options), in_width_(options.has_cross ? width / 2 : width) {
  if (options.has_attention) attention_ = ChannelAttention(store, name + ".attention", in_width_);
  if (options.has_cross) cross_ = CrossConfig(store, name + ".cross");
}

at::Tensor BlockTail::operator()(const at::Tensor& x, const at::Tensor& residual,
                                 const ForwardContext& context) const {
  at::Tensor y = options_.has_norm ? instance_norm(x) : x;
  if (options_.has_attention) y = attention_(y, context);
  if (options_.has_cross) y = cross_(y);
  if (residual.defined()) y = y + residual;
  return dropout(at::gelu(y), options_.dropout, options_.layer, context);
}

}  // namespace lagom::cost_model

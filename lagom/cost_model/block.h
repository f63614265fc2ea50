#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "lagom/cost_model/layers.h"
#include "lagom/cost_model/model_options.h"

namespace lagom::cost_model {

/// What follows the product in each block of the 1st place's network (and of ours), x [N, C, K]:
/// instance norm where asked for, channel attention, cross-configuration attention, plus a
/// residual, GELU, dropout. With cross-configuration attention K is half of the result's width F,
/// else F.
class BlockTail {
 public:
  struct Options {
    bool has_norm = true;
    bool has_attention = true;
    bool has_cross = false;
    double dropout = 0;
    int64_t layer = 0;  ///< Tells the dropouts of one network apart.
    bool is_fused = false;
  };

  BlockTail() = default;
  /// width: F, of the result.
  BlockTail(ParameterStore& store, const std::string& name, int64_t width, const Options& options);

  /// K: what the product before must make.
  int64_t in_width() const { return in_width_; }
  /// residual: [N, C, F] or undefined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& residual,
                        const ForwardContext& context) const;

 private:
  at::Tensor run_fused(const at::Tensor& x, const at::Tensor& residual,
                       const ForwardContext& context) const;

  Options options_;
  int64_t in_width_ = 0;
  ChannelAttention attention_;
  CrossConfig cross_;
};

}  // namespace lagom::cost_model

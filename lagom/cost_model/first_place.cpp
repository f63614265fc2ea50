#include <ATen/ATen.h>

#include "lagom/cost_model/block.h"
#include "lagom/cost_model/fused.h"
#include "lagom/cost_model/network.h"

namespace lagom::cost_model {
namespace {

/// 1st place: blocks of linear layers, then of SAGE layers with residuals, each with instance norm
/// over nodes, channel attention and, by option, cross-configuration attention; mean over nodes.
class FirstPlace : public Network {
 public:
  FirstPlace(const ModelOptions& options, const NetworkInputs& inputs, uint64_t seed,
             at::ScalarType dtype)
      : Network(seed, dtype), options_(options) {
    const int64_t f = options.width;
    BlockTail::Options tail = {.has_norm = options.instance_norm,
                               .has_attention = options.channel_attention,
                               .has_cross = options.cross_config,
                               .is_fused = options.fused};
    for (int64_t i = 0; i < options.linear_layers; ++i) {
      const std::string name = "linear." + std::to_string(i);
      linear_tails_.emplace_back(store_, name, f, tail);
      const int64_t k = linear_tails_.back().in_width();
      if (i == 0) {
        input_ = InputLayer(store_, "input", options, {}, inputs, k);
      } else {
        linears_.emplace_back(store_, name, f, k);
      }
    }
    tail.has_norm = false;  // it stands before the convolution here
    tail.dropout = options.dropout;
    for (int64_t i = 0; i < options.graph_layers; ++i) {
      const std::string name = "convs." + std::to_string(i);
      tail.layer = i;
      conv_tails_.emplace_back(store_, name, f, tail);
      convs_.emplace_back(store_, name + ".conv", f, conv_tails_.back().in_width());
    }
    head_ = Linear(store_, "head", f, 1);
  }

  at::Tensor embed(const Batch& batch, const ForwardContext& context) const override {
    at::Tensor x = linear_tails_[0](input_(batch, context), {}, context);  // [N, C, F]
    for (size_t i = 0; i < linears_.size(); ++i) {
      x = linear_tails_[i + 1](linears_[i](x, context), {}, context);
    }
    for (size_t i = 0; i < convs_.size(); ++i) {
      x = conv_tails_[i](convolve(convs_[i], x, batch, context), x, context);
    }
    // Not mean(): the sum's gradient is one row for all nodes, which needs no memory.
    return x.sum(0) / static_cast<double>(x.size(0));
  }

  at::Tensor head(const at::Tensor& embedding, const Batch&,
                  const ForwardContext& context) const override {
    return head_(embedding, context).squeeze(-1);
  }

  std::vector<PooledColumns> pooled_columns() const override {
    return {{Pooling::kNodeMean, options_.width}};
  }

  bool compares_configs() const override { return options_.cross_config; }
  int64_t bytes_per_config(int64_t num_nodes) const override {
    return num_nodes * options_.width * 4 * 6;
  }

 private:
  at::Tensor convolve(const SageConv& conv, const at::Tensor& x, const Batch& batch,
                      const ForwardContext& context) const {
    const tensor::SegmentIndexPtr& index = batch.graph->to_operands;
    if (options_.fused && x.scalar_type() == at::kFloat) {
      return fused_sage(x, index, conv.neighbors.weight, conv.self.weight, conv.neighbors.bias,
                        options_.instance_norm, context.bf16_dots);
    }
    return conv(options_.instance_norm ? instance_norm(x) : x, index, context);
  }

  ModelOptions options_;
  InputLayer input_;
  std::vector<Linear> linears_;
  std::vector<BlockTail> linear_tails_, conv_tails_;
  std::vector<SageConv> convs_;
  Linear head_;
};

}  // namespace

std::unique_ptr<Network> make_first_place(const ModelOptions& options, const NetworkInputs& inputs,
                                          uint64_t seed, at::ScalarType dtype) {
  return std::make_unique<FirstPlace>(options, inputs, seed, dtype);
}

}  // namespace lagom::cost_model

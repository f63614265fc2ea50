#include <ATen/ATen.h>

#include "lagom/cost_model/block.h"
#include "lagom/cost_model/fused.h"
#include "lagom/cost_model/network.h"

namespace lagom::cost_model {
namespace {

/// W_u mean over users + W_o mean over operands + W x + b; each kind of edge, in either direction,
/// has a weight of its own.
struct TypedConv {
  TypedConv(ParameterStore& store, const std::string& name, const ModelOptions& options, int64_t in,
            int64_t out)
      : self(store, name + ".self", in, out),
        from_users(store, name + ".from_users", in, out, {.has_bias = false}) {
    if (options.bidirectional) {
      from_operands = Linear(store, name + ".from_operands", in, out, {.has_bias = false});
    }
    if (options.use_edge_kinds) {
      kind_weights = store.constant(name + ".kind_weights", {2, kNumEdgeKinds}, 1);
    }
  }

  at::Tensor operator()(const at::Tensor& x, const Batch& batch,
                        const ForwardContext& context) const {
    const PreparedGraph& graph = *batch.graph;
    at::Tensor y = self(x, context) + from_users(gather(x, graph.to_operands, 0, batch), context);
    if (from_operands.weight.defined()) {
      y = y + from_operands(gather(x, graph.to_users, 1, batch), context);
    }
    return y;
  }

  Linear self, from_users, from_operands;
  at::Tensor kind_weights;  ///< [2, kinds]

 private:
  at::Tensor gather(const at::Tensor& x, const tensor::SegmentIndexPtr& index, int64_t direction,
                    const Batch& batch) const {
    if (!kind_weights.defined()) return tensor::segment_mean(x, index);
    const tensor::Csr& csr = index->by_output();
    std::vector<double> share(static_cast<size_t>(index->num_edges()));
    for (int64_t i = 0; i < csr.num_rows(); ++i) {
      for (int64_t k = csr.offsets[static_cast<size_t>(i)];
           k < csr.offsets[static_cast<size_t>(i) + 1]; ++k) {
        share[static_cast<size_t>(csr.edges[static_cast<size_t>(k)])] =
            1.0 / static_cast<double>(csr.degree(i));
      }
    }
    const at::Tensor weights =
        kind_weights[direction].index_select(0, batch.graph->edge_kind) *
        at::tensor(share, kind_weights.options().requires_grad(false));  // [E]
    return tensor::segment_sum(x, index, weights);
  }
};

/// What is best of the others, plus what the task suggests:
/// - a *trunk* of graph layers on what does not depend on the configuration, computed once for all
///   of them ([N, 1, F]) before they join on configurable nodes;
/// - messages both ways with a weight per kind of edge;
/// - agreement of linked layouts among the configurations' inputs (InputLayer);
/// - what a configuration says of the whole graph (flags, tiles) as a token that every node sees
///   and that the head sees again;
/// - mean over all nodes, mean and largest over configurable ones.
class Ours : public Network {
 public:
  Ours(const ModelOptions& options, const NetworkInputs& inputs, uint64_t seed,
       at::ScalarType dtype)
      : Network(seed, dtype), options_(options) {
    const int64_t f = options.width;
    input_ = InputLayer(store_, "input", options, {.has_positions = true}, inputs, f);
    BlockTail::Options tail = {
        .has_norm = false, .has_attention = options.channel_attention, .is_fused = options.fused};
    for (int64_t i = 0; i < options.trunk_layers; ++i) {
      const std::string name = "trunk." + std::to_string(i);
      trunk_tails_.emplace_back(store_, name, f, tail);
      trunk_.emplace_back(store_, name + ".conv", options, f, f);
    }
    tail.has_cross = options.cross_config;
    tail.has_norm = options.instance_norm;
    for (int64_t i = 0; i < options.linear_layers; ++i) {
      const std::string name = "linear." + std::to_string(i);
      linear_tails_.emplace_back(store_, name, f, tail);
      linears_.emplace_back(store_, name, f, linear_tails_.back().in_width());
    }
    tail.has_norm = false;
    tail.dropout = options.dropout;
    for (int64_t i = 0; i < options.graph_layers; ++i) {
      const std::string name = "convs." + std::to_string(i);
      tail.layer = i;
      conv_tails_.emplace_back(store_, name, f, tail);
      convs_.emplace_back(store_, name + ".conv", options, f, conv_tails_.back().in_width());
    }
    int64_t pooled = options.pool_configs ? 3 * f : f;
    if (inputs.format.config_columns > 0) {
      token_ = Mlp(store_, "token", {inputs.format.config_columns, f, f}, Activation::kGelu);
      pooled += f;
    }
    std::vector<int64_t> widths = {pooled};
    widths.insert(widths.end(), static_cast<size_t>(options.head_layers), f);
    widths.push_back(1);
    head_ = Mlp(store_, "head", widths, Activation::kGelu);
  }

  at::Tensor embed(const Batch& batch, const ForwardContext& context) const override {
    at::Tensor trunk = input_.nodes(batch, context).unsqueeze(1);  // [N, 1, F]
    for (size_t i = 0; i < trunk_.size(); ++i) {
      const at::Tensor normal = normalized(trunk);
      trunk = trunk_tails_[i](trunk_[i](normal, batch, context), trunk, context);
    }
    at::Tensor x = join(trunk.squeeze(1), input_.configs(batch, context),
                        input_.columns(batch, context), batch);  // [N, C, F]
    for (size_t i = 0; i < linears_.size(); ++i) {
      x = linear_tails_[i](linears_[i](x, context), {}, context);
    }
    for (size_t i = 0; i < convs_.size(); ++i) {
      const at::Tensor normal = normalized(x);
      x = conv_tails_[i](convs_[i](normal, batch, context), x, context);
    }
    std::vector<at::Tensor> pooled = {x.mean(0)};
    if (options_.pool_configs) add_configs(x, batch, pooled);
    return at::cat(pooled, 1);
  }

  at::Tensor head(const at::Tensor& embedding, const Batch& batch,
                  const ForwardContext& context) const override {
    if (!batch.columns.defined()) return head_(embedding, context).squeeze(-1);
    const at::Tensor token = token_(batch.columns.to(store_.dtype()), context);  // [C, F]
    return head_(at::cat({embedding, token}, 1), context).squeeze(-1);
  }

  std::vector<PooledColumns> pooled_columns() const override {
    const int64_t f = options_.width;
    if (!options_.pool_configs) return {{Pooling::kNodeMean, f}};
    return {{Pooling::kNodeMean, f}, {Pooling::kConfigMean, f}, {Pooling::kConfigMax, f}};
  }
  bool is_head_parameter(std::string_view name) const override {
    return name.starts_with("head") || name.starts_with("token");
  }

  bool compares_configs() const override { return options_.cross_config; }
  int64_t bytes_per_config(int64_t num_nodes) const override {
    return num_nodes * options_.width * 4 * 7;
  }

 private:
  at::Tensor normalized(const at::Tensor& x) const {
    if (!options_.instance_norm) return x;
    return options_.fused && x.scalar_type() == at::kFloat ? fused_instance_norm(x)
                                                           : instance_norm(x);
  }

  static void add_configs(const at::Tensor& x, const Batch& batch,
                          std::vector<at::Tensor>& pooled) {
    if (batch.graph->configs_elsewhere) {  // nothing of this segment counts
      const at::Tensor none = at::zeros({x.size(1), x.size(2)}, x.options());
      pooled.insert(pooled.end(), 2, none);
      return;
    }
    if (batch.graph->num_config_nodes == 0) {  // tiles: every node is concerned
      pooled.push_back(x.mean(0));
      pooled.push_back(x.amax(0));
      return;
    }
    const at::Tensor configurable = x.index_select(0, batch.graph->config_nodes);
    pooled.push_back(configurable.mean(0));
    pooled.push_back(configurable.amax(0));
  }

  ModelOptions options_;
  InputLayer input_;
  std::vector<TypedConv> trunk_, convs_;
  std::vector<Linear> linears_;
  std::vector<BlockTail> trunk_tails_, linear_tails_, conv_tails_;
  Mlp token_, head_;
};

}  // namespace

std::unique_ptr<Network> make_ours(const ModelOptions& options, const NetworkInputs& inputs,
                                   uint64_t seed, at::ScalarType dtype) {
  return std::make_unique<Ours>(options, inputs, seed, dtype);
}

}  // namespace lagom::cost_model

#include <ATen/ATen.h>

#include <optional>

#include "lagom/cost_model/network.h"

namespace lagom::cost_model {
namespace {

using tensor::segment_max;
using tensor::segment_mean;
using tensor::segment_sum;

/// W x + b + W_o mean over operands + W_u mean over users.
struct BothWaysConv {
  BothWaysConv(ParameterStore& store, const std::string& name, int64_t width)
      : self(store, name + ".self", width, width),
        from_operands(store, name + ".from_operands", width, width, {.has_bias = false}),
        from_users(store, name + ".from_users", width, width, {.has_bias = false}) {}

  at::Tensor operator()(const at::Tensor& x, const PreparedGraph& graph,
                        const ForwardContext& context) const {
    return self(x, context) + from_operands(segment_mean(x, graph.to_users), context) +
           from_users(segment_mean(x, graph.to_operands), context);
  }

  Linear self, from_operands, from_users;
};

/// For graphs per configuration: each program by itself goes through layers with messages both
/// ways, and the head compares it with the program as it is, whose cost is 0 by construction. What
/// it knows of a form is the instructions that the form is made of.
///
/// Where nodes are added up, the head gives each node the logarithm of its time, and the cost is
/// that of the program's sum over that of the program as it is: what a form does to one kernel
/// counts by the kernel's share, as it does in whole programs.
class Rewritten : public Network {
 public:
  Rewritten(const ModelOptions& options, const NetworkInputs& inputs, uint64_t seed,
            at::ScalarType dtype)
      : Network(seed, dtype), options_(options) {
    const int64_t f = options.width;
    input_ = InputLayer(store_, "input", options, {.has_positions = true, .joins_configs = false},
                        inputs, f);
    for (int64_t i = 0; i < options.graph_layers; ++i) {
      convs_.emplace_back(store_, "convs." + std::to_string(i), f);
    }
    std::vector<int64_t> widths = {options.adds_nodes ? f : 2 * kPools * f};
    widths.insert(widths.end(), static_cast<size_t>(options.head_layers), f);
    widths.push_back(1);
    head_ = Mlp(store_, "head", widths, Activation::kGelu);
    if (inputs.format.config_columns > 0) {
      token_ = Mlp(store_, "head.token", {inputs.format.config_columns, kTokenWidth, 1},
                   Activation::kGelu);
    }
  }

  at::Tensor embed(const Batch& batch, const ForwardContext& context) const override {
    const PreparedGraph& graph = *batch.graph;
    at::Tensor x = at::gelu(input_.nodes(batch, context));  // [N, F]
    for (size_t i = 0; i < convs_.size(); ++i) {
      const at::Tensor y = at::gelu(convs_[i](at::layer_norm(x, {options_.width}), graph, context));
      x = x + dropout(y, options_.dropout, static_cast<int64_t>(i), context);
    }
    if (options_.adds_nodes) return times(x, batch, context);
    // Sums grow with the number of instructions: their logarithm, as with all sizes.
    const at::Tensor pooled =
        at::cat({segment_mean(x, graph.graph_nodes), segment_max(x, graph.graph_nodes),
                 segment_sum(x.relu(), graph.graph_nodes).log1p()},
                1);                                                           // [graphs, 3 F]
    const at::Tensor own = pooled.index_select(0, batch.config_graph);        // [C, 3 F]
    const at::Tensor changed = batch.config_graph.ne(0).to(x.scalar_type());  // [C]
    return at::cat({own, own - pooled[0], changed.unsqueeze(1)}, 1);
  }

  at::Tensor head(const at::Tensor& embedding, const Batch& batch,
                  const ForwardContext& context) const override {
    const int64_t last = embedding.size(1) - 1;
    at::Tensor cost = options_.adds_nodes ? embedding
                                          : head_(embedding.narrow(1, 0, last), context) *
                                                embedding.narrow(1, last, 1);
    if (token_) cost = cost + (*token_)(batch.columns.to(store_.dtype()), context);
    return cost.squeeze(-1);
  }

  /// It is not cut into segments.
  std::vector<PooledColumns> pooled_columns() const override { return {}; }
  int64_t bytes_per_config(int64_t num_nodes) const override {
    return num_nodes * options_.width * 4 * 8;
  }

 private:
  /// log(sum of the nodes' times / that of the program as it is), [C, 1].
  at::Tensor times(const at::Tensor& x, const Batch& batch, const ForwardContext& context) const {
    const at::Tensor logs = head_(at::layer_norm(x, {options_.width}), context);  // [N, 1]
    const at::Tensor largest = logs.detach().max();
    const at::Tensor sums =
        segment_sum((logs - largest).exp(), batch.graph->graph_nodes).log();  // [graphs, 1]
    return sums.index_select(0, batch.config_graph) - sums[0];
  }

  static constexpr int64_t kPools = 3, kTokenWidth = 16;

  ModelOptions options_;
  InputLayer input_;
  std::vector<BothWaysConv> convs_;
  Mlp head_;
  std::optional<Mlp> token_;  ///< Of what configurations say of the whole program: flags.
};

}  // namespace

std::unique_ptr<Network> make_rewritten(const ModelOptions& options, const NetworkInputs& inputs,
                                        uint64_t seed, at::ScalarType dtype) {
  return std::make_unique<Rewritten>(options, inputs, seed, dtype);
}

}  // namespace lagom::cost_model

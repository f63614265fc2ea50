// The official baselines (TpuGraphs' own repository), and the network without edges.

#include <ATen/ATen.h>

#include <cmath>

#include "lagom/cost_model/network.h"
#include "lagom/graph/op_graph.h"

namespace lagom::cost_model {
namespace {

using tensor::segment_mean;
using tensor::segment_sum;

constexpr LinearOptions kKeras = {.is_glorot = true};

std::vector<int64_t> head_widths(int64_t in, const ModelOptions& options) {
  std::vector<int64_t> widths = {in};
  widths.insert(widths.end(), static_cast<size_t>(options.head_layers), options.width);
  widths.push_back(1);
  return widths;
}

void require_columns(const NetworkInputs& inputs, const char* network) {
  TORCH_CHECK_VALUE(inputs.format.config_columns > 0, network,
                    ": expected graphs with values per configuration (tiles or flags), got ",
                    inputs.format.to_string());
}

/// Dense([(A + A^T) x, x]), leaky ReLU, rows to length 1.
struct JoinSage {
  JoinSage(ParameterStore& store, const std::string& name, int64_t width)
      : dense(store, name, 2 * width, width, kKeras) {}
  at::Tensor operator()(const at::Tensor& x, const Batch& batch,
                        const ForwardContext& context) const {
    const at::Tensor both = at::cat({segment_sum(x, batch.graph->to_both), x}, -1);
    return l2_normalize(activate(dense(both, context), Activation::kLeakyRelu));
  }
  Linear dense;
};

/// Tile baseline: `graph_layers` SAGE layers of summed neighbours, sum over nodes, MLP. The first
/// layer's product is taken before the sum over edges, so that the wide inputs are never joined.
class TileBaseline : public Network {
 public:
  TileBaseline(const ModelOptions& options, const NetworkInputs& inputs, uint64_t seed,
               at::ScalarType dtype, bool early)
      : Network(seed, dtype), options_(options), is_early_(early) {
    require_columns(inputs, early ? "early_join" : "late_join");
    input_ = InputLayer(store_, "input", options,
                        {.layout_form = InputOptions::LayoutForm::kValues, .joins_configs = early},
                        inputs, 2 * options.width);
    for (int64_t i = 1; i < options.graph_layers; ++i) {
      layers_.emplace_back(store_, "sage." + std::to_string(i), options.width);
    }
    const int64_t pooled = options.width + (early ? 0 : inputs.format.config_columns);
    head_ = Mlp(store_, "head", head_widths(pooled, options), Activation::kLeakyRelu, kKeras);
  }

  at::Tensor embed(const Batch& batch, const ForwardContext& context) const override {
    at::Tensor x = is_early_ ? input_(batch, context)
                             : input_.nodes(batch, context).unsqueeze(1);  // [N, C or 1, 2 F]
    const auto parts = x.chunk(2, -1);
    x = segment_sum(parts[0], batch.graph->to_both) + parts[1];
    x = l2_normalize(activate(x, Activation::kLeakyRelu));
    for (const JoinSage& layer : layers_) x = layer(x, batch, context);
    x = x.sum(0);  // [C or 1, F]
    return is_early_ ? x : x.expand({batch.num_configs, -1});
  }

  at::Tensor head(const at::Tensor& embedding, const Batch& batch,
                  const ForwardContext& context) const override {
    if (is_early_) return head_(embedding, context).squeeze(-1);
    const at::Tensor columns = batch.columns.to(embedding.scalar_type());
    return head_(at::cat({embedding, columns}, 1), context).squeeze(-1);
  }

  std::vector<PooledColumns> pooled_columns() const override {
    return {{Pooling::kSum, options_.width}};
  }

  int64_t bytes_per_config(int64_t num_nodes) const override {
    return is_early_ ? num_nodes * options_.width * 4 * 8 : options_.width * 4 * 4;
  }

 private:
  ModelOptions options_;
  bool is_early_;
  InputLayer input_;
  std::vector<JoinSage> layers_;
  Mlp head_;
};

/// Layout baseline, ResModel: layers MLP(D^-1/2 (A + A^T + I) D^-1/2 [configurations, x]) with a
/// residual; mean and normalised sums over all and over configurable nodes.
class LayoutResnet : public Network {
 public:
  LayoutResnet(const ModelOptions& options, const NetworkInputs& inputs, uint64_t seed,
               at::ScalarType dtype)
      : Network(seed, dtype), options_(options) {
    TORCH_CHECK_VALUE(inputs.format.has_layouts,
                      "layout_resnet: expected graphs with layouts, got ",
                      inputs.format.to_string());
    const int64_t f = options.width;
    nodes_ = InputLayer(store_, "input", options,
                        {.layout_form = InputOptions::LayoutForm::kValues, .joins_configs = false},
                        inputs, f);
    prenet_ = Mlp(store_, "prenet", {f, f}, Activation::kLeakyRelu, kKeras);
    for (int64_t i = 0; i < options.graph_layers; ++i) {
      const std::string name = "layers." + std::to_string(i);
      configs_.emplace_back(store_, name + ".configs", graph::kLayoutConfigFeatures, f,
                            LinearOptions{.has_bias = false});
      self_.emplace_back(store_, name + ".x", f, f, LinearOptions{.has_bias = false});
      dense_.emplace_back(store_, name + ".dense", f, f, kKeras);
    }
    head_ = Mlp(store_, "head", {3 * f, f, 1}, Activation::kLeakyRelu,
                {.has_bias = false, .is_glorot = true});
  }

  at::Tensor embed(const Batch& batch, const ForwardContext& context) const override {
    const at::Tensor scale = inverse_root_degrees(batch);  // [N, 1, 1]
    at::Tensor x = prenet_(activate(nodes_.nodes(batch, context), Activation::kLeakyRelu), context);
    x = activate(x, Activation::kLeakyRelu)
            .unsqueeze(1)
            .expand({batch.num_nodes(), batch.num_configs, options_.width});  // [N, C, F]
    const at::Tensor layouts = batch.layouts.to(store_.dtype()) * 100;        // [nc, C, 18]
    for (size_t i = 0; i < dense_.size(); ++i) {
      // The product with [configurations, x], each part by itself.
      at::Tensor y = self_[i](x, context)
                         .index_add(0, batch.graph->config_nodes, configs_[i](layouts, context));
      y = scale * y;
      y = scale * (segment_sum(y, batch.graph->to_both) + y);
      y = dense_[i](activate(y, Activation::kLeakyRelu), context);
      x = x + activate(y, Activation::kLeakyRelu);
    }
    const at::Tensor at_configs = x.index_select(0, batch.graph->config_nodes);
    return at::cat({x.mean(0), x.sum(0), at_configs.sum(0)}, 1);
  }

  at::Tensor head(const at::Tensor& embedding, const Batch&,
                  const ForwardContext& context) const override {
    const auto parts = embedding.chunk(3, 1);
    const at::Tensor pooled =
        at::cat({parts[0], l2_normalize(parts[1]), l2_normalize(parts[2])}, 1);
    return head_(pooled, context).squeeze(-1);
  }

  std::vector<PooledColumns> pooled_columns() const override {
    return {{Pooling::kNodeMean, options_.width}, {Pooling::kSum, 2 * options_.width}};
  }

  int64_t bytes_per_config(int64_t num_nodes) const override {
    return num_nodes * options_.width * 4 * 7;
  }

 private:
  at::Tensor inverse_root_degrees(const Batch& batch) const {
    const tensor::Csr& csr = batch.graph->to_both->by_output();
    std::vector<double> scale;
    for (int64_t i = 0; i < csr.num_rows(); ++i) {
      scale.push_back(1 / std::sqrt(static_cast<double>(csr.degree(i) + 1)));
    }
    return at::tensor(scale, at::TensorOptions().dtype(store_.dtype())).view({-1, 1, 1});
  }

  ModelOptions options_;
  InputLayer nodes_;
  Mlp prenet_, head_;
  std::vector<Linear> configs_, self_, dense_;
};

/// Each node by itself: two hidden layers, mean over all nodes and over configurable ones.
class NodeMlp : public Network {
 public:
  NodeMlp(const ModelOptions& options, const NetworkInputs& inputs, uint64_t seed,
          at::ScalarType dtype)
      : Network(seed, dtype), options_(options) {
    const int64_t f = options.width;
    input_ = InputLayer(store_, "input", options, {}, inputs, f);
    hidden_ = Linear(store_, "hidden", f, f);
    head_ = Mlp(store_, "head", head_widths(2 * f, options), Activation::kRelu);
  }

  at::Tensor embed(const Batch& batch, const ForwardContext& context) const override {
    const at::Tensor x = hidden_(input_(batch, context).relu(), context).relu();  // [N, C, F]
    const at::Tensor configurable = x.index_select(0, batch.graph->config_nodes);
    return at::cat({x.mean(0), configurable.sum(0) / std::max<double>(1, configurable.size(0))}, 1);
  }

  at::Tensor head(const at::Tensor& embedding, const Batch&,
                  const ForwardContext& context) const override {
    return head_(embedding, context).squeeze(-1);
  }

  std::vector<PooledColumns> pooled_columns() const override {
    return {{Pooling::kNodeMean, options_.width}, {Pooling::kConfigMean, options_.width}};
  }

  int64_t bytes_per_config(int64_t num_nodes) const override {
    return num_nodes * options_.width * 4 * 4;
  }

 private:
  ModelOptions options_;
  InputLayer input_;
  Linear hidden_;
  Mlp head_;
};

}  // namespace

std::unique_ptr<Network> make_early_join(const ModelOptions& options, const NetworkInputs& inputs,
                                         uint64_t seed, at::ScalarType dtype) {
  return std::make_unique<TileBaseline>(options, inputs, seed, dtype, /*early=*/true);
}
std::unique_ptr<Network> make_late_join(const ModelOptions& options, const NetworkInputs& inputs,
                                        uint64_t seed, at::ScalarType dtype) {
  return std::make_unique<TileBaseline>(options, inputs, seed, dtype, /*early=*/false);
}
std::unique_ptr<Network> make_layout_resnet(const ModelOptions& options,
                                            const NetworkInputs& inputs, uint64_t seed,
                                            at::ScalarType dtype) {
  return std::make_unique<LayoutResnet>(options, inputs, seed, dtype);
}
std::unique_ptr<Network> make_mlp(const ModelOptions& options, const NetworkInputs& inputs,
                                  uint64_t seed, at::ScalarType dtype) {
  return std::make_unique<NodeMlp>(options, inputs, seed, dtype);
}

}  // namespace lagom::cost_model

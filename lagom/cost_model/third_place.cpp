#include <ATen/ATen.h>

#include "lagom/cost_model/network.h"

namespace lagom::cost_model {
namespace {

/// Linear attention over the nodes of one graph (Katharopoulos et al. 2020, arXiv 2006.16236):
/// phi(q) (sum over nodes of phi(k)^T v) / (phi(q) sum over nodes of phi(k)), phi = ELU + 1.
struct LinearAttention {
  LinearAttention(ParameterStore& store, const std::string& name, int64_t in, int64_t out)
      : query(store, name + ".query", in, out),
        key(store, name + ".key", in, out),
        value(store, name + ".value", in, out) {}

  at::Tensor operator()(const at::Tensor& x, const ForwardContext& context) const {
    const at::Tensor q = (at::elu(query(x, context)) + 1).transpose(0, 1);  // [C, N, M]
    const at::Tensor k = (at::elu(key(x, context)) + 1).transpose(0, 1);    // [C, N, M]
    const at::Tensor v = value(x, context).transpose(0, 1);                 // [C, N, M]
    const at::Tensor summary = at::bmm(k.transpose(1, 2), v);               // [C, M, M]
    const at::Tensor norm = at::bmm(q, k.sum(1).unsqueeze(-1));             // [C, N, 1]
    return (at::bmm(q, summary) / norm).transpose(0, 1);                    // [N, C, M]
  }

  Linear query, key, value;
};

/// [messages from users, messages from operands, attention, x] -> Linear -> SiLU -> layer norm.
/// Positions have a stream of their own, which the messages see.
struct GpsLayer {
  GpsLayer(ParameterStore& store, const std::string& name, int64_t in, int64_t out,
           int64_t messages, int64_t positions, bool is_last)
      : from_users(store, name + ".from_users", in + positions, messages),
        from_operands(store, name + ".from_operands", in + positions, messages),
        attention(store, name + ".attention", in, messages),
        mix(store, name + ".mix", in + 3 * messages, out),
        gain(store.constant(name + ".gain", {out}, 1)),
        shift(store.constant(name + ".shift", {out}, 0)) {
    if (positions > 0 && !is_last)
      position_conv = SageConv(store, name + ".positions", positions, positions);
  }

  at::Tensor operator()(const at::Tensor& x, at::Tensor& positions, const Batch& batch,
                        const ForwardContext& context) const {
    const PreparedGraph& graph = *batch.graph;
    at::Tensor seen = x;
    if (positions.defined()) {
      seen = at::cat({x, positions.unsqueeze(1).expand({-1, x.size(1), -1})}, -1);
    }
    // The product first: messages are narrower than what they come from.
    const at::Tensor up = tensor::segment_mean(from_users(seen, context), graph.to_operands);
    const at::Tensor down = tensor::segment_mean(from_operands(seen, context), graph.to_users);
    const at::Tensor y = mix(at::cat({up, down, attention(x, context), x}, -1), context);
    if (position_conv.self.weight.defined()) {
      positions = position_conv(positions, graph.to_both, context).tanh();
    }
    return at::layer_norm(at::silu(y), {y.size(-1)}, gain, shift);
  }

  Linear from_users, from_operands;
  LinearAttention attention;
  Linear mix;
  at::Tensor gain, shift;
  SageConv position_conv;
};

/// 3rd place: GPS-like layers (messages both ways, linear attention, positional features), then an
/// MLP, summed over nodes.
class ThirdPlace : public Network {
 public:
  ThirdPlace(const ModelOptions& options, const NetworkInputs& inputs, uint64_t seed,
             at::ScalarType dtype)
      : Network(seed, dtype), options_(options) {
    input_ = InputLayer(store_, "input", options,
                        {.layout_form = InputOptions::LayoutForm::kValues,
                         .value_scale = 0.2,
                         .has_positions = true},
                        inputs, options.width);
    int64_t width = options.width;
    for (const int64_t next : options.graph_widths) {
      layers_.emplace_back(store_, "layers." + std::to_string(layers_.size()), width, next,
                           options.message_width, inputs.position_columns,
                           layers_.size() + 1 == options.graph_widths.size());
      width = next;
    }
    std::vector<int64_t> widths(static_cast<size_t>(options.head_layers) + 1, width);
    mlp_ = Mlp(store_, "mlp", widths, Activation::kSilu);
    head_ = Linear(store_, "head", width, 1, {.has_bias = false});
  }

  at::Tensor embed(const Batch& batch, const ForwardContext& context) const override {
    at::Tensor x = at::silu(input_(batch, context));  // [N, C, F]
    at::Tensor positions = batch.graph->node_positions;
    if (positions.defined()) positions = positions.to(store_.dtype());
    for (const GpsLayer& layer : layers_) x = layer(x, positions, batch, context);
    return mlp_(x, context).sum(0);
  }

  at::Tensor head(const at::Tensor& embedding, const Batch&,
                  const ForwardContext& context) const override {
    return head_(embedding, context).squeeze(-1);
  }

  std::vector<PooledColumns> pooled_columns() const override {
    return {{Pooling::kSum,
             options_.graph_widths.empty() ? options_.width : options_.graph_widths.back()}};
  }

  int64_t bytes_per_config(int64_t num_nodes) const override {
    return num_nodes * (options_.width * 4 + options_.message_width * 9) * 4;
  }

 private:
  ModelOptions options_;
  InputLayer input_;
  std::vector<GpsLayer> layers_;
  Mlp mlp_;
  Linear head_;
};

}  // namespace

std::unique_ptr<Network> make_third_place(const ModelOptions& options, const NetworkInputs& inputs,
                                          uint64_t seed, at::ScalarType dtype) {
  return std::make_unique<ThirdPlace>(options, inputs, seed, dtype);
}

}  // namespace lagom::cost_model

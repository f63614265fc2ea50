#include <ATen/ATen.h>

#include "lagom/cost_model/network.h"

namespace lagom::cost_model {
namespace {

/// 2nd place: plain SAGE layers without normalisation, a scalar per node, summed: the cost is a
/// latency. Node features go through a narrow layer first, configurations join as plain numbers;
/// residuals where widths match.
class SecondPlace : public Network {
 public:
  SecondPlace(const ModelOptions& options, const NetworkInputs& inputs, uint64_t seed,
              at::ScalarType dtype)
      : Network(seed, dtype), options_(options) {
    input_ = InputLayer(
        store_, "input", options,
        {.layout_form = InputOptions::LayoutForm::kValues, .node_channels = options.node_channels},
        inputs, options.width);
    int64_t width = options.width;
    for (const int64_t next : options.graph_widths) {
      convs_.emplace_back(store_, "convs." + std::to_string(convs_.size()), width, next);
      width = next;
    }
    head_ = Linear(store_, "head", width, 1);
  }

  at::Tensor embed(const Batch& batch, const ForwardContext& context) const override {
    at::Tensor x = input_(batch, context).relu();  // [N, C, F]
    for (const SageConv& conv : convs_) {
      const at::Tensor y = conv(x, batch.graph->to_operands, context).relu();
      x = y.size(-1) == x.size(-1) ? x + y : y;
    }
    return head_(x, context).squeeze(-1).sum(0).unsqueeze(-1);  // [C, 1]
  }

  /// The cost is the sum of the nodes' own: there is nothing behind it.
  at::Tensor head(const at::Tensor& embedding, const Batch&, const ForwardContext&) const override {
    return embedding.squeeze(-1);
  }

  std::vector<PooledColumns> pooled_columns() const override { return {{Pooling::kSum, 1}}; }
  bool is_head_parameter(std::string_view) const override { return false; }

  int64_t bytes_per_config(int64_t num_nodes) const override {
    int64_t widest = options_.width;
    for (const int64_t width : options_.graph_widths) widest = std::max(widest, width);
    return num_nodes * widest * 4 * 5;
  }

 private:
  ModelOptions options_;
  InputLayer input_;
  std::vector<SageConv> convs_;
  Linear head_;
};

}  // namespace

std::unique_ptr<Network> make_second_place(const ModelOptions& options, const NetworkInputs& inputs,
                                           uint64_t seed, at::ScalarType dtype) {
  return std::make_unique<SecondPlace>(options, inputs, seed, dtype);
}

}  // namespace lagom::cost_model

#include "lagom/cost_model/network.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <numeric>

#include "lagom/graph/op_graph.h"
#include "lagom/util/error.h"

namespace lagom::cost_model {
namespace {

constexpr int64_t kOpcodes = 256;
constexpr int64_t kLayoutValues = 8;  // -2 (not configurable) to 5
constexpr int64_t kForms = 128;       // numbers of forms are append-only; room for later ones

at::Tensor layout_codes(const at::Tensor& values) {
  return (values.to(at::kLong) + 2).clamp(0, kLayoutValues - 1);
}

}  // namespace

std::unique_ptr<Network> make_network(const ModelOptions& options, const NetworkInputs& inputs,
                                      uint64_t seed, at::ScalarType dtype) {
  options.validate();
  TORCH_CHECK_VALUE(inputs.format.has_config_graphs == (options.kind == ModelKind::kRewritten),
                    "network '", option_names(options.kind)[static_cast<size_t>(options.kind)],
                    "': expected graphs with ",
                    inputs.format.has_config_graphs ? "one graph for all configurations"
                                                    : "a graph per configuration",
                    ", got ", inputs.format.to_string());
  switch (options.kind) {
    case ModelKind::kOurs:
      return make_ours(options, inputs, seed, dtype);
    case ModelKind::kEarlyJoin:
      return make_early_join(options, inputs, seed, dtype);
    case ModelKind::kLateJoin:
      return make_late_join(options, inputs, seed, dtype);
    case ModelKind::kLayoutResnet:
      return make_layout_resnet(options, inputs, seed, dtype);
    case ModelKind::kMlp:
      return make_mlp(options, inputs, seed, dtype);
    case ModelKind::kFirstPlace:
      return make_first_place(options, inputs, seed, dtype);
    case ModelKind::kSecondPlace:
      return make_second_place(options, inputs, seed, dtype);
    case ModelKind::kThirdPlace:
      return make_third_place(options, inputs, seed, dtype);
    case ModelKind::kRewritten:
      return make_rewritten(options, inputs, seed, dtype);
  }
  TORCH_INTERNAL_ASSERT(false, "unknown network");
}

void Network::load_parameters(const tensor::TensorFile& file, const std::string& path) const {
  const at::NoGradGuard no_gradients;
  for (const auto& [name, value] : parameters()) {
    const at::Tensor found = file.find(name);
    if (!found.defined()) throw FormatError(path, name, "is missing");
    if (found.sizes() != value.sizes()) {
      throw FormatError(path, name, "is of another shape: the file is of another architecture");
    }
    value.copy_(found);
  }
}

InputLayer::InputLayer(ParameterStore& store, const std::string& name, const ModelOptions& model,
                       const InputOptions& options, const NetworkInputs& inputs, int64_t out)
    : options_(options) {
  opcode_embedding_ =
      store.normal(name + ".opcode_embedding", {kOpcodes, model.opcode_channels}, 1);
  const bool embeds = options.layout_form == InputOptions::LayoutForm::kEmbedding;
  const bool has_layouts = inputs.format.has_layouts;
  const int64_t layout_width = embeds ? model.layout_channels : 1;
  int64_t features = graph::num_node_features(inputs.format.feature_version);
  if (options.node_channels > 0) {
    node_features_ = Linear(store, name + ".node_features", features, options.node_channels);
    features = options.node_channels;
  }
  int64_t node_width = features + model.opcode_channels + inputs.position_columns;
  if (!options.has_positions) node_width -= inputs.position_columns;
  if (embeds && has_layouts) {
    layout_embedding_ =
        store.normal(name + ".layout_embedding", {kLayoutValues, model.layout_channels}, 1);
    if (options.has_own_layout) node_width += kNodeLayoutColumns * layout_width;
  }
  node_ = Linear(store, name + ".node", node_width, out);
  if (options.joins_configs && has_layouts) {
    int64_t config_width = graph::kLayoutConfigFeatures * layout_width;
    if (inputs.has_agreement) config_width += kAgreementColumns;
    if (inputs.format.has_forms) {
      form_embedding_ = store.normal(name + ".form_embedding", {kForms, model.form_channels}, 1);
      config_width += model.form_channels + kBarrierBits;
    }
    config_ = Linear(store, name + ".config", config_width, out, {.has_bias = false});
  }
  if (options.joins_configs && options.joins_columns && inputs.format.config_columns > 0) {
    columns_ =
        Linear(store, name + ".columns", inputs.format.config_columns, out, {.has_bias = false});
  }
}

at::Tensor InputLayer::nodes(const Batch& batch, const ForwardContext& context) const {
  const PreparedGraph& graph = *batch.graph;
  const at::ScalarType dtype = node_.weight.scalar_type();
  const int64_t n = graph.num_nodes;
  at::Tensor features = graph.node_feat.to(dtype);
  if (node_features_.weight.defined()) features = node_features_(features, context);
  std::vector<at::Tensor> parts = {features, at::embedding(opcode_embedding_, graph.node_opcode)};
  if (options_.has_positions && graph.node_positions.defined()) {
    parts.push_back(graph.node_positions.to(dtype));
  }
  if (layout_embedding_.defined() && options_.has_own_layout) {
    parts.push_back(
        at::embedding(layout_embedding_, layout_codes(graph.node_layout)).view({n, -1}));
  }
  const at::Tensor x = node_(at::cat(parts, 1), context);  // [N, F]
  if (!layout_embedding_.defined() || !config_.weight.defined()) return x;
  // Nodes that are not configurable have code 0 at all 18 places; `configs` takes it off again.
  const at::Tensor other = layout_embedding_[0].repeat({graph::kLayoutConfigFeatures});
  return x + at::linear(other, config_.weight.narrow(1, 0, other.size(0)));
}

at::Tensor InputLayer::configs(const Batch& batch, const ForwardContext& context) const {
  if (!config_.weight.defined()) return {};
  const at::ScalarType dtype = config_.weight.scalar_type();
  std::vector<at::Tensor> parts;
  if (layout_embedding_.defined()) {
    parts.push_back(
        (at::embedding(layout_embedding_, layout_codes(batch.layouts)) - layout_embedding_[0])
            .flatten(2));  // [nc, C, 18 * channels]
  } else {
    parts.push_back(batch.layouts.to(dtype) * options_.value_scale);  // [nc, C, 18]
  }
  if (form_embedding_.defined()) {
    TORCH_CHECK_VALUE(batch.forms.numel() == 0 || batch.forms.max().item<int64_t>() < kForms,
                      batch.graph->path, ": a form's number is past ", kForms);
    parts.push_back(at::embedding(form_embedding_, batch.forms));  // [nc, C, channels]
    parts.push_back(batch.barriers.to(dtype));                     // [nc, C, 8]
  }
  const int64_t have =
      std::accumulate(parts.begin(), parts.end(), int64_t{0},
                      [](int64_t sum, const at::Tensor& part) { return sum + part.size(-1); });
  if (config_.weight.size(1) > have) {
    // A graph without any link says nothing about agreement.
    parts.push_back(batch.agreement.defined() ? batch.agreement.to(dtype)
                                              : at::zeros({batch.graph->num_config_nodes,
                                                           batch.num_configs, kAgreementColumns},
                                                          config_.weight.options()));
  }
  return config_(at::cat(parts, -1), context);  // [nc, C, F]
}

at::Tensor InputLayer::columns(const Batch& batch, const ForwardContext& context) const {
  if (!columns_.weight.defined()) return {};
  return columns_(batch.columns.to(columns_.weight.scalar_type()), context);  // [C, F]
}

at::Tensor InputLayer::operator()(const Batch& batch, const ForwardContext& context) const {
  return join(nodes(batch, context), configs(batch, context), columns(batch, context), batch);
}

at::Tensor join(const at::Tensor& nodes, const at::Tensor& configs, const at::Tensor& columns,
                const Batch& batch) {
  at::Tensor x = nodes.unsqueeze(1);                    // [N, 1, F]
  if (columns.defined()) x = x + columns.unsqueeze(0);  // [N, C, F]
  x = x.expand({batch.num_nodes(), batch.num_configs, nodes.size(1)});
  return configs.defined() ? x.index_add(0, batch.graph->config_nodes, configs) : x;
}

}  // namespace lagom::cost_model

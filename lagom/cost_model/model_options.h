#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lagom::cost_model {

enum class ModelKind {
  kOurs,
  kEarlyJoin,     ///< Official tile baseline, configurations joined before the graph layers.
  kLateJoin,      ///< The same, joined after pooling.
  kLayoutResnet,  ///< Official layout baseline, ResModel.
  kMlp,           ///< No edges.
  kFirstPlace,
  kSecondPlace,
  kThirdPlace,
  kRewritten,  ///< For a graph per configuration (FeatureFormat::has_config_graphs).
};
std::span<const std::string_view> option_names(ModelKind);

/// Every network's sizes; a network reads those that it names. configs/cost_model has each source's
/// own values.
struct ModelOptions {
  ModelKind kind = ModelKind::kOurs;
  int64_t width = 256;                ///< F.
  std::vector<int64_t> graph_widths;  ///< Of each graph layer, where they differ (2nd, 3rd place).
  int64_t linear_layers = 2;          ///< 1st place, ours: blocks before the graph layers.
  int64_t graph_layers = 2;           ///< Layers over edges, without `graph_widths`.
  int64_t trunk_layers = 2;           ///< Ours: graph layers before configurations join.
  int64_t opcode_channels = 16;       ///< Width of the opcode's embedding.
  int64_t layout_channels = 4;        ///< Of one layout value's.
  int64_t form_channels = 16;         ///< Of a form's, where graphs have forms.
  int64_t message_width = 128;        ///< 3rd place: of messages and of linear attention.
  int64_t node_channels = 20;         ///< 2nd place: node features are first brought to these.
  int64_t head_layers = 1;  ///< 3rd place, ours, baselines: hidden layers before the cost.
  double dropout = 0.2;
  bool channel_attention = true;  ///< Squeeze-excite; 1st place, ours.
  bool cross_config = false;      ///< Cross-configuration attention; 1st place, ours.
  bool instance_norm = true;      ///< 1st place, ours.
  bool bidirectional = true;      ///< Ours: messages both ways.
  bool use_edge_kinds = true;     ///< Ours: a learned weight per kind of edge and direction.
  bool pool_configs = true;       ///< Ours: configurable nodes pooled a second time by themselves.
  bool adds_nodes = false;        ///< Rewritten: a program's time is the sum of its nodes'.
  bool bf16_dots = false;         ///< Matrix products in bfloat16, all else in float.
  bool fused = true;              ///< Own kernels where a network has them.

  /// Throws std::invalid_argument naming the first field that is out of range.
  void validate() const;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("kind", self.kind);
    visit("width", self.width);
    visit("graph_widths", self.graph_widths);
    visit("linear_layers", self.linear_layers);
    visit("graph_layers", self.graph_layers);
    visit("trunk_layers", self.trunk_layers);
    visit("opcode_channels", self.opcode_channels);
    visit("layout_channels", self.layout_channels);
    visit("form_channels", self.form_channels);
    visit("message_width", self.message_width);
    visit("node_channels", self.node_channels);
    visit("head_layers", self.head_layers);
    visit("dropout", self.dropout);
    visit("channel_attention", self.channel_attention);
    visit("cross_config", self.cross_config);
    visit("instance_norm", self.instance_norm);
    visit("bidirectional", self.bidirectional);
    visit("use_edge_kinds", self.use_edge_kinds);
    visit("pool_configs", self.pool_configs);
    visit("adds_nodes", self.adds_nodes);
    visit("bf16_dots", self.bf16_dots);
    visit("fused", self.fused);
  }
};

}  // namespace lagom::cost_model

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "lagom/cost_model/batch.h"
#include "lagom/cost_model/layers.h"
#include "lagom/cost_model/model_options.h"
#include "lagom/tensor/parameters.h"

/// The networks: a graph and C configurations in, C costs out. One source file per network.
namespace lagom::cost_model {

/// What a network is built for, beside its options.
struct NetworkInputs {
  FeatureFormat format;
  int64_t position_columns = 0;  ///< DataOptions::position_steps.
  bool has_agreement = false;    ///< DataOptions::link_hops > 0.
};

/// How an embedding's columns come from the nodes, and so how those of a graph come from those of
/// its segments.
enum class Pooling {
  kSum,         ///< Over nodes.
  kNodeMean,    ///< Over nodes.
  kConfigMean,  ///< Over configurable nodes, or over all nodes of a graph that has none.
  kConfigMax,   ///< The largest over the same.
};
struct PooledColumns {
  Pooling pooling;
  int64_t columns;
};

/// An *encoder*, from a graph or a segment of it to one vector per configuration (its embedding),
/// and a *head* from that vector to the cost. Norms and attention over nodes see the nodes of the
/// segment alone.
class Network {
 public:
  virtual ~Network() = default;

  /// [C] costs, lower is faster (of a classifier [C, classes]): the head's of the whole embedding.
  at::Tensor forward(const Batch& batch, const ForwardContext& context) const {
    return head(embed(batch, context), batch, context);
  }
  /// [C, P]
  virtual at::Tensor embed(const Batch& batch, const ForwardContext& context) const = 0;
  /// Of `batch` only what configurations say of the whole graph is used.
  virtual at::Tensor head(const at::Tensor& embedding, const Batch& batch,
                          const ForwardContext& context) const = 0;
  /// What the P columns of `embed` are.
  virtual std::vector<PooledColumns> pooled_columns() const = 0;
  /// Whether a parameter of this name is the head's.
  virtual bool is_head_parameter(std::string_view name) const { return name.starts_with("head"); }

  /// Whether a configuration's cost depends on which others are in the batch.
  virtual bool compares_configs() const { return false; }
  /// About how many bytes one configuration of a graph of so many nodes takes in a forward pass
  /// without gradients.
  virtual int64_t bytes_per_config(int64_t num_nodes) const = 0;

  const std::vector<tensor::NamedTensor>& parameters() const { return store_.all(); }
  /// Copies the parameters of a file. Throws FormatError, naming `path`, for one that is missing or
  /// of another shape.
  void load_parameters(const tensor::TensorFile& file, const std::string& path) const;
  int64_t num_parameters() const { return store_.num_values(); }

 protected:
  Network(uint64_t seed, at::ScalarType dtype) : store_(seed, dtype) {}
  tensor::ParameterStore store_;
};

/// Throws std::invalid_argument for options out of range, c10::ValueError for a format that the
/// network cannot take: tiles for a layout network, a graph per configuration for any but
/// `rewritten`.
std::unique_ptr<Network> make_network(const ModelOptions& options, const NetworkInputs& inputs,
                                      uint64_t seed, at::ScalarType dtype = at::kFloat);

/// Turns what is known of nodes and configurations into the first activations, as a linear layer on
/// the concatenation of everything would, without ever making that concatenation: the nodes' part
/// is computed once, the configurations' part on configurable nodes only, and what a configuration
/// says of the whole graph once per configuration.
struct InputOptions {
  enum class LayoutForm {
    kValues,     ///< As numbers, times `value_scale`; 0 on other nodes.
    kEmbedding,  ///< One shared embedding per value; other nodes have a value of their own.
  };
  LayoutForm layout_form = LayoutForm::kEmbedding;
  double value_scale = 1;
  bool has_own_layout = true;  ///< The node's own layout through the same embedding (kEmbedding).
  /// Node features go through a linear layer of this width first; 0: they do not.
  int64_t node_channels = 0;
  bool has_positions = false;
  bool joins_configs = true;  ///< False: only the nodes' part.
  bool joins_columns = true;  ///< False: the configurations' columns are left out.
};

class InputLayer {
 public:
  InputLayer() = default;
  InputLayer(ParameterStore& store, const std::string& name, const ModelOptions& model,
             const InputOptions& options, const NetworkInputs& inputs, int64_t out);

  /// The nodes' part with the bias: [N, F].
  at::Tensor nodes(const Batch& batch, const ForwardContext& context) const;
  /// What configurations add on configurable nodes: [nc, C, F]; undefined when the format has no
  /// such part.
  at::Tensor configs(const Batch& batch, const ForwardContext& context) const;
  /// What configurations add on every node: [C, F]; undefined likewise.
  at::Tensor columns(const Batch& batch, const ForwardContext& context) const;

  /// All together: [N, C, F].
  at::Tensor operator()(const Batch& batch, const ForwardContext& context) const;

 private:
  InputOptions options_;
  at::Tensor opcode_embedding_, layout_embedding_, form_embedding_;
  Linear node_features_, node_, config_, columns_;
};

/// nodes [N, F] for every configuration, plus `configs` [nc, C, F] at configurable nodes and
/// `columns` [C, F] everywhere; either may be undefined. [N, C, F]
at::Tensor join(const at::Tensor& nodes, const at::Tensor& configs, const at::Tensor& columns,
                const Batch& batch);

std::unique_ptr<Network> make_early_join(const ModelOptions&, const NetworkInputs&, uint64_t,
                                         at::ScalarType);
std::unique_ptr<Network> make_late_join(const ModelOptions&, const NetworkInputs&, uint64_t,
                                        at::ScalarType);
std::unique_ptr<Network> make_layout_resnet(const ModelOptions&, const NetworkInputs&, uint64_t,
                                            at::ScalarType);
std::unique_ptr<Network> make_mlp(const ModelOptions&, const NetworkInputs&, uint64_t,
                                  at::ScalarType);
std::unique_ptr<Network> make_first_place(const ModelOptions&, const NetworkInputs&, uint64_t,
                                          at::ScalarType);
std::unique_ptr<Network> make_second_place(const ModelOptions&, const NetworkInputs&, uint64_t,
                                           at::ScalarType);
std::unique_ptr<Network> make_third_place(const ModelOptions&, const NetworkInputs&, uint64_t,
                                          at::ScalarType);
std::unique_ptr<Network> make_rewritten(const ModelOptions&, const NetworkInputs&, uint64_t,
                                        at::ScalarType);
std::unique_ptr<Network> make_ours(const ModelOptions&, const NetworkInputs&, uint64_t,
                                   at::ScalarType);

}  // namespace lagom::cost_model

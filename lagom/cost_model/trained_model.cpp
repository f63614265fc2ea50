#include "lagom/cost_model/trained_model.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "lagom/util/error.h"
#include "lagom/util/options.h"

namespace lagom::cost_model {
namespace {

constexpr const char* kFormat = "lagom cost model 1";

/// All that a model file says beside its tensors.
struct FileOptions {
  ModelOptions model;
  DataOptions data;
  SegmentOptions segments;
  FeatureFormat format;
  std::vector<std::string> devices;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("feature_version", self.format.feature_version);
    visit("list_padding", self.format.list_padding);
    visit("config_columns", self.format.config_columns);
    visit("has_layouts", self.format.has_layouts);
    visit("has_forms", self.format.has_forms);
    visit("has_config_graphs", self.format.has_config_graphs);
    visit("devices", self.devices);
    visit("model", self.model);
    visit("data", self.data);
    visit("segments", self.segments);
  }
};

at::Tensor to_tensor(const std::vector<double>& values) {
  return at::tensor(values, at::kDouble);
}

std::vector<double> to_vector(const tensor::TensorFile& file, const std::string& path,
                              const char* name, int64_t size) {
  const at::Tensor found = file.find(name);
  if (!found.defined() || found.scalar_type() != at::kDouble || found.numel() != size) {
    throw FormatError(path, name, "is missing or of another size");
  }
  const at::Tensor values = found.contiguous();
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + size};
}

std::vector<tensor::NamedTensor> normalization_tensors(const Normalization& n) {
  return {{"normalization.node_shift", to_tensor(n.node_shift)},
          {"normalization.node_scale", to_tensor(n.node_scale)},
          {"normalization.config_shift", to_tensor(n.config_shift)},
          {"normalization.config_scale", to_tensor(n.config_scale)}};
}

/// Nodes of the largest graph of any configuration.
int64_t largest_graph(const PreparedGraph& graph) {
  int64_t most = 0;
  for (size_t g = 0; g + 1 < graph.graph_splits.size(); ++g) {
    most = std::max(most, graph.graph_splits[g + 1] - graph.graph_splits[g]);
  }
  return most;
}

/// [first, last) of `parts` parts of `count`, equal up to one.
std::pair<int64_t, int64_t> part(int64_t count, int64_t parts, int64_t number) {
  return {count * number / parts, count * (number + 1) / parts};
}

}  // namespace

TrainedModel::TrainedModel(const ModelOptions& model, const DataOptions& data,
                           const SegmentOptions& segments, Normalization normalization,
                           uint64_t seed)
    : model_(model),
      data_(data),
      segments_(segments),
      normalization_(std::move(normalization)),
      network_(make_network(model,
                            {.format = normalization_.format,
                             .position_columns = data.position_steps,
                             .has_agreement = data.link_hops > 0},
                            seed)) {}

TrainedModel TrainedModel::load(const std::filesystem::path& path) {
  const tensor::TensorFile file = tensor::load_tensors(path);
  const auto kind = file.metadata.find("format");
  const auto text = file.metadata.find("options");
  if (kind == file.metadata.end() || kind->second != kFormat || text == file.metadata.end()) {
    throw FormatError(path.string(), "format", "is no cost model");
  }
  FileOptions options;
  options_from_toml(text->second, path.string(), options);
  Normalization n{.format = options.format, .transform = options.data.transform};
  const int64_t columns = graph::num_node_features(options.format.feature_version);
  n.node_shift = to_vector(file, path.string(), "normalization.node_shift", columns);
  n.node_scale = to_vector(file, path.string(), "normalization.node_scale", columns);
  n.config_shift =
      to_vector(file, path.string(), "normalization.config_shift", options.format.config_columns);
  n.config_scale =
      to_vector(file, path.string(), "normalization.config_scale", options.format.config_columns);
  TrainedModel model(options.model, options.data, options.segments, std::move(n), /*seed=*/0);
  model.load_parameters(file, path.string());
  model.set_devices(options.devices);
  return model;
}

void TrainedModel::load_parameters(const tensor::TensorFile& file, const std::string& path) {
  network_->load_parameters(file, path);
}

void TrainedModel::save(const std::filesystem::path& path,
                        const std::vector<tensor::NamedTensor>& more,
                        const formats::SafetensorsMetadata& more_metadata) const {
  std::vector<tensor::NamedTensor> tensors;
  for (const auto& [name, value] : network_->parameters()) {
    tensors.emplace_back(name, value.detach());
  }
  for (const auto& each : normalization_tensors(normalization_)) tensors.push_back(each);
  tensors.insert(tensors.end(), more.begin(), more.end());
  formats::SafetensorsMetadata metadata = more_metadata;
  metadata["format"] = kFormat;
  metadata["options"] = options_to_toml(FileOptions{.model = model_,
                                                    .data = data_,
                                                    .segments = segments_,
                                                    .format = normalization_.format,
                                                    .devices = devices_});
  tensor::save_tensors(path, tensors, metadata);
}

PreparedGraphPtr TrainedModel::prepare(const GraphData& graph) const {
  return cut_graph(prepare_graph(graph, normalization_, data_), segments_);
}

std::vector<double> TrainedModel::costs(const GraphData& graph, const PreparedGraph& prepared,
                                        std::span<const int64_t> rows,
                                        const InferenceOptions& options) const {
  const at::NoGradGuard no_gradients;
  const ForwardContext context = {.bf16_dots = options.bf16_dots || model_.bf16_dots};
  const bool compares = network_->compares_configs();
  const SegmentedNetwork segmented(*network_, segments_);
  int64_t most_nodes = prepared.segments.empty() ? prepared.num_nodes : 0;
  if (prepared.format.has_config_graphs) most_nodes = largest_graph(prepared);
  for (const GraphSegment& segment : prepared.segments) {
    most_nodes = std::max(most_nodes, segment.graph->num_nodes);
  }
  const int64_t per_config = std::max<int64_t>(1, network_->bytes_per_config(most_nodes));
  int64_t at_once = std::clamp<int64_t>(options.max_bytes / per_config, 1, 4096);
  if (compares) at_once = std::min(at_once, options.compared_configs);
  const auto count = static_cast<int64_t>(rows.size());
  const int64_t parts = (count + at_once - 1) / at_once;

  std::vector<double> sums(rows.size(), 0);
  std::vector<int64_t> order(rows.size()), chunk;
  std::iota(order.begin(), order.end(), 0);
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(1);
  const PreparedGraphPtr shared(std::shared_ptr<void>(), &prepared);  // the caller keeps it
  const int64_t rounds = compares ? 1 + options.permutations : 1;
  for (int64_t round = 0; round < rounds; ++round) {
    if (round > 0) {
      const at::Tensor shuffled = at::randperm(count, generator, at::kLong);
      std::copy_n(shuffled.const_data_ptr<int64_t>(), count, order.begin());
    }
    for (int64_t p = 0; p < parts; ++p) {
      const auto [first, last] = part(count, parts, p);
      chunk.clear();
      for (int64_t i = first; i < last; ++i) {
        chunk.push_back(rows[static_cast<size_t>(order[static_cast<size_t>(i)])]);
      }
      at::Tensor found;  // [C]
      if (prepared.segments.empty()) {
        found = network_->forward(make_batch(shared, graph.read(chunk), normalization_), context);
      } else {
        found = segmented.forward(
            prepared,
            make_whole_batch(shared, graph.read(chunk, std::span<const int64_t>{}), normalization_),
            [&](int64_t segment) {
              return segment_batch(prepared, graph, chunk, segment, normalization_);
            },
            context);
      }
      found = found.to(at::kDouble).contiguous();
      for (int64_t i = first; i < last; ++i) {
        sums[static_cast<size_t>(order[static_cast<size_t>(i)])] +=
            found.const_data_ptr<double>()[i - first];
      }
    }
  }
  for (double& sum : sums) sum /= static_cast<double>(rounds);
  return sums;
}

std::vector<double> TrainedModel::costs(const GraphData& graph,
                                        const InferenceOptions& options) const {
  const PreparedGraphPtr prepared = prepare(graph);
  std::vector<int64_t> rows(static_cast<size_t>(graph.num_configs));
  std::iota(rows.begin(), rows.end(), 0);
  return costs(graph, *prepared, rows, options);
}

ModelRanker::ModelRanker(std::vector<TrainedModel> models, InferenceOptions options)
    : models_(std::move(models)), options_(options) {
  if (models_.empty()) throw std::invalid_argument("ModelRanker: there is no model");
}

std::vector<double> ModelRanker::costs(const rank::ConfiguredGraph& graph) {
  return costs(*view_graph(graph));
}

std::vector<double> ModelRanker::costs(const GraphData& graph) const {
  if (models_.size() == 1) return models_.front().costs(graph, options_);
  std::vector<double> sum(static_cast<size_t>(graph.num_configs), 0);
  for (const TrainedModel& model : models_) {
    const std::vector<double> costs = model.costs(graph, options_);
    const auto count = static_cast<double>(costs.size());
    const double mean = std::accumulate(costs.begin(), costs.end(), 0.0) / count;
    double squares = 0;
    for (const double cost : costs) squares += (cost - mean) * (cost - mean);
    const double deviation = std::sqrt(squares / count);
    for (size_t i = 0; i < costs.size(); ++i) {
      sum[i] +=
          deviation > 0 ? (costs[i] - mean) / deviation / static_cast<double>(models_.size()) : 0;
    }
  }
  return sum;
}

}  // namespace lagom::cost_model

#include "lagom/cost_model/classifier.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "lagom/cost_model/layers.h"
#include "lagom/train/check_field.h"
#include "lagom/util/error.h"
#include "lagom/util/options.h"

namespace lagom::cost_model {
namespace {

constexpr const char* kFormat = "lagom graph classifier 1";

class ClassifierNetwork : public Network {
 public:
  ClassifierNetwork(const ClassifierNetworkOptions& options, int64_t num_classes, uint64_t seed,
                    at::ScalarType dtype)
      : Network(seed, dtype), options_(options) {
    const int64_t f = options.width;
    input_ = Linear(store_, "input", graph::kDegreeFeatures, f);
    for (int64_t i = 0; i < options.graph_layers; ++i) {
      convs_.emplace_back(store_, "convs." + std::to_string(i), f, f);
    }
    std::vector<int64_t> widths(static_cast<size_t>(options.head_layers) + 1, f);
    widths.push_back(num_classes);
    head_ = Mlp(store_, "head", widths, Activation::kRelu);
  }

  at::Tensor embed(const Batch& batch, const ForwardContext& context) const override {
    const PreparedGraph& graph = *batch.graph;
    at::Tensor x = input_(graph.node_feat.to(store_.dtype()), context).unsqueeze(1);  // [N, 1, F]
    for (size_t i = 0; i < convs_.size(); ++i) {
      const at::Tensor y = convs_[i](at::layer_norm(x, {x.size(-1)}), graph.to_both, context);
      x = x + dropout(y.relu(), options_.dropout, static_cast<int64_t>(i), context);
    }
    // The sum's gradient is one row for all nodes, which needs no memory.
    return x.sum(0) / static_cast<double>(x.size(0));
  }

  at::Tensor head(const at::Tensor& embedding, const Batch&,
                  const ForwardContext& context) const override {
    return head_(embedding, context);
  }

  std::vector<PooledColumns> pooled_columns() const override {
    return {{Pooling::kNodeMean, options_.width}};
  }
  int64_t bytes_per_config(int64_t num_nodes) const override {
    return num_nodes * options_.width * 4 * 5;
  }

 private:
  ClassifierNetworkOptions options_;
  Linear input_;
  std::vector<SageConv> convs_;
  Mlp head_;
};

struct FileOptions {
  std::vector<std::string> classes;
  int64_t label_depth = 1;
  ClassifierNetworkOptions model;
  SegmentOptions segments;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("classes", self.classes);
    visit("label_depth", self.label_depth);
    visit("model", self.model);
    visit("segments", self.segments);
  }
};

}  // namespace

void ClassifierNetworkOptions::validate() const {
  const auto check = [](bool ok, const char* field, const char* expected, double found) {
    train::check_field(ok, (std::string("model.") + field).c_str(), expected, found);
  };
  check(width >= 1 && width <= 4096, "width", "1 to 4096", static_cast<double>(width));
  check(graph_layers >= 0 && graph_layers <= 64, "graph_layers", "0 to 64",
        static_cast<double>(graph_layers));
  check(head_layers >= 0 && head_layers <= 16, "head_layers", "0 to 16",
        static_cast<double>(head_layers));
  check(dropout >= 0 && dropout < 1, "dropout", "a number in [0, 1)", dropout);
}

std::unique_ptr<Network> make_classifier_network(const ClassifierNetworkOptions& options,
                                                 int64_t num_classes, uint64_t seed,
                                                 at::ScalarType dtype) {
  options.validate();
  return std::make_unique<ClassifierNetwork>(options, num_classes, seed, dtype);
}

PreparedGraphPtr prepare_edge_list(const graph::EdgeListGraph& graph, const std::string& name,
                                   const SegmentOptions& segments) {
  auto out = std::make_shared<PreparedGraph>();
  out->id = out->path = name;
  out->num_nodes = graph.num_nodes;
  out->config_nodes = at::zeros({0}, at::kLong);
  std::vector<float> features = graph::local_degree_profile(graph.num_nodes, graph.edge_index);
  for (float& value : features) value = std::log1p(value);
  out->node_feat =
      at::from_blob(features.data(), {graph.num_nodes, graph::kDegreeFeatures}, at::kFloat).clone();
  std::vector<int32_t> from, to;
  from.reserve(graph.edge_index.size() / 2);
  to.reserve(graph.edge_index.size() / 2);
  for (size_t e = 0; e + 1 < graph.edge_index.size(); e += 2) {
    from.push_back(static_cast<int32_t>(graph.edge_index[e]));
    to.push_back(static_cast<int32_t>(graph.edge_index[e + 1]));
  }
  set_edges(*out, from, to);
  return cut_graph(out, segments);
}

Batch classifier_batch(const PreparedGraphPtr& graph) {
  return {.graph = graph, .num_configs = 1};
}

std::vector<std::string> classes_below(const std::vector<std::string>& folders,
                                       int64_t label_depth) {
  std::vector<std::string> classes;
  for (const std::string& folder : folders) {
    for (const auto& file : graph::list_edge_lists(folder, label_depth)) {
      classes.push_back(file.label);
    }
  }
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return classes;
}

std::vector<ClassGraph> open_class_graphs(const std::vector<std::string>& folders,
                                          int64_t label_depth,
                                          const std::vector<std::string>& classes,
                                          const SegmentOptions& segments) {
  std::vector<ClassGraph> graphs;
  for (const std::string& folder : folders) {
    for (const auto& file : graph::list_edge_lists(folder, label_depth)) {
      const auto found = std::find(classes.begin(), classes.end(), file.label);
      if (found == classes.end()) {
        throw FormatError(file.path.string(), "", "'" + file.label + "' is no class of the model");
      }
      graphs.push_back({.path = file.path.string(),
                        .prepared = prepare_edge_list(graph::read_edge_list(file.path),
                                                      file.path.string(), segments),
                        .label = found - classes.begin()});
    }
  }
  return graphs;
}

TrainedClassifier::TrainedClassifier(const ClassifierNetworkOptions& model,
                                     const SegmentOptions& segments,
                                     std::vector<std::string> classes, int64_t label_depth,
                                     uint64_t seed)
    : model_(model),
      segments_(segments),
      classes_(std::move(classes)),
      label_depth_(label_depth),
      network_(make_classifier_network(model, std::ssize(classes_), seed)) {}

bool TrainedClassifier::is_one(const std::filesystem::path& path) {
  const tensor::TensorFile file = tensor::load_tensors(path);
  const auto kind = file.metadata.find("format");
  return kind != file.metadata.end() && kind->second == kFormat;
}

TrainedClassifier TrainedClassifier::load(const std::filesystem::path& path) {
  const tensor::TensorFile file = tensor::load_tensors(path);
  const auto kind = file.metadata.find("format");
  const auto text = file.metadata.find("options");
  if (kind == file.metadata.end() || kind->second != kFormat || text == file.metadata.end()) {
    throw FormatError(path.string(), "format", "is no graph classifier");
  }
  FileOptions options;
  options_from_toml(text->second, path.string(), options);
  TrainedClassifier model(options.model, options.segments, options.classes, options.label_depth,
                          /*seed=*/0);
  model.load_parameters(file, path.string());
  return model;
}

void TrainedClassifier::load_parameters(const tensor::TensorFile& file, const std::string& path) {
  network_->load_parameters(file, path);
}

void TrainedClassifier::save(const std::filesystem::path& path,
                             const std::vector<tensor::NamedTensor>& more,
                             const formats::SafetensorsMetadata& more_metadata) const {
  std::vector<tensor::NamedTensor> tensors;
  for (const auto& [name, value] : network_->parameters()) {
    tensors.emplace_back(name, value.detach());
  }
  tensors.insert(tensors.end(), more.begin(), more.end());
  formats::SafetensorsMetadata metadata = more_metadata;
  metadata["format"] = kFormat;
  metadata["options"] = options_to_toml(FileOptions{
      .classes = classes_, .label_depth = label_depth_, .model = model_, .segments = segments_});
  tensor::save_tensors(path, tensors, metadata);
}

std::vector<double> TrainedClassifier::probabilities(const PreparedGraphPtr& graph) const {
  const at::NoGradGuard no_gradients;
  at::Tensor logits;  // [1, classes]
  if (graph->segments.empty()) {
    logits = network_->forward(classifier_batch(graph), {});
  } else {
    logits =
        SegmentedNetwork(*network_, segments_)
            .forward(*graph, classifier_batch(graph),
                     [&](int64_t segment) {
                       return classifier_batch(graph->segments[static_cast<size_t>(segment)].graph);
                     },
                     {});
  }
  const at::Tensor shares = at::softmax(logits.to(at::kDouble), 1).contiguous();
  return {shares.const_data_ptr<double>(), shares.const_data_ptr<double>() + shares.numel()};
}

double Confusion::accuracy() const {
  int64_t right = 0, all = 0;
  for (size_t row = 0; row < counts.size(); ++row) {
    right += counts[row][row];
    all += std::accumulate(counts[row].begin(), counts[row].end(), int64_t{0});
  }
  return all == 0 ? 0 : static_cast<double>(right) / static_cast<double>(all);
}

Confusion evaluate_classifier(const TrainedClassifier& model,
                              const std::vector<ClassGraph>& graphs) {
  Confusion confusion(model.classes().size());
  for (const ClassGraph& graph : graphs) {
    const std::vector<double> shares = model.probabilities(graph.prepared);
    const auto found = std::max_element(shares.begin(), shares.end()) - shares.begin();
    ++confusion.counts[static_cast<size_t>(graph.label)][static_cast<size_t>(found)];
  }
  return confusion;
}

}  // namespace lagom::cost_model

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lagom/cost_model/network.h"
#include "lagom/cost_model/segments.h"
#include "lagom/graph/edge_list.h"
#include "lagom/tensor/safetensors.h"

/// Whole-graph classification, Graph Segment Training's second task: graphs of MalNet's form
/// (lagom/graph/edge_list.h), nodes known by their local degree profiles.
namespace lagom::cost_model {

/// Linear, then layers x + dropout(relu(SAGE(layer norm(x)))) over edges both ways, the mean over
/// nodes, an MLP. Norms are of each node by itself, so that segments see what the whole graph sees
/// but for the edges between them.
struct ClassifierNetworkOptions {
  int64_t width = 64;  ///< F
  int64_t graph_layers = 2;
  int64_t head_layers = 1;  ///< Hidden layers before the classes.
  double dropout = 0.1;

  /// Throws std::invalid_argument naming the first field that is out of range.
  void validate() const;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("width", self.width);
    visit("graph_layers", self.graph_layers);
    visit("head_layers", self.head_layers);
    visit("dropout", self.dropout);
  }
};

/// A Network whose forward gives [1, classes] for a graph's one configuration.
std::unique_ptr<Network> make_classifier_network(const ClassifierNetworkOptions& options,
                                                 int64_t num_classes, uint64_t seed,
                                                 at::ScalarType dtype = at::kFloat);

/// A graph as networks take it in, its features log(1 + local degree profile), cut by `segments`.
PreparedGraphPtr prepare_edge_list(const graph::EdgeListGraph& graph, const std::string& name,
                                   const SegmentOptions& segments);

/// A graph, or a segment, with its one configuration.
Batch classifier_batch(const PreparedGraphPtr& graph);

/// Several files as training and evaluation need them; labels are numbers of `classes`.
struct ClassGraph {
  std::string path;
  PreparedGraphPtr prepared;
  int64_t label = 0;
};
/// Throws SystemError, and FormatError as list_edge_lists and for a label that is no class.
std::vector<ClassGraph> open_class_graphs(const std::vector<std::string>& folders,
                                          int64_t label_depth,
                                          const std::vector<std::string>& classes,
                                          const SegmentOptions& segments);
/// The labels below the folders, sorted.
std::vector<std::string> classes_below(const std::vector<std::string>& folders,
                                       int64_t label_depth);

/// A network with what it needs to be asked: what a model file holds.
class TrainedClassifier {
 public:
  TrainedClassifier(const ClassifierNetworkOptions& model, const SegmentOptions& segments,
                    std::vector<std::string> classes, int64_t label_depth, uint64_t seed);
  /// Throws SystemError and FormatError.
  static TrainedClassifier load(const std::filesystem::path& path);
  /// Whether a safetensors file is such a model.
  static bool is_one(const std::filesystem::path& path);

  void save(const std::filesystem::path& path, const std::vector<tensor::NamedTensor>& more = {},
            const formats::SafetensorsMetadata& more_metadata = {}) const;
  void load_parameters(const tensor::TensorFile& file, const std::string& path);

  Network& network() const { return *network_; }
  const std::vector<std::string>& classes() const { return classes_; }
  int64_t label_depth() const { return label_depth_; }
  const SegmentOptions& segment_options() const { return segments_; }
  void ask_whole_graphs() { segments_ = {}; }

  /// [classes] probabilities; graph: prepared with `segment_options`.
  std::vector<double> probabilities(const PreparedGraphPtr& graph) const;

 private:
  ClassifierNetworkOptions model_;
  SegmentOptions segments_;
  std::vector<std::string> classes_;
  int64_t label_depth_;
  std::unique_ptr<Network> network_;
};

/// How often graphs of class `row` were taken for class `column`.
struct Confusion {
  explicit Confusion(size_t num_classes) : counts(num_classes, std::vector<int64_t>(num_classes)) {}
  std::vector<std::vector<int64_t>> counts;
  double accuracy() const;
};
Confusion evaluate_classifier(const TrainedClassifier& model,
                              const std::vector<ClassGraph>& graphs);

}  // namespace lagom::cost_model

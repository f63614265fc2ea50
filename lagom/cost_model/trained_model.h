#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lagom/cost_model/batch.h"
#include "lagom/cost_model/network.h"
#include "lagom/cost_model/segments.h"
#include "lagom/rank/metrics.h"
#include "lagom/rank/ranker.h"
#include "lagom/tensor/safetensors.h"

namespace lagom::cost_model {

/// How a trained network is asked.
struct InferenceOptions {
  int64_t max_bytes = int64_t{1} << 29;  ///< Of activations at once: decides the chunks.
  /// Configurations at once where a network compares them; fewer where memory says so. Costs are
  /// then relative to their chunk: configurations are cut, in their order, into equal chunks of at
  /// most so many, and the chunks' costs stand side by side.
  int64_t compared_configs = 128;
  /// Costs are averaged over so many random orders besides the given one, so that chunks differ;
  /// only where a network compares configurations.
  int64_t permutations = 0;
  bool bf16_dots = false;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("max_bytes", self.max_bytes);
    visit("compared_configs", self.compared_configs);
    visit("permutations", self.permutations);
    visit("bf16_dots", self.bf16_dots);
  }
};

/// A network with all that it needs to take in graphs: what a model file holds.
class TrainedModel {
 public:
  /// A fresh network.
  TrainedModel(const ModelOptions& model, const DataOptions& data, const SegmentOptions& segments,
               Normalization normalization, uint64_t seed);
  /// Throws SystemError and FormatError: not a model file, cut off, parameters that are not the
  /// options' network's.
  static TrainedModel load(const std::filesystem::path& path);

  /// Parameters, normalisation, options and feature format, with `more` tensors and metadata beside
  /// them. A failure leaves the file that was there. Throws SystemError.
  void save(const std::filesystem::path& path, const std::vector<tensor::NamedTensor>& more = {},
            const formats::SafetensorsMetadata& more_metadata = {}) const;
  /// Copies the parameters of a file that was saved from this architecture.
  void load_parameters(const tensor::TensorFile& file, const std::string& path);

  const ModelOptions& model_options() const { return model_; }
  const DataOptions& data_options() const { return data_; }
  /// Where its training runtimes were measured (measure::device_key), sorted; empty: not known.
  const std::vector<std::string>& devices() const { return devices_; }
  void set_devices(std::vector<std::string> devices) { devices_ = std::move(devices); }
  /// How graphs are cut; the network is asked as it was trained unless this is changed.
  const SegmentOptions& segment_options() const { return segments_; }
  void ask_whole_graphs() { segments_ = {}; }
  const Normalization& normalization() const { return normalization_; }
  Network& network() const { return *network_; }

  PreparedGraphPtr prepare(const GraphData& graph) const;
  /// [rows]: costs of these configurations; lower is faster. Memory is bounded by the options
  /// whatever their number, and where graphs are cut whatever the graph's size. prepared: by
  /// `prepare`, or as it does.
  std::vector<double> costs(const GraphData& graph, const PreparedGraph& prepared,
                            std::span<const int64_t> rows, const InferenceOptions& options) const;
  /// Of all of a graph's configurations.
  std::vector<double> costs(const GraphData& graph, const InferenceOptions& options) const;

 private:
  ModelOptions model_;
  DataOptions data_;
  SegmentOptions segments_;
  Normalization normalization_;
  std::vector<std::string> devices_;
  std::unique_ptr<Network> network_;
};

/// Several models' costs, each scaled to mean 0 and deviation 1 per graph, averaged; of one model
/// its costs as they are.
class ModelRanker : public rank::Ranker {
 public:
  /// Throws std::invalid_argument without models.
  ModelRanker(std::vector<TrainedModel> models, InferenceOptions options);

  std::vector<double> costs(const rank::ConfiguredGraph& graph) override;
  std::vector<double> costs(const GraphData& graph) const;

 private:
  std::vector<TrainedModel> models_;
  InferenceOptions options_;
};

}  // namespace lagom::cost_model

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "lagom/cost_model/batch.h"
#include "lagom/cost_model/history.h"
#include "lagom/cost_model/network.h"

/// Graph Segment Training (Cao et al. 2023, arXiv 2305.12322): a graph is cut into segments, a step
/// takes gradients through a few of them and the memory of a step is theirs, whatever the graph's.
///
/// - *segment*: a part of a graph's nodes, with the edges between them;
/// - *sampled* segment: one that a step encodes with gradients;
/// - *history*: embeddings of the others from earlier steps (historical embedding table);
/// - *weight* (eta): what a segment's embedding counts in a step, 0 for one that is left out.
namespace lagom::cost_model {

enum class SegmentMethod { kNone, kMetis, kContiguous, kComputation };
std::span<const std::string_view> option_names(SegmentMethod);

/// Where a step takes the embeddings of segments that it does not sample from.
enum class OtherSegments {
  kFresh,    ///< GST: encoded without gradients.
  kNone,     ///< GST-One: the sampled segments stand for the graph.
  kHistory,  ///< +E: the historical embedding table.
};
std::span<const std::string_view> option_names(OtherSegments);

enum class Aggregation {
  /// As the network pools nodes: the sum, mean or largest over the nodes of all segments, so that
  /// only edges between segments are missing from the whole graph's embedding.
  kPooling,
  kSum,   ///< Of the segments' embeddings.
  kMean,  ///< The same.
};
std::span<const std::string_view> option_names(Aggregation);

enum class SegmentHead {
  kGraph,    ///< The head sees the aggregate.
  kSegment,  ///< The head gives each segment a cost; costs are aggregated (the paper's TpuGraphs).
};
std::span<const std::string_view> option_names(SegmentHead);

/// What the history holds of an embedding that was never stored.
enum class WarmStart {
  kLazy,   ///< It is encoded, without gradients, when a step first asks for it.
  kPass,   ///< All of them are, in one pass before the first step.
  kZeros,  ///< Zeros, as in the paper's code.
};
std::span<const std::string_view> option_names(WarmStart);

struct SegmentOptions {
  SegmentMethod method = SegmentMethod::kNone;  ///< kNone trains on whole graphs.
  int64_t max_nodes = 5000;                     ///< Of a segment.
  int64_t sampled = 1;                          ///< S; 0: all segments, with gradients.
  OtherSegments others = OtherSegments::kHistory;
  /// +D, stale embedding dropout: each segment that is not sampled counts with this probability p;
  /// a sampled one then weighs p + (1 - p) J / S of J segments. 1: no dropout.
  double keep_probability = 0.5;
  Aggregation aggregation = Aggregation::kPooling;
  SegmentHead head = SegmentHead::kGraph;
  /// +F: in this share of the steps, the last ones, the encoder is frozen and only the head is
  /// trained, on all segments' embeddings by that encoder.
  double finetune_share = 0;
  WarmStart warm_start = WarmStart::kLazy;
  HistoryOptions history;

  /// Throws std::invalid_argument naming the first field that is out of range, or that does not go
  /// with another.
  void validate() const;
  bool cuts() const { return method != SegmentMethod::kNone; }

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("method", self.method);
    visit("max_nodes", self.max_nodes);
    visit("sampled", self.sampled);
    visit("others", self.others);
    visit("keep_probability", self.keep_probability);
    visit("aggregation", self.aggregation);
    visit("head", self.head);
    visit("finetune_share", self.finetune_share);
    visit("warm_start", self.warm_start);
    visit("history", self.history);
  }
};

/// The graph with its segments; itself where `options` do not cut.
PreparedGraphPtr cut_graph(const PreparedGraphPtr& graph, const SegmentOptions& options);

/// What a step does with each segment of a graph.
struct SegmentPlan {
  std::vector<int64_t> sampled;  ///< Ascending; all of a graph that has fewer than asked for.
  std::vector<double> weights;   ///< [J]; the expected value of each is 1 but for GST-One.
};
/// A function of its arguments alone. `number`: of the sample in the run.
SegmentPlan plan_segments(int64_t num_segments, const SegmentOptions& options, int64_t seed,
                          int64_t number);

/// A network asked segment by segment.
class SegmentedNetwork {
 public:
  /// Both must outlive it.
  SegmentedNetwork(const Network& network, const SegmentOptions& options)
      : network_(network), options_(options) {}

  /// Columns of a segment's embedding: P, or 1 where segments have heads.
  int64_t num_columns() const;
  /// [C, columns]
  at::Tensor encode(const Batch& segment, const ForwardContext& context) const;

  /// Adds up a graph's segments, one after the other, in any order.
  class Sum {
   public:
    Sum(const SegmentedNetwork& network, const PreparedGraph& graph,
        std::span<const double> weights);
    /// embedding: [C, columns]. Segments of weight 0 must be left out.
    void add(int64_t segment, const at::Tensor& embedding);
    /// [C, columns]
    at::Tensor value() const;

   private:
    at::Tensor scaled(int64_t segment, const at::Tensor& embedding) const;

    const SegmentedNetwork& network_;
    const PreparedGraph& graph_;
    std::span<const double> weights_;
    double node_total_ = 0, config_total_ = 0, segment_total_ = 0;
    at::Tensor linear_, largest_;
  };

  /// [C] (of a classifier [C, classes]) from a graph's aggregate.
  at::Tensor finish(const at::Tensor& aggregate, const Batch& whole,
                    const ForwardContext& context) const;

  /// All of a graph's segments freshly encoded, one at a time.
  at::Tensor forward(const PreparedGraph& graph, const Batch& whole,
                     const std::function<Batch(int64_t segment)>& batch_of,
                     const ForwardContext& context) const;

 private:
  std::vector<PooledColumns> columns() const;

  const Network& network_;
  const SegmentOptions& options_;
};

/// A graph of a step.
struct SegmentedSample {
  int64_t graph = 0;                        ///< Its number, in the history.
  std::span<const int64_t> configs;         ///< [C]: numbers of its configurations.
  const PreparedGraph* prepared = nullptr;  ///< The graph, cut.
  const SegmentPlan* plan = nullptr;
  Batch whole;  ///< Without nodes: what the configurations say of the whole graph.
  std::function<Batch(int64_t segment)> batch_of;  ///< Of a segment with these configurations.
};

/// What a step met in the history.
struct StaleReport {
  int64_t used = 0, missing = 0;     ///< Embeddings (of a configuration and segment) that counted.
  int64_t age_sum = 0, age_max = 0;  ///< Steps since those used were made.
};

/// [C]: a training step's costs. Sampled segments are encoded with gradients, and stored in
/// `history` as of step `step`; the others come from where the options say. `history` may be null
/// where they say nothing of it.
at::Tensor segmented_costs(const Network& network, const SegmentOptions& options,
                           const SegmentedSample& sample, const ForwardContext& context,
                           HistoryTable* history, int64_t step, StaleReport& report);

/// [C]: the head's costs with gradients, of embeddings by an encoder that no longer changes: those
/// in `history`, or fresh ones that are then stored there.
at::Tensor finetune_costs(const Network& network, const SegmentOptions& options,
                          const SegmentedSample& sample, const ForwardContext& context,
                          HistoryTable& history, int64_t step);

/// Stores what `history` lacks of a graph's configurations.
void fill_history(const Network& network, const SegmentOptions& options,
                  const SegmentedSample& sample, const ForwardContext& context,
                  HistoryTable& history, int64_t step);

}  // namespace lagom::cost_model

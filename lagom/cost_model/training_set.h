#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "lagom/cost_model/batch.h"
#include "lagom/cost_model/graph_data.h"
#include "lagom/cost_model/segments.h"

namespace lagom::cost_model {

/// A graph with its labels, ready for a network.
struct TrainingGraph {
  LabeledGraph source;
  PreparedGraphPtr prepared;
  /// What runtimes are divided by: 1 where they are relative to a default's, else their median.
  double runtime_scale = 1;
};

/// Opens and prepares graphs one after the other. Throws FormatError for a graph of another format
/// than the normalisation, without labels, or with nothing that a configuration could change.
std::vector<TrainingGraph> prepare_graphs(const std::vector<LabeledGraph>& graphs,
                                          const Normalization& normalization,
                                          const DataOptions& options,
                                          const SegmentOptions& segments = {});

/// Some of the rows that `source.labels` names, with their labels. picks: places in `labels.rows`.
/// Of a graph that is cut without nodes.
Batch labeled_batch(const TrainingGraph& graph, std::span<const int64_t> picks,
                    const Normalization& normalization);

/// One segment of a graph that is cut.
Batch segment_batch(const TrainingGraph& graph, std::span<const int64_t> picks, int64_t segment,
                    const Normalization& normalization);

struct SamplingOptions {
  int64_t configs = 64;  ///< C; all of a graph that has fewer.
  /// Graphs come as often as the square root of their number of configurations; else equally.
  bool by_num_configs = false;
  int64_t seed = 0;
};

/// What sample `index` of a run is: which graph, which of its rows. A function of seed and index
/// alone, so a run goes on where it stopped by counting on. Without `by_num_configs` every graph
/// comes once in each round of as many samples as there are graphs.
struct Sample {
  size_t graph = 0;
  std::vector<int64_t> picks;  ///< Ascending, different.
};
Sample sample_at(const std::vector<TrainingGraph>& graphs, const SamplingOptions& options,
                 int64_t index);

struct LoadedSample {
  Sample sample;
  Batch batch;  ///< labeled_batch
  // Of a graph that is cut:
  SegmentPlan plan;
  std::vector<Batch> sampled;  ///< Of each of plan.sampled.
};

/// Makes the batches of a run ahead of it, on a thread of its own.
class BatchLoader {
 public:
  /// The first batch is that of sample `first_index`. What it is given must outlive it.
  BatchLoader(const std::vector<TrainingGraph>& graphs, const Normalization& normalization,
              const SamplingOptions& options, const SegmentOptions& segments, int64_t first_index);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// The next one, in order. Rethrows what the thread met.
  LoadedSample next();

 private:
  void run(int64_t index);

  const std::vector<TrainingGraph>& graphs_;
  const Normalization& normalization_;
  SamplingOptions options_;
  SegmentOptions segments_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<LoadedSample> ready_;
  std::exception_ptr failure_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace lagom::cost_model
